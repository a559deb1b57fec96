"""The installed tree, as those who link it meet it: moved to another place, found by find_package and by pkg-config.

usage: package_test.py CMAKE GENERATOR BUILD_DIR SOURCE_DIR CC CXX FAKE_LIBCUDA [unittest arguments]
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import examples

CMAKE = GENERATOR = BUILD = SOURCE = CC = CXX = FAKE_LIBCUDA = None
WARNINGS = "-Wall -Wextra -Wpedantic -Werror"
SCRATCH = TREE = LIBRARIES = None


def output(*command, **environment):
    done = subprocess.run([str(word) for word in command], env=os.environ | environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(done.args)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def setUpModule():
    global SCRATCH, TREE, LIBRARIES
    SCRATCH = pathlib.Path(tempfile.mkdtemp())
    unittest.addModuleCleanup(shutil.rmtree, SCRATCH)
    output(CMAKE, "--install", BUILD, "--prefix", SCRATCH / "installed")
    TREE = SCRATCH / "moved tree"
    (SCRATCH / "installed").rename(TREE)
    LIBRARIES = next(TREE.rglob("maxsim_jit.pc")).parent.parent


def header_version():
    text = (SOURCE / "include/maxsim_jit/maxsim_jit.h").read_text()
    return ".".join(re.search(rf"MSJ_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


class Tree(unittest.TestCase):
    def test_files(self):
        library = LIBRARIES.relative_to(TREE)
        major = header_version().split(".")[0]
        files = {str(path.relative_to(TREE)) for path in TREE.rglob("*") if not path.is_dir()}
        build_type = re.search(r"CMAKE_BUILD_TYPE:\w+=(\w+)", (BUILD / "CMakeCache.txt").read_text())[1].lower()
        self.assertEqual(files, {
            "bin/maxsim-jit", "include/maxsim_jit/maxsim_jit.h", "include/maxsim_jit/maxsim_jit.hpp",
            f"{library}/libmaxsim_jit.so", f"{library}/libmaxsim_jit.so.{major}",
            f"{library}/libmaxsim_jit.so.{header_version()}", f"{library}/pkgconfig/maxsim_jit.pc",
            f"{library}/cmake/maxsim_jit/maxsim_jit-config.cmake",
            f"{library}/cmake/maxsim_jit/maxsim_jit-config-version.cmake",
            f"{library}/cmake/maxsim_jit/maxsim_jit-targets.cmake",
            f"{library}/cmake/maxsim_jit/maxsim_jit-targets-{build_type}.cmake", "share/man/man1/maxsim-jit.1",
            "share/bash-completion/completions/maxsim-jit"})

    def test_soname_has_the_major_version(self):
        dynamic = output("readelf", "-d", LIBRARIES / "libmaxsim_jit.so", LC_ALL="C")
        major = header_version().split(".")[0]
        self.assertEqual(re.findall(r"soname: \[(.*)\]", dynamic), [f"libmaxsim_jit.so.{major}"])
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")

    def test_no_file_names_the_place_where_it_was_built_or_installed(self):
        places = [str(place).encode() for place in (SOURCE, BUILD, SCRATCH)]
        for path in TREE.rglob("*"):
            if path.is_file():
                for place in places:
                    self.assertNotIn(place, path.read_bytes(), path)

    def test_no_target_of_the_build_itself_is_exported(self):
        for path in TREE.rglob("*.cmake"):
            self.assertNotIn("msj_", path.read_text(), path)

    def test_command_runs_where_it_lies(self):
        command = TREE / "bin/maxsim-jit"
        version = examples.run([command, "--version"], SCRATCH / "cache")
        self.assertEqual(version.stdout, f"maxsim-jit {header_version()}\n")
        doctor = examples.run([command, "doctor", "--json"], SCRATCH / "cache")
        self.assertIn(doctor.returncode, (0, 1), doctor.stderr)
        self.assertEqual(json.loads(doctor.stdout)["schema"], "maxsim-jit/doctor/1")


class FindPackage(unittest.TestCase):
    def configure(self, source, build, *options):
        output(CMAKE, "-S", source, "-B", build, "-G", GENERATOR, f"-DCMAKE_PREFIX_PATH={TREE}",
               f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", *options)

    def test_examples_build_and_score(self):
        build = SCRATCH / "find_package"
        self.configure(SOURCE / "docs/examples", build, f"-DCMAKE_C_FLAGS={WARNINGS}", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
        output(CMAKE, "--build", build)
        for program in ("score_c", "score_cpp"):
            with self.subTest(program):
                examples.check(self, [build / program], SCRATCH, FAKE_LIBCUDA)

    def test_a_c_project_needs_no_cxx_and_another_major_version_is_refused(self):
        project = SCRATCH / "versions"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(versions LANGUAGES C)\n"
            "find_package(maxsim_jit ${WANTED} REQUIRED)\nmessage(STATUS \"found ${maxsim_jit_VERSION}\")\n")
        self.configure(project, SCRATCH / "same", f"-DWANTED={header_version()}")
        with self.assertRaisesRegex(AssertionError, "compatible with requested"):
            self.configure(project, SCRATCH / "other", "-DWANTED=99.0")


class Readme(unittest.TestCase):
    def test_the_lines_on_linking_as_they_stand(self):
        if shutil.which("pkg-config") is None or LIBRARIES != TREE / "lib":
            self.skipTest("pkg-config is not installed, or libraries are not in lib")
        section = (SOURCE / "README.md").read_text().partition("\n## Link\n")[2]
        lines = re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
        place = SCRATCH / "readme"
        (place / "build").mkdir(parents=True)
        (place / "docs").symlink_to(SOURCE / "docs")
        (SCRATCH / "prefix").symlink_to(TREE)  # its own name has a space
        lines = re.sub(r"\bPREFIX\b", str(SCRATCH / "prefix"), lines).replace(" && ", "\n")  # -e heeds the last alone
        output("bash", "-euc", f"cd {place}\n{lines}")
        for program in ("build/examples/score_c", "build/examples/score_cpp", "build/score"):
            with self.subTest(program):
                self.assertIn(f"`{program}`", section)
                examples.check(self, [place / program], SCRATCH, FAKE_LIBCUDA, LD_LIBRARY_PATH=str(LIBRARIES))


class PkgConfig(unittest.TestCase):
    def setUp(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("pkg-config is not installed")

    def ask(self, *options):
        return output("pkg-config", *options, "maxsim_jit", PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig")).strip()

    def test_version_and_places(self):
        self.assertEqual(self.ask("--modversion"), header_version())
        self.assertEqual(os.path.realpath(self.ask("--variable=prefix").replace("\\", "")), os.path.realpath(TREE))
        self.assertEqual(self.ask("--libs-only-l"), "-lmaxsim_jit")

    def test_examples_build_and_score(self):
        flags = shlex.split(self.ask("--cflags", "--libs"))
        for compiler, standard, source in ((CC, "-std=c11", "score.c"), (CXX, "-std=c++17", "score.cpp")):
            with self.subTest(source):
                program = SCRATCH / f"pkg_config_{source}"
                output(compiler, standard, *WARNINGS.split(), SOURCE / "docs/examples" / source, *flags, "-o", program)
                examples.check(self, [program], SCRATCH, FAKE_LIBCUDA,
                               LD_LIBRARY_PATH=str(LIBRARIES))


if __name__ == "__main__":
    CMAKE, GENERATOR, BUILD, SOURCE, CC, CXX, FAKE_LIBCUDA = sys.argv[1:8]
    BUILD, SOURCE = pathlib.Path(BUILD), pathlib.Path(SOURCE)
    unittest.main(argv=[sys.argv[0], *sys.argv[8:]])
