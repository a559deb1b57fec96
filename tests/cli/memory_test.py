"""Files larger than memory allows to copy: sparse ones of gigabytes, scored under a limit of the address space.

A file is mapped, so its size counts against the limit once; each copy of it would count again.

usage: memory_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import os
import resource
import struct
import subprocess

from command import CommandTest, Here, main, npy_bytes, npy_header, write_npy

MIB = 1 << 20
SLACK = 384 * MIB  # the program itself, its threads' stacks and heaps
SIZES = {"<f4": 4, "<f8": 8, ">f8": 8, ">f4": 4}


def limited(limit, of=resource.RLIMIT_AS):
    """Run in the child before the command."""
    return lambda: resource.setrlimit(of, (limit, limit))


def can_run_under_a_limit():
    """AddressSanitizer, for one, wants terabytes of addresses."""
    result = subprocess.run([Here.command, "--version"], capture_output=True, preexec_fn=limited(SLACK))
    return result.returncode == 0


class MemoryTest(CommandTest):
    LD, D = 4096, 128

    def setUp(self):
        super().setUp()
        if not can_run_under_a_limit():
            self.skipTest("the command can't run under a limit of the address space")

    def sparse(self, descr, gigabytes):
        """Zeros, but for the first number of document 1; a hole in all other places. Its shape and its size."""
        row = self.LD * self.D * SIZES[descr]
        count = gigabytes * 1024 * MIB // row
        path = self.directory / "d.npy"
        with open(path, "wb") as file:
            file.write(npy_bytes(npy_header(descr, (count, self.LD, self.D))))
            begin = file.tell()
            file.seek(begin + row)
            file.write(struct.pack(descr[0] + ("f" if SIZES[descr] == 4 else "d"), 3.0))
            try:
                file.truncate(begin + count * row)
            except OSError as error:
                self.skipTest(f"no file of {gigabytes} GiB can be made here: {error}")
        if os.stat(path).st_blocks * 512 > 16 * MIB:
            self.skipTest("the file system here has no holes in files")
        return path, count

    def score(self, path, count, limit, *extra):
        """Document 1 has a token, the others have none: nothing else of the file is looked at to score it."""
        q = write_npy(self.directory / "q.npy", "<f4", (1, 1, self.D), [2.0] * self.D)
        lengths = write_npy(self.directory / "lengths.npy", "<i4", (count,), [0, 1] + [0] * (count - 2))
        result = subprocess.run(
            [Here.command, "score", "--device", "cpu", "--q", q, "--d", path, "--d-lengths", lengths, "--json", *extra],
            capture_output=True, text=True, timeout=600, env=self.environment(), preexec_fn=limited(limit))
        return result

    def assert_scores(self, result, count):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["scores"], [[0, 6] + [0] * (count - 2)])

    def test_a_native_file_is_never_copied(self):
        path, count = self.sparse("<f4", 6)
        self.assert_scores(self.score(path, count, 6 * 1024 * MIB + SLACK), count)

    def test_a_converted_file_is_copied_once_at_the_size_of_the_result(self):
        for descr in ("<f8", ">f8"):
            with self.subTest(descr):
                path, count = self.sparse(descr, 1)
                self.assert_scores(self.score(path, count, 1024 * MIB + 512 * MIB + SLACK), count)

    def test_a_file_of_the_other_byte_order_is_copied_once(self):
        path, count = self.sparse(">f4", 1)
        self.assert_scores(self.score(path, count, 2 * 1024 * MIB + SLACK), count)

    def test_no_lack_of_memory_aborts_the_command(self):
        """Kilobytes: what memory does not hold is then a JSON value of the library's, or what destroys one."""
        manifest = self.directory / "manifest.json"
        manifest.write_text("[" + ",".join(["{}"] * 500000) + "]")
        warm = ["warm", "--arch", "sm_90a", "--manifest", manifest]
        said = set()
        for arguments, limits in ((["inspect"], range(200, 4000, 100)), (warm, range(4000, 64000, 2500))):
            for limit in limits:
                with self.subTest(arguments[0], limit=limit):
                    result = subprocess.run([Here.command, *arguments], capture_output=True, text=True, timeout=600,
                                            env=self.environment(), preexec_fn=limited(limit << 10, resource.RLIMIT_DATA))
                    if result.returncode == 127:  # not even started
                        continue
                    self.assertIn(result.returncode, (0, 1), result.stderr)
                    if result.returncode == 1:
                        said.add(arguments[0])
                        self.assert_sentence(result, "")
        self.assertEqual(said, {"inspect", "warm"})

    def test_what_memory_does_not_hold_is_one_sentence(self):
        path, count = self.sparse("<f8", 1)
        for limit in (512 * MIB + SLACK, 1024 * MIB + SLACK):  # too little to map; to convert
            result = self.score(path, count, limit)
            self.assertEqual(result.returncode, 1)
            self.assert_sentence(result, "memory")


if __name__ == "__main__":
    main(__doc__)
