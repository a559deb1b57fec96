"""./run: its usage, and what it demands of a machine where nothing can be installed.

usage: run_test.py SOURCE_DIR
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = None
NEEDED = {"cmake": "cmake", "ninja": "ninja-build", "g++": "g++", "python3": "python3"}


class Run(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="msj-run-")
        self.addCleanup(temporary.cleanup)
        self.place = pathlib.Path(temporary.name)
        shutil.copy(SOURCE / "run", self.place)
        (self.place / "include").mkdir()
        (self.place / "include" / "cuda.h").touch()

    def tools(self, *others):
        """A folder for PATH: no apt-get, no sudo, nothing that only tests need; tools that say what they are told."""
        folder = self.place / "bin"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("bash", "sed", "id", "dirname"):
            (folder / name).symlink_to(shutil.which(name))
        for name in others:
            (folder / name).write_text('#!/bin/sh\nwhile read -r line; do :; done\necho "${0##*/} $*"\n')
            (folder / name).chmod(0o755)
        return {**os.environ, "PATH": str(folder), "CUDA_HOME": str(self.place)}

    def run_it(self, *words, environment=None, code=0):
        done = subprocess.run(["/bin/bash", self.place / "run", *words], env=environment, cwd="/", stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def test_usage(self):
        lines = "".join(line[2:] for line in (SOURCE / "run").read_text().splitlines(True)[1:4])
        self.assertEqual([line.split()[:2] for line in lines.splitlines()],
                         [["./run", "demo"], ["./run", "test"], ["./run", "build"]])
        for words in (["--help"], ["-h"], ["help"], ["demo", "--help"], ["build", "-h"], ["test", "--help"]):
            self.assertEqual(self.run_it(*words), (lines, ""), words)
        for words in ([], ["demmo"], ["--hlep"], ["demo", "--hlep"], ["build", "release"]):
            self.assertEqual(self.run_it(*words, code=2), ("", lines), words)

    def test_what_only_tests_need_is_demanded_by_them_alone(self):
        environment = self.tools(*NEEDED)
        out, err = self.run_it("build", environment=environment)
        self.assertIn("cmake --build --preset release\n", out)
        self.assertRegex(err, r"missing, and needed by the tests alone: abigail-tools ")
        out, err = self.run_it("test", environment=environment, code=1)
        self.assertEqual(out, "")
        self.assertRegex(err, r"^run: these packages are missing; install them as root: abigail-tools .*\n$")

    def test_what_the_build_needs_is_named(self):
        for tool, package in NEEDED.items():
            out, err = self.run_it("build", environment=self.tools(*NEEDED.keys() - {tool}), code=1)
            self.assertEqual(out, "")
            self.assertTrue(err.startswith(f"run: these packages are missing; install them as root: {package}"), err)
            self.assertNotIn("abigail-tools", err)


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
