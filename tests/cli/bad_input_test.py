"""Bad .npy files: each is refused in one sentence that names the file, what it was and what is accepted; nothing is
written.

usage: bad_input_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import os
import pathlib
import socket
import struct

from command import CommandTest, main, npy_bytes, npy_header, write_npy

MIB = 1 << 20
ACCEPTED_TYPES = ("bool", "float16", "float32", "bfloat16")


def header_only(text):
    return npy_bytes(text, b"\0" * MIB)


# What a file holds, and what the sentence says, beside the file's name.
MALFORMED = [
    ("empty", b"", "not a .npy file", "nothing"),
    ("text", b"hello, world\n", "not a .npy file", "'hello,'", "NUMPY"),
    ("control characters", b"\x1b[2J\n\r\0\x07", "not a .npy file", r"'\x1b[2J\x0a\x0d'"),
    ("zip", b"PK\x03\x04" + b"\0" * 100, ".npz", "a .npy file with one array"),
    ("magic alone", b"\x93NUMPY", "first 8 bytes"),
    ("no length", b"\x93NUMPY\x01\x00", "after 8 bytes"),
    ("half a length", b"\x93NUMPY\x02\x00\x10\x00", "after 10 bytes"),
    ("version 0", npy_bytes("{}", version=(0, 9)), "version is 0.9", "1.0, 2.0 and 3.0"),
    ("version 4", npy_bytes("{}", version=(4, 0)), "version is 4.0", "1.0, 2.0 and 3.0"),
    ("long header", npy_bytes("{}", length=60000), "truncated", "60000 bytes"),
    ("mad header", npy_bytes("{}", version=(2, 0), length=0xFFFFFFF0), "4294967280 bytes", "at most 65535"),
    ("no dict", header_only("[1, 2]"), "malformed at byte 0", "'{'"),
    ("no end", header_only("{'descr': '<f4'"), "malformed", "',' or '}'"),
    ("open string", header_only("{'descr': '<f4"), "malformed", "a string"),
    ("escape", header_only(r"{'descr': '<f\x34', }"), "malformed", "without escapes"),
    ("more after it", header_only(npy_header("<f4", (2, 3, 16)) + "import os"), "malformed", "nothing more after '}'"),
    ("no shape", header_only("{'descr': '<f4', 'fortran_order': False}"), "no 'shape'"),
    ("no order", header_only("{'descr': '<f4', 'shape': (2, 3, 16)}"), "no 'fortran_order'"),
    ("descr twice", header_only("{'descr': '<f4', 'descr': '<f4', }"), "'descr' twice"),
    ("odd key", header_only("{'owner': 'me', }"), "'owner'", "'descr', 'fortran_order' and 'shape'"),
    ("odd order", header_only("{'fortran_order': 1, }"), "malformed", "True or False"),
    ("shape of fractions", header_only("{'shape': (2.5, 3), }"), "malformed"),
    ("shape of words", header_only("{'shape': ('a', 3), }"), "malformed", "an integer in the shape"),
    ("no tuple", header_only("{'shape': 96, }"), "malformed"),
    ("negative", header_only(npy_header("<f4", (2, -3, 16))), "'-3'", "0 or more"),
    ("beyond int64", header_only(npy_header("<f4", (2, 1 << 63, 16))), "'9223372036854775808'", "below 2^63"),
    ("product overflows", header_only(npy_header("<f4", (1 << 31, 1 << 31, 4))), "2^63 bytes"),
    ("product overflows beside 0", header_only(npy_header("<f4", (1 << 40, 0, 1 << 40))), "2^63 bytes"),
    ("rank 7", header_only(npy_header("<f4", (1,) * 7)), "7 dimensions", "at most 6"),
    ("claims a byte more", npy_bytes(npy_header("<f4", (2, 3, 16)), b"\0" * 383), "truncated", "384", "383"),
    ("claims a terabyte", npy_bytes(npy_header("<f4", (1 << 20, 1 << 12, 64)), b"\0"), "truncated", "1099511627776"),
    ("no data", npy_bytes(npy_header("<f4", (2, 3, 16))), "truncated", "it has 0"),
    ("big-endian and short", npy_bytes(npy_header(">f4", (2, 3, 16)), b"\0" * 100), "truncated", "384"),
    ("Fortran order and short", npy_bytes(npy_header("<f4", (2, 3, 16), True), b"\0" * 100), "truncated", "384"),
    ("objects", header_only(npy_header("|O", (2, 3, 16))), "Python objects", *ACCEPTED_TYPES),
    ("records", header_only("{'descr': [('x', '<f4')], }"), "structured", *ACCEPTED_TYPES),
    ("complex", header_only(npy_header("<c8", (2, 3, 16))), "'<c8'", *ACCEPTED_TYPES),
    ("strings", header_only(npy_header("<U4", (2, 3, 16))), "'<U4'", *ACCEPTED_TYPES),
    ("dates", header_only(npy_header("<M8[s]", (2, 3, 16))), "'<M8[s]'", *ACCEPTED_TYPES),
    ("long double", header_only(npy_header("<f16", (2, 3, 16))), "'<f16'", *ACCEPTED_TYPES),
    ("int16", header_only(npy_header("<i2", (2, 3, 16))), "'<i2'", *ACCEPTED_TYPES),
    ("no dtype", header_only(npy_header("", (2, 3, 16))), "''", *ACCEPTED_TYPES),
]

# Sound files in the wrong place: option, descr, shape, and what the sentence says beside option and file.
MISPLACED = [
    ("--q", "<i8", (2, 3, 16), "int64", "f32 is accepted"),
    ("--q", "|b1", (2, 3, 16), "bool", "f32 is accepted"),
    ("--q", "|u1", (2, 3, 16), "uint8", "f32 is accepted"),
    ("--q", "<f4", (16,), "shape [16]", "[Nq, Lq, d] is accepted"),
    ("--q", "<f4", (), "shape []", "[Nq, Lq, d] is accepted"),
    ("--q", "<f4", (1, 2, 3, 16), "shape [1, 2, 3, 16]", "[Nq, Lq, d] is accepted"),
    ("--d", "<f4", (5, 4, 8), "shape [5, 4, 8]", "d = 8", "--q", "makes it 16", "[Nd, Ld, d] is accepted"),
    ("--d", "<f2", (5, 4, 16), "f16", "f32", "must be equal", "--dtype"),
    ("--q-mask", "|b1", (2, 4), "Lq = 4", "makes it 3", "[Nq, Lq] is accepted"),
    ("--q-mask", "|b1", (3, 3), "Nq = 3", "makes it 2", "[Nq, Lq] is accepted"),
    ("--q-mask", "<f4", (2, 3), "float32", "bool"),
    ("--d-mask", "<i4", (5, 4), "int32", "bool", "u8", "i8", "mask.astype(bool)"),
    ("--q-mask", "<i8", (2, 3), "int64", "bool", "u8", "i8", "mask.astype(bool)"),
    ("--d-mask", "|b1", (5, 4, 1), "shape [5, 4, 1]", "[Nd, Ld] is accepted"),
    ("--d-mask", "|b1", (5, 3), "Ld = 3", "makes it 4"),
    ("--d-lengths", "<i4", (4,), "Nd = 4", "makes it 5", "[Nd] is accepted"),
    ("--d-lengths", "<i4", (5, 1), "shape [5, 1]", "[Nd] is accepted"),
    ("--d-lengths", "<f4", (5,), "float32", "i32"),
]


class BadInputTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.files = {
            "--q": write_npy(self.directory / "q.npy", "<f4", (2, 3, 16), [1.0] * 96),
            "--d": write_npy(self.directory / "d.npy", "<f4", (5, 4, 16), [1.0] * 320),
        }
        self.bad = self.directory / "bad.npy"

    def refuse(self, option, file, *parts, extra=()):
        files = {**self.files, option: file}
        line = [word for pair in files.items() for word in pair]
        out, argmax = self.directory / "out.npy", self.directory / "argmax.npy"
        before = sorted(os.listdir(self.directory))
        result = self.run_command("score", "--device", "cpu", *line, *extra, "--out", out, "--argmax", argmax, code=1)
        self.assert_sentence(result, *parts)
        self.assertEqual(sorted(os.listdir(self.directory)), before)

    def test_malformed_files(self):
        for what, content, *parts in MALFORMED:
            with self.subTest(what):
                self.bad.write_bytes(content)
                self.refuse("--q", self.bad, self.bad, *parts)

    def test_sound_files_in_the_wrong_place(self):
        for option, descr, shape, *parts in MISPLACED:
            with self.subTest(option=option, descr=descr, shape=shape):
                self.bad.write_bytes(header_only(npy_header(descr, shape)))
                self.refuse(option, self.bad, option, self.bad, *parts)

    def test_sizes_that_the_op_does_not_take(self):
        for d in (0, 4097):
            with self.subTest(d=d):
                self.files["--d"] = write_npy(self.directory / "d.npy", "<f4", (1, 1, d), [0.0] * d)
                self.refuse("--q", write_npy(self.bad, "<f4", (1, 1, d), [0.0] * d),
                            f"--q {self.bad} has shape [1, 1, {d}], which makes d = {d}; 1 to 4096 is accepted for d of "
                            "dense_forward")

    def test_rows_of_residuals_of_another_width(self):
        self.files = {"--q": self.files["--q"]}
        for option, descr, shape in (("--codes", "<i4", (3,)), ("--d-starts", "<i8", (1,)), ("--d-lengths", "<i4", (1,)),
                                     ("--centroids", "<f4", (2, 16)), ("--bucket-weights", "<f4", (4,))):
            elements = [1] * (shape[0] * shape[-1] if len(shape) > 1 else shape[0])
            self.files[option] = write_npy(self.directory / f"{option}.npy", descr, shape, elements)
        self.refuse("--residuals", write_npy(self.bad, "|u1", (3, 5), [0] * 15), f"--residuals {self.bad} has shape [3, 5]",
                    "P = 4 is accepted, the bytes of d 16 of nbits 2", extra=("--op", "residual_forward"))

    def test_lengths_beyond_int32(self):
        write_npy(self.bad, "<i8", (5,), [1, 2, 1 << 31, 3, 4])
        self.refuse("--d-lengths", self.bad, self.bad, "2147483648", "int32")

    def test_results_too_large_for_any_memory(self):
        # Strange but sound: an array without elements may be of any shape.
        many = self.directory / "many.npy"
        many.write_bytes(npy_bytes(npy_header("<f4", (1 << 40, 0, 1))))
        self.files["--d"] = many
        self.bad.write_bytes(npy_bytes(npy_header("<f4", (1 << 40, 0, 1))))
        self.refuse("--q", self.bad, "scores", "2^63 bytes")

    def test_what_is_no_file(self):
        os.mkfifo(self.directory / "fifo")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.directory / "socket"))
            os.symlink("loop", self.directory / "loop")
            os.symlink("nowhere", self.directory / "dangling")
            for name, *parts in (
                (self.directory, "a directory", "a .npy file"),
                ("/dev/zero", "device", "regular .npy file"),
                ("/dev/null", "device", "regular .npy file"),
                (self.directory / "fifo", "pipe", "regular .npy file"),
                (self.directory / "socket", "socket", "regular .npy file"),
                (self.directory / "none.npy", "No such file"),
                (self.directory / "dangling", "No such file"),
                (self.directory / "loop", "symbolic links"),
                (self.directory / "q.npy" / "q.npy", "Not a directory"),
                (self.directory / ("x" * 300), "name too long"),
            ):
                for option in ("--q", "--d-mask"):
                    with self.subTest(option=option, name=name):
                        self.refuse(option, name, name, *parts)

    def test_a_file_that_may_not_be_read(self):
        if os.geteuid() == 0:
            self.skipTest("root reads every file")
        self.bad.write_bytes(b"")
        self.bad.chmod(0)
        self.refuse("--q", self.bad, self.bad, "Permission denied")

    def test_names_of_any_bytes_stay_on_one_line(self):
        for name, shown in ((b"new\nline.npy", r"new\x0aline.npy"), (b"esc\x1b[2J.npy", r"esc\x1b[2J.npy"),
                            (b"caf\xe9.npy", r"caf\xe9.npy"), ("naïve.npy".encode(), "naïve.npy")):
            with self.subTest(name):
                self.refuse("--q", os.fsencode(self.directory) + b"/" + name, shown, "No such file")
                pathlib.Path(os.fsdecode(os.fsencode(self.directory) + b"/" + name)).write_bytes(b"x")
                self.refuse("--q", os.fsencode(self.directory) + b"/" + name, shown, "not a .npy file")

    def test_a_dtype_that_the_file_does_not_have(self):
        self.bad.write_bytes(header_only(npy_header("<i8", (2, 3, 16))))
        self.refuse("--q", self.bad, "--q", "int64", "f32 is accepted", extra=("--dtype", "bf16"))

    def test_float64_is_converted_and_values_beyond_the_range_are_counted(self):
        write_npy(self.bad, "<f8", (2, 3, 16), [1e300] + [1.0] * 95)
        line = ("score", "--device", "cpu", "--q", self.bad, "--d", self.files["--d"])
        notes = self.run_command(*line).stderr.splitlines()
        self.assertEqual(notes, [f"maxsim-jit: --q {self.bad} holds float64: converted to f32",
                                 f"maxsim-jit: --q {self.bad}: values beyond the range of f32, now infinite: 1"])

    def test_big_endian_and_fortran_order_of_rank_3_are_no_bad_input(self):
        values = [float(i % 7) for i in range(320)]
        good = self.run_command("score", "--device", "cpu", "--q", self.files["--q"],
                                "--d", write_npy(self.bad, "<f4", (5, 4, 16), values)).stdout
        big = self.directory / "big.npy"
        big.write_bytes(npy_bytes(npy_header(">f4", (5, 4, 16)), struct.pack(">320f", *values)))
        columns = [values[(j * 4 + t) * 16 + k] for k in range(16) for t in range(4) for j in range(5)]
        fortran = write_npy(self.directory / "fortran.npy", "<f4", (5, 4, 16), columns, fortran=True)
        for file in (big, fortran):
            self.assertEqual(self.run_command("score", "--device", "cpu", "--q", self.files["--q"], "--d", file).stdout, good)


if __name__ == "__main__":
    main(__doc__)
