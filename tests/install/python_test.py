"""docs/examples/score.py, with the library found by its SONAME and by its path. Skipped (77) where there is no NumPy.

usage: python_test.py LIBRARY SOURCE_DIR FAKE_LIBCUDA [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import examples

LIBRARY = SOURCE = FAKE_LIBCUDA = PYTHON = None


def python_with_numpy():
    """This interpreter, or that of the virtual environment which `./run demo` makes."""
    for python in (sys.executable, str(SOURCE / ".venv/bin/python")):
        if not pathlib.Path(python).exists():
            continue
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


class Example(unittest.TestCase):
    def check(self, *arguments, **environment):
        with tempfile.TemporaryDirectory() as scratch:
            command = [PYTHON, SOURCE / "docs/examples/score.py", *arguments]
            examples.check(self, command, scratch, FAKE_LIBCUDA, **environment)

    def test_by_soname(self):
        self.check(LD_LIBRARY_PATH=str(LIBRARY.parent))

    def test_by_path(self):
        self.check(LIBRARY)


if __name__ == "__main__":
    LIBRARY, SOURCE, FAKE_LIBCUDA = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    PYTHON = python_with_numpy()
    if PYTHON is None:
        print(f"skipped: {sys.executable} has no NumPy (Debian: python3-numpy)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
