"""Bad command lines, settings and outputs: one sentence that names the argument, what it was and what is accepted.

usage: bad_options_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import os
import subprocess

from command import NO_DRIVER, CommandTest, Here, main, write_npy

SIZES = "Nq=1,Nd=1000,Lq=32,Ld=300,d=64"
WARM = ["warm", "--op", "dense_forward", "--sizes", SIZES, "--dtype", "bf16", "--features", "none", "--arch", "sm_90a"]
SCORE = ["score", "--device", "cpu", "--q", "q.npy", "--d", "d.npy"]

# Command line, and what the sentence says. All exit 2.
LINES = [
    ([], "maxsim-jit is given without a command", "warm, inspect, audit, bench, cache, doctor, score"),
    (["--verbose"], "maxsim-jit is given without a command", "warm, inspect, audit, bench, cache, doctor, score"),
    (["--verison"], "'--verison' is no option of maxsim-jit", "--help"),
    (["--json", "doctor"], "'--json' is given before the command; it is accepted after it"),
    (["--op", "dense_forward", "inspect"], "'--op' is given before the command; it is accepted after it"),
    (["cache", "--json", "path"], "'--json' is given before the command; it is accepted after it (cache --help)"),
    (["--config", "x", "doctor"], "'--config' is no option of maxsim-jit", "--help"),
    (["frob"], "'frob' is no command of maxsim-jit", "warm, inspect, audit, bench, cache, doctor, score"),
    (["--verbose", "frob"], "'frob' is no command of maxsim-jit", "warm, inspect, audit, bench, cache, doctor, score"),
    (["cache"], "cache is given without a command", "path, verify, prune, clear, export, import"),
    (["cache", "polish"], "'polish' is no command of cache", "path, verify, prune, clear, export, import"),
    (["score", "--frobnicate"], "'--frobnicate' is no option of maxsim-jit score", "maxsim-jit score --help"),
    (["score", "-x"], "'-x' is no option of maxsim-jit score"),
    (["cache", "path", "--frob", "--nicate"], "'--frob' is no option of maxsim-jit cache path", "maxsim-jit cache path --help"),
    (["score", "--op", "sparse"], "--op is 'sparse'", "dense_forward"),
    (["score"], "--q is missing", "[Nq, Lq, d]"),
    (["warm", "--manifest", "m.json", "--op", "dense_forward"], "--manifest is given beside --op", "one of them is accepted"),
    (["inspect", "--table", "--json"], "--table is given beside --json", "one of them is accepted"),
    (["score", "extra", "--q", "q.npy", "--d", "d.npy"], "'extra' is more than maxsim-jit score accepts"),
    (["cache", "path", "extra"], "'extra' is more than maxsim-jit cache path accepts"),
    (["cache", "export"], "FILE is missing; maxsim-jit cache export needs it", "maxsim-jit cache export --help"),
    (["cache", "import", "a.tar", "extra"], "'extra' is more than maxsim-jit cache import accepts"),
    (["cache", "export", "a.tar", "--arch", "volta"], "--arch is 'volta'", "sm_90a"),
    (["cache", "export", "a.tar", "--op", "sparse"], "--op is 'sparse'", "dense_forward"),
    (["score", "--q"], "--q is given without a value", "maxsim-jit score --help"),
    (["warm", "--op", "--sizes", SIZES], "--op: it is '--sizes'; a value is accepted"),
    (["audit"], "--op is missing; maxsim-jit audit needs it", "maxsim-jit audit --help"),
    (["audit", "--op", "dense_forward", "--sizes", SIZES], "--dtype is missing; maxsim-jit audit needs it"),
    (["doctor", "--json=maybe"], "--json is 'maybe'", "without a value", "maxsim-jit doctor --help"),
    (["doctor", "-v=3"], "'-v=3' is no option of maxsim-jit doctor"),
    (["doctor", "--verbose=3"], "--verbose is '3'", "without a value"),
    ([*SCORE, "--normalize=0"], "--normalize is '0'", "without a value"),
    (["bench", "--rounds", "0"], "--rounds", "it is '0'", "a whole number from 1 to 10000"),
    (["score", "--q", "q.npy"], "--d is missing", "[Nd, Ld, d]"),
    ([*SCORE, "--q", "d.npy"], "--q is given 2 times; once is accepted"),
    ([*SCORE, "--top-k", "0"], "--top-k", "'0'", "a whole number from 1"),
    *((["score", "--device", "cpu", option, "-", *SCORE[3:]], f"{option}", "it is '-', which names no stream here", "./-")
      for option in ("--out", "--argmax", "--q-mask", "--index")),
    (["warm", "--manifest", "-", "--arch", "sm_90a"], "--manifest", "it is '-'", "./-"),
    (["cache", "export", "-"], "FILE", "it is '-'", "./-"),
    (["cache", "import", "-"], "FILE", "it is '-'", "./-"),
    (["bench", "--svg", "-"], "--svg", "it is '-'", "./-"),
    ([*SCORE, "--q-mask", "x" * 100000], "--q-mask", "x… (100000 bytes)'; at most 4095 bytes are accepted"),
    ([*SCORE, "--dtype", "x" * 4000], "--dtype is 'xxx", "x… (4000 bytes)'; dense_forward accepts bf16"),
    ([*SCORE, "--top-k", "x" * 4000], "--top-k", "x… (4000 bytes)'; a whole number from 1"),
    (["bench", "--seconds", "x" * 4000], "--seconds", "x… (4000 bytes)'; a number from 0"),
    ([*SCORE, "--index", "folder"], "--index is given, which --op residual_forward accepts; dense_forward accepts --q, --d, "),
    ([*SCORE, "--h", "q.npy"], "--h is given, which --op fused_head_forward accepts"),
    ([*SCORE, "--scale-q", "q.npy"], "--scale-q is given, which --op fp8_forward accepts"),
    ([*SCORE, "--top-k", "-1"], "--top-k", "'-1'", "a whole number from 1"),
    ([*SCORE, "--top-k", "2.5"], "--top-k", "'2.5'", "a whole number from 1"),
    ([*SCORE, "--top-k", "1e3"], "--top-k", "'1e3'", "a whole number from 1"),
    ([*SCORE, "--top-k", "9223372036854775808"], "--top-k", "'9223372036854775808'", "a whole number from 1"),
    ([*SCORE, "--empty-doc", "-inf"], "--empty-doc", "'-inf'", "zero, neginf"),
    ([*SCORE, "--dtype", "fp8_e4m3"], "--dtype", "'fp8_e4m3'", "bf16"),
    ([*SCORE, "--dtype", "float64"], "--dtype", "'float64'", "bf16"),
    (["score", "--q", "q.npy", "--d", "d.npy", "--device", "cuda:-1"], "--device", "'cuda:-1'", "cpu, cuda, cuda:N"),
    (["score", "--q", "q.npy", "--d", "d.npy", "--device", "cuda:99999999999"], "--device", "cpu, cuda, cuda:N"),
    ([*SCORE, "--out", "q.npy"], "q.npy is named for a result", "--q", "another file is accepted"),
    ([*SCORE, "--argmax", "./d.npy"], "./d.npy is named for a result", "--d", "another file is accepted"),
    ([*SCORE, "--argmax", "link.npy"], "link.npy is named for a result", "--q", "another file is accepted"),
    ([*SCORE, "--out", "o.npy", "--argmax", "o.npy"], "o.npy", "two results", "a file for each"),
    ([*SCORE, "--out", "o.npy", "--argmax", "folder/../o.npy"], "o.npy", "two results", "a file for each"),
    ([*SCORE, "--out", "o.npy", "--argmax", "here/o.npy"], "o.npy", "two results", "a file for each"),
    (["warm", "--sizes", SIZES, "--dtype", "bf16"], "--op or --manifest"),
    ([*WARM[:3], *WARM[5:]], "--sizes is needed"),
    ([*WARM[:5], *WARM[7:]], "--dtype is needed"),
    *((["warm", "--op", "residual_norms", "--sizes", f"N=1000,d=64,nbits={nbits}", "--dtype", "bf16", "--arch", "sm_90a"],
       f"size nbits of residual_norms is '{nbits}'; 1, 2, 4, 8 is accepted") for nbits in ("0", "3", "9", "x")),
    ([*WARM, "--layout", "odd"], "--layout", "it is 'odd'", "accepted: aligned16, any, both"),
    ([*WARM, "--jobs", "0"], "--jobs", "it is '0'", "a whole number from 1 to 1024"),
    ([*WARM, "--jobs", "many"], "--jobs", "it is 'many'", "a whole number from 1 to 1024"),
    ([*WARM, "--device", "cpu"], "--device", "'cpu'", "cuda and cuda:N"),
    ([*WARM, "--device", "tpu"], "--device", "'tpu'", "cuda"),
    ([*WARM, "--arch", "sm_90a"], "--arch is given 2 times; once is accepted"),
    ([*WARM[:-1], "sm_42x"], "--arch", "'sm_42x'", "sm_90a"),
    ([*WARM[:-1], "90"], "--arch", "'90'", "sm_90a"),
    ([*WARM[:-1], "sm_90a,sm_100a"], "--arch", "'sm_90a,sm_100a'", "sm_90a"),
    ([*WARM[:-1], "sm_70"], "--arch", "'sm_70'", "accepted: sm_80, ", "sm_90, sm_90a"),
    ([*WARM[:-2], "--gpu", "NVIDIA H200"], "--gpu", "--arch"),
    (["inspect", "--arch", "volta"], "'volta'", "sm_90a"),
    (["inspect", "--op", "sparse"], "'sparse'", "dense_forward"),
]

# Values of --sizes, --features and --dtype.
SIZES_TEXTS = [
    ("Nq", "'Nq'", "NAME=NUMBER"),
    ("Nq=1;Nd=2", "'1;Nd=2'", "an integer from 1"),
    ("Nq=", "size Nq", "''", "an integer from 1"),
    ("=1", "''", "Nq, Nd, Lq, Ld, d"),
    ("Nq=0", "size Nq", "'0'", "an integer from 1"),
    ("Nq=-1", "size Nq", "'-1'", "an integer from 1"),
    ("Nq=1.5", "size Nq", "'1.5'", "an integer from 1"),
    ("Nq= 1", "size Nq", "' 1'", "an integer from 1"),
    ("Nq=0x10", "size Nq", "'0x10'", "an integer from 1"),
    ("Nq=99999999999999999999", "size Nq", "an integer from 1"),
    ("Nq=1,Nq=2", "Nq twice"),
    ("Nq=1,,Nd=1", "''", "NAME=NUMBER"),
    ("Nq=1,", "''", "NAME=NUMBER"),
    ("nq=1", "'nq'", "Nq, Nd, Lq, Ld, d"),
    ("Nq=1,Nd=1,Lq=1,Ld=1", "--sizes does not name d;"),
    ("Nq=1,Nd=1,Lq=1,Ld=1,d=4097", "size d", "'4097'", "from 1 to 4096"),
    ("Nq=2000000000000,Nd=1,Lq=1,Ld=1,d=1", "size Nq", "'2000000000000'", "from 1 to 1099511627776"),
]
FEATURES_TEXTS = [
    ("all,none", "'all'", "q_mask"),
    ("q_mask,x", "'x'", "q_mask", "(or: all, none)"),
    ("q_mask,", "''", "q_mask"),
    (",", "''", "q_mask"),
    ("q_mask,q_mask", "names q_mask twice", "once is accepted"),
]
DTYPE_TEXTS = [
    ("int4", "'int4'", "bf16"),
    ("fp8_e4m3", "'fp8_e4m3'", "bf16"),
    ("q=bf16,d=f16", "'d=f16'", "OPERAND=NAME"),
    ("q=", "''", "bf16"),
    ("q", "'q'", "bf16"),
    ("q=bf16,", "''", "OPERAND=NAME"),
    ("q=f16,q=bf16", "--dtype names q twice"),
]

# Every option that takes a value is refused without one: an unset variable of a script must not change the meaning.
VALUES = {
    "warm": ["manifest", "op", "sizes", "dtype", "features", "arch", "gpu", "layout", "device", "jobs"],
    "inspect": ["op", "arch"],
    "score": ["q", "d", "q-mask", "d-mask", "d-lengths", "argmax", "out", "op", "top-k", "device", "dtype", "empty-doc"],
}

SETTINGS = [
    ({"MAXSIM_JIT_CACHE_DIR": ":"}, "MAXSIM_JIT_CACHE_DIR", '":"', "names no directory", '":ro" is accepted'),
    ({"MAXSIM_JIT_TUNE": "sometimes"}, "MAXSIM_JIT_TUNE", "sometimes", '"cached"'),
    ({"MAXSIM_JIT_LOG": "loud"}, "MAXSIM_JIT_LOG", "loud", '"debug"'),
    ({"MAXSIM_JIT_CACHE_LIMIT_MB": "0"}, "MAXSIM_JIT_CACHE_LIMIT_MB", '"0"', "from 1"),
    ({"MAXSIM_JIT_CACHE_LIMIT_MB": "1GB"}, "MAXSIM_JIT_CACHE_LIMIT_MB", '"1GB"', "a number"),
    ({"MAXSIM_JIT_LOCK_TIMEOUT": "nan"}, "MAXSIM_JIT_LOCK_TIMEOUT", '"nan"', "from 0 to 86400"),
]


class BadOptionsTest(CommandTest):
    def setUp(self):
        super().setUp()
        write_npy(self.directory / "q.npy", "<f4", (2, 3, 16), [1.0] * 96)
        write_npy(self.directory / "d.npy", "<f4", (5, 4, 16), [1.0] * 320)
        os.symlink("q.npy", self.directory / "link.npy")
        (self.directory / "folder").mkdir()
        os.symlink(".", self.directory / "here")

    def refuse(self, line, *parts, code=2, **options):
        before = sorted(os.listdir(self.directory))
        with self.subTest(line):
            result = self.run_command(*line, code=code, cwd=self.directory, **options)
            self.assert_sentence(result, *parts)
            self.assertEqual(sorted(os.listdir(self.directory)), before)

    def test_lines(self):
        for line, *parts in LINES:
            self.refuse(line, *parts)

    def test_sizes_features_and_dtypes(self):
        for option, texts in (("--sizes", SIZES_TEXTS), ("--features", FEATURES_TEXTS), ("--dtype", DTYPE_TEXTS)):
            for text, *parts in texts:
                line = list(WARM)
                line[line.index(option) + 1] = text
                self.refuse(line, option, *parts)

    def test_empty_values(self):
        for command, options in VALUES.items():
            for option in options:
                self.refuse([command, f"--{option}", ""], f"--{option}", "''")
                self.refuse([command, f"--{option}="], f"--{option}")

    def test_settings(self):
        for environment, *parts in SETTINGS:
            self.refuse(["cache", "path"], *parts, code=1, environment=environment)
            self.refuse(SCORE, *parts, code=1, environment=environment)

    def test_a_device_that_is_not_there(self):
        line = ["score", "--q", "q.npy", "--d", "d.npy", "--device", "cuda", "--out", "o.npy"]
        self.refuse(line, "libcuda", "/nowhere/libcuda.so.1", "install the driver", code=1, environment=NO_DRIVER)

    def test_top_k_beyond_the_documents_is_all_of_them(self):
        line = [*SCORE, "--top-k", 9223372036854775807]
        lines = self.run_command(*line, cwd=self.directory).stdout.splitlines()
        self.assertEqual(len(lines), 1 + 2 * 5)

    def test_warming_without_a_gpu_says_what_needs_none(self):
        result = self.run_command(*WARM[:-2], code=1, environment=NO_DRIVER)
        self.assertIn("1 of 1 specializations failed (dense_forward with no features): the NVIDIA driver's library libcuda was not "
                      "found; looked for: /nowhere/libcuda.so.1; install the driver, or set MAXSIM_JIT_LIBCUDA to the path of "
                      "libcuda.so.1; or name an architecture: with --arch sm_90a, say, it needs no GPU\n", result.stderr)

    def test_each_op_has_a_line_in_the_help(self):
        text = self.run_command("score", "--help").stdout
        self.assertRegex(text, r"\n  dense_forward +--q --d \[--q-mask .*--argmax --normalize --empty-doc\]\n")
        self.assertRegex(text, r"\n  residual_forward +--q \(--index \[--candidates\] \| --codes [^\[]*--bucket-weights\) \[--q-mask .*\]\n")

    def test_a_gpu_that_no_entry_is_of_is_said(self):
        result = self.run_command(*WARM, "--gpu", "NVIDIA H2000", code=0)
        self.assertIn("no entry is shipped for a GPU 'NVIDIA H2000' of sm_90a", result.stderr)


class StdoutTest(CommandTest):
    """What was asked for must not be lost in silence, whichever command says it."""

    def setUp(self):
        super().setUp()
        files = {"--q": write_npy(self.directory / "q.npy", "<f4", (2, 3, 16), [1.0] * 96),
                 "--d": write_npy(self.directory / "d.npy", "<f4", (5, 4, 16), [1.0] * 320)}
        self.score = ["score", "--device", "cpu", *(word for pair in files.items() for word in pair)]
        self.lines = [self.score, [*self.score, "--json"], ["inspect"], ["doctor"],
                      ["doctor", "--json"], ["cache", "path"], ["cache", "verify", "--json"], ["--help"], ["--version"],
                      ["score", "--help"], ["cache", "path", "--help"]]

    def test_full(self):
        for line in self.lines:
            with self.subTest(line), open("/dev/full", "w") as full:
                self.assert_sentence(self.run_command(*line, code=1, stdout=full), "stdout", "No space left")

    def test_closed(self):
        for line in self.lines:
            with self.subTest(line):
                shell = ["/bin/sh", "-c", 'exec "$0" "$@" >&-', Here.command, *line]
                result = subprocess.run(shell, stderr=subprocess.PIPE, text=True, env=self.environment())
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assert_sentence(result, "stdout", "Bad file descriptor")

    def test_closed_where_nothing_is_printed(self):
        out = self.directory / "o.npy"
        shell = ["/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', Here.command, *self.score, "--out", out]
        self.assertEqual(subprocess.run(shell, env=self.environment()).returncode, 0)
        self.assertEqual(out.read_bytes()[:6], b"\x93NUMPY")
        self.assertEqual(out.stat().st_size, 128 + 2 * 5 * 4)  # and no other text in it

    def test_no_file_takes_a_closed_descriptor(self):
        # Or what is said would go into that file. The command holds still while it reads a pipe.
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        shell = ["/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', Here.command, "warm", "--manifest", pipe, "--arch", "sm_90a"]
        process = subprocess.Popen(shell, env=self.environment())
        with open(pipe, "w") as writer:
            places = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
            writer.write("[]")
        self.assertEqual(process.wait(timeout=60), 1)  # the report can't be written
        self.assertEqual(places, ["/dev/null"] * 3)

    def test_a_reader_that_left_ends_the_command_as_it_ends_others(self):
        read, write = os.pipe()
        os.close(read)
        self.run_command(*self.score, code=-13, stdout=write)  # SIGPIPE
        os.close(write)


if __name__ == "__main__":
    main(__doc__)
