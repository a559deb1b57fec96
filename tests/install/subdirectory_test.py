"""add_subdirectory(): a project that holds the library configures, without its tests, and compiles against its target.

usage: subdirectory_test.py CMAKE GENERATOR SOURCE_DIR CC CXX
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE = GENERATOR = SOURCE = CC = CXX = None


class Subdirectory(unittest.TestCase):
    def run_cmake(self, *arguments):
        done = subprocess.run([CMAKE, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_configures_and_compiles(self):
        with tempfile.TemporaryDirectory() as build:
            self.run_cmake("-S", SOURCE / "tests/install/subdirectory", "-B", build, "-G", GENERATOR,
                           f"-DMAXSIM_JIT_SOURCE={SOURCE}", f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}")
            self.assertTrue((pathlib.Path(build) / "maxsim_jit/src").is_dir())
            self.assertFalse((pathlib.Path(build) / "maxsim_jit/tests").exists(), "the consumer gets our tests")
            commands = (pathlib.Path(build) / "compile_commands.json").read_text()
            self.assertIn("c_api.cpp", commands)
            self.assertNotIn("-Werror", commands, "a newer compiler's warning would fail the consumer's build")
            if GENERATOR == "Ninja":  # compiles without building the library, which would take minutes
                self.run_cmake("--build", build, "--target", "consumer_objects")


if __name__ == "__main__":
    CMAKE, GENERATOR, SOURCE, CC, CXX = sys.argv[1:6]
    SOURCE = pathlib.Path(SOURCE)
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
