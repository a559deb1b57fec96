"""What the tests of the built command share: running it, judging its sentences, .npy files without NumPy.

Each test is a program: SCRIPT MAXSIM_JIT SOURCE_DIR [unittest arguments]. Standard library only.
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

NO_DRIVER = {"MAXSIM_JIT_LIBCUDA": "/nowhere/libcuda.so.1"}
NO_NVRTC = {"MAXSIM_JIT_LIBNVRTC": "/nowhere/libnvrtc.so"}
CODES = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<i8": "q", "|b1": "?", "|u1": "B", "|i1": "b", "<i2": "h"}


class Here:
    """The arguments of the program, set by main()."""

    command = None
    source = None


def npy_bytes(header, data=b"", version=(1, 0), length=None):
    """A .npy file of any header text, right or wrong; `length` lies about the header's."""
    text = header.encode("latin-1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def npy_header(descr, shape, fortran=False):
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"


def write_npy(path, descr, shape, values, fortran=False):
    data = struct.pack(f"<{len(values)}{CODES[descr]}", *values)
    pathlib.Path(path).write_bytes(npy_bytes(npy_header(descr, shape, fortran), data))
    return str(path)


class CommandTest(unittest.TestCase):
    """Each test has a directory of its own, and a cache apart from it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="msj-cli-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "work"
        self.directory.mkdir()
        self.cache = pathlib.Path(temporary.name) / "cache"

    def environment(self, changes=None):
        """The process's own, with the cache in its place; a change to None removes a variable."""
        full = {**os.environ, "MAXSIM_JIT_CACHE_DIR": str(self.cache), **(changes or {})}
        return {name: value for name, value in full.items() if value is not None}

    def run_command(self, *arguments, code=0, environment=None, **options):
        line = [Here.command, *(a if isinstance(a, bytes) else str(a) for a in arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 600, **options}
        result = subprocess.run(line, text=True, errors="surrogateescape", env=self.environment(environment), **options)
        self.assertEqual(result.returncode, code, f"{arguments}\nstdout: {result.stdout}\nstderr: {result.stderr}")
        return result

    def kill_while_it_writes(self, *arguments, sent):
        """Sends the signal as soon as the command has a file of self.directory open for writing."""
        def is_writing(process):
            for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
                try:
                    if str(link.readlink()).startswith(f"{self.directory}/") and link.lstat().st_mode & 0o200:
                        return True
                except FileNotFoundError:
                    continue
            return False

        try:
            os.close(os.open(self.directory, os.O_TMPFILE | os.O_WRONLY))
        except OSError as error:
            self.skipTest(f"the file system has no files without a name: {error}")
        process = subprocess.Popen([Here.command, *map(str, arguments)], env=self.environment(), stdout=subprocess.DEVNULL)
        while process.poll() is None and not is_writing(process):
            pass
        process.send_signal(sent)
        self.assertEqual(process.wait(timeout=600), -sent, "it was done before it could be killed")

    def assert_sentence(self, result, *parts):
        """One line on stderr, with these parts in it; nothing on stdout."""
        self.assertFalse(result.stdout)
        lines = result.stderr.split("\n")
        self.assertEqual((len(lines), lines[-1]), (2, ""), result.stderr)
        self.assertTrue(lines[0].startswith("maxsim-jit: "), lines[0])
        self.assertTrue(lines[0].isprintable(), ascii(lines[0]))
        for part in parts:
            self.assertIn(str(part), lines[0])


def main(usage):
    if len(sys.argv) < 3:
        sys.exit(usage)
    # Tests run it in other directories than this.
    Here.command, Here.source = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).absolute()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
