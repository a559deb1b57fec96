"""The man page and the bash completion say what the command's --help says: no more, no less.

usage: manual_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import pathlib
import re
import subprocess
import sys
import unittest

COMMAND = SOURCE = None


def help_of(*words):
    text = subprocess.run([COMMAND, *words, "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"--[\w-]+", "\n".join(re.findall(r"^ {1,4}(-\S+)", text, re.MULTILINE))))
    _, _, subcommands = text.partition("Subcommands:\n")
    return options, re.findall(r"^ {2}([\w-]+) ", subcommands, re.MULTILINE)


def tree(*words):
    """Every command below `words` that does something itself, with its options: {"cache path": set(), …}."""
    options, subcommands = help_of(*words)
    if not subcommands:
        return {" ".join(words): options - {"--help"}}
    return {name: found for word in subcommands for name, found in tree(*words, word).items()}


class ManPage(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.text = (SOURCE / "src/cli/maxsim-jit.1").read_text().replace("\\-", "-")

    def section(self, name):
        return re.split(r"^\.SH ", self.text.partition(f"\n.SH {name}\n")[2], flags=re.MULTILINE)[0]

    def options_in(self, text):
        return set(re.findall(r"^\.TP\n\.B\w* .*?(--[\w-]+)", text, re.MULTILINE))

    def test_options_of_the_program(self):
        self.assertEqual(self.options_in(self.section("OPTIONS")), help_of()[0])

    def test_commands_and_their_options(self):
        _, *parts = re.split(r"^\.SS ", self.section("COMMANDS"), flags=re.MULTILINE)
        self.assertEqual({part.split("\n")[0]: self.options_in(part) for part in parts}, tree())

    def test_what_only_a_name_and_a_value_are_given_of_is_said_in_the_same_words(self):
        text = subprocess.run([COMMAND, "score", "--help"], capture_output=True, text=True, check=True).stdout
        page = " ".join(re.sub(r"(?m)^\.\w+ ", "", self.section("COMMANDS")).split())
        for option in ("--normalize", "--lsb-first", "--Ld", "--empty-doc"):
            line = re.search(rf"^ *{option} (.*)$", text, re.MULTILINE)[1]
            words = line.split("  ")[-1].rpartition(": ")[2].strip()
            self.assertIn(f"{words[0].upper()}{words[1:]}", page, option)

    def test_environment(self):
        read = set(re.findall(r"MAXSIM_JIT_\w+", (SOURCE / "src/base/settings.cpp").read_text()))
        self.assertEqual(set(re.findall(r"MAXSIM_JIT_\w+", self.section("ENVIRONMENT"))), read)


class Completion(unittest.TestCase):
    maxDiff = None

    def complete(self, *words):
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _maxsim_jit;'
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", SOURCE / "src/cli/maxsim-jit.bash", COMMAND, *words],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete(""), help_of()[1])
        self.assertEqual(self.complete("--verbose", "s"), ["score"])
        self.assertEqual(self.complete("cache", ""), help_of("cache")[1])

    def test_options(self):
        self.assertEqual(set(self.complete("--")), help_of()[0])
        self.assertEqual(set(self.complete("score", "--q", "q.npy", "--")), help_of("score")[0])
        self.assertEqual(self.complete("warm", "--man"), ["--manifest"])

    def test_values_are_left_to_file_names(self):
        self.assertEqual(self.complete("score", "--q", ""), [])


if __name__ == "__main__":
    COMMAND, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
