"""The README's sessions of the command, run as they stand: what it prints is what they show.

A block marked `console` has commands after "$ " and what each of them prints, on stdout and stderr; "…" stands for any
text, alone on a line for any lines. Seconds, NVRTC's version and place, and the home directory are not compared. No
command of them needs a GPU; what a GPU prints is in blocks of another mark.

usage: readme_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import re
import shlex
import shutil

from command import NO_DRIVER, CommandTest, Here, main

VARYING = [(r"in \d+\.\d+ s:", "in … s:"), (r"NVRTC \d+\.\d+ from [^\s,]+", "NVRTC … from …")]
PROGRESS = re.compile(r"maxsim-jit: (warm|compile) \d+ of \d+\n")  # a bar on a terminal, which leaves nothing


def sessions(text):
    """(command, output) pairs of all console blocks, in order."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for command in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = command.partition("\n")
            yield line, output


def pattern_of(shown):
    """A regular expression for output that is shown with "…" in it."""
    for varying, plain in VARYING:
        shown = re.sub(varying, plain, shown)
    any_lines = re.escape("…\n")
    pattern = re.sub(rf"(?m)^{any_lines}", "(?:.*\n)*", re.escape(shown).replace("\\\n", "\n"))
    return pattern.replace("…", ".*")


class ReadmeTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.home = self.directory / "home"
        self.home.mkdir(mode=0o700)
        self.place = self.directory / "checkout"
        data = self.place / "tests" / "data"
        shutil.copytree(Here.source / "tests" / "data", data)

    def need_nvrtc(self):
        checks = self.run_command("doctor").stdout
        if not re.search(r"(?m)^ok +nvrtc", checks):
            self.skipTest("no NVRTC here: " + checks)

    def data_files(self):
        return set((self.directory / "checkout" / "tests" / "data").rglob("*"))

    def run_line(self, line, code):
        """What a person sees, with the home directory under the README's name for it."""
        words = shlex.split(line)
        self.assertEqual(words[0], "maxsim-jit", line)
        environment = {**NO_DRIVER, "HOME": str(self.home), "MAXSIM_JIT_CACHE_DIR": None, "XDG_CACHE_HOME": None}
        result = self.run_command(*words[1:], cwd=self.place, environment=environment, code=code)
        return PROGRESS.sub("", result.stdout + result.stderr).replace(str(self.home), "/home/me")

    def test_sessions(self):
        pairs = list(sessions((Here.source / "README.md").read_text()))
        used = {shlex.split(line)[1] for line, _ in pairs if line.startswith("maxsim-jit")}
        self.assertEqual(used, {"warm", "inspect", "cache", "doctor", "score", "bench"})
        self.need_nvrtc()
        before = self.data_files()
        for line, shown in pairs:
            with self.subTest(line):
                if line.startswith("cd "):
                    self.place = self.place / line.split()[1]
                    continue
                fails = "is accepted" in shown or "install the driver, or" in shown  # a mistake may be shown too
                printed = self.run_line(line, code=1 if fails else 0)
                self.assertTrue(re.fullmatch(pattern_of(shown), printed), f"README:\n{shown}\nprinted:\n{printed}")

        ignored = (Here.source / ".gitignore").read_text().splitlines()
        for made in self.data_files() - before:  # a checkout stays clean
            self.assertIn(f"/{made.relative_to(self.directory / 'checkout')}", ignored)

    def test_manifest(self):
        (block,) = re.findall(r"^```json\n(.*?)^```$", (Here.source / "README.md").read_text(), re.M | re.S)
        manifest = self.directory / "manifest.json"
        manifest.write_text(block)
        line = ["warm", "--manifest", manifest, "--arch", "sm_90a", "--json"]
        self.need_nvrtc()
        warmed = json.loads(self.run_command(*line, environment={"MAXSIM_JIT_TUNE": "off"}).stdout)
        self.assertEqual((warmed["prepared"], warmed["counters"]["nvrtc_invocations"]), (3, 3))

    def test_a_session_that_prints_something_else_is_noticed(self):
        shown = "prepared 16 of 16 feature sets in 1.00 s: 16 compiled\n…\nfiles: 16, …\n"
        good = "prepared 16 of 16 feature sets in 9.75 s: 16 compiled\na\nb\nfiles: 16, problems: 0\n"
        self.assertTrue(re.fullmatch(pattern_of(shown), good))
        for bad in (good.replace("16 comp", "17 comp"), good.replace("files: 16", "files: 17"), good + "more\n", good[:-1]):
            self.assertFalse(re.fullmatch(pattern_of(shown), bad), bad)


if __name__ == "__main__":
    main(__doc__)
