"""Prints the ranking that `maxsim-jit score --top-k K --json` gave for the fixture, with each passage's first words.

usage: show_ranking.py RANKING.json
Exit 1 if fewer than 6 of the 8 questions find their passage among the top 3.
"""
import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
passages = json.loads((here / "passages.json").read_text())
questions = json.loads((here / "questions.json").read_text())
ranking = json.loads(pathlib.Path(sys.argv[1]).read_text())["top"]

found = 0
for question, best in zip(questions, ranking, strict=True):
    expected = question["expected_passage"]
    hit = expected in [row["document"] for row in best[:3]]
    found += hit
    print(f"\n{'*' if hit else ' '} {question['text']}")
    for row in best:
        words = " ".join(passages[row["document"]]["text"].split()[:10])
        mark = "->" if row["document"] == expected else "  "
        print(f"    {mark} {row['score']:8.4f}  #{row['document']:<3} {words} …")
print(f"\n{found} of {len(questions)} questions find their passage among the top 3")
sys.exit(0 if found >= 6 else 1)
