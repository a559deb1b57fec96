"""What the README's section on linking shows is what the examples hold, line for line, and what it counts of buckets is so.

usage: readme_test.py SOURCE_DIR
"""
import json
import math
import pathlib
import re
import sys
import textwrap
import unittest

import examples

SOURCE = None
FILES = {"cmake": "CMakeLists.txt", "c": "score.c", "cpp": "score.cpp", "python": "score.py"}


def link_section():
    return re.search(r"^## Link\n(.*?)^## ", (SOURCE / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]


def shown(language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", link_section(), re.MULTILINE | re.DOTALL)
    return [text for tag, text in blocks if tag == language]


def runs(text, count):
    """Every run of `count` lines, without the indentation that they share."""
    lines = text.splitlines(keepends=True)
    return {textwrap.dedent("".join(lines[i : i + count])) for i in range(len(lines) - count + 1)}


class Link(unittest.TestCase):
    def test_excerpts_are_the_examples_own_lines(self):
        for language, name in FILES.items():
            text = (SOURCE / "docs/examples" / name).read_text()
            self.assertTrue(shown(language), f"no {language} in the README's section on linking")
            for excerpt in shown(language):
                for part in excerpt.split("\n\n"):
                    part = part.rstrip("\n") + "\n"
                    self.assertIn(part, runs(text, part.count("\n")), name)

    def test_command_lines_are_those_of_the_examples(self):
        comments = "".join((SOURCE / "docs/examples" / name).read_text() for name in FILES.values())
        for line in "".join(shown("sh")).splitlines():
            self.assertIn(line, comments)

    def test_edges_and_what_a_reranker_prepares(self):
        edges = {name: rule["edges"] for name, rule in json.loads((SOURCE / "configs/buckets.json").read_text())["edges"].items()}
        text = " ".join(link_section().split())
        for name, values in edges.items():
            self.assertIn(f"| {name} | {', '.join(f'{value:,}' for value in values)},", text)
        prepared = {name: [edge for below, edge in zip([0, *edges[name]], edges[name]) if below < most]
                    for name, most in (("Lq", 32), ("Nd", 1000), ("Ld", 300))}
        for name, values in prepared.items():
            *others, last = (f"{value:,}" for value in values)
            self.assertIn(f"{name} {', '.join(others)} and {last}", text)
        words = {1: "one", 2: "two", 12: "twelve"}
        self.assertIn(f"{words[math.prod(map(len, prepared.values()))]} calls for each feature set", text)
        self.assertIn(f"pads to Nd 1,000 and Ld 300 (documents of length 0 cost nothing) it prepares {words[len(prepared['Lq'])]}; "
                      "one, if it also pads queries to 32 tokens", text)

    def test_output_is_what_the_examples_print(self):
        self.assertEqual(shown(""), ["\n".join(examples.SCORES) + "\n"])


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
