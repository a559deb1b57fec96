"""Prints the ranking that `maxsim-jit score --top-k K --json` gave for the fixture, with each passage's first words.

usage: show_ranking.py RANKING.json [OTHER.json]
With OTHER (another device's), its score and passage beside each. Exit 1 if fewer than 6 of the 8 questions find their
passage among the top 3.
"""
import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
passages = json.loads((here / "passages.json").read_text())
questions = json.loads((here / "questions.json").read_text())
documents = [json.loads(pathlib.Path(file).read_text()) for file in sys.argv[1:]]
if len(documents) > 1:
    print("the columns:", ", ".join(document["device"] for document in documents))

found = 0
for question, best, *others in zip(questions, *(document["top"] for document in documents), strict=True):
    expected = question["expected_passage"]
    hit = expected in [row["document"] for row in best[:3]]
    found += hit
    print(f"\n{'*' if hit else ' '} {question['text']}")
    for row, *beside in zip(best, *others, strict=True):
        words = " ".join(passages[row["document"]]["text"].split()[:10])
        mark = "->" if row["document"] == expected else "  "
        columns = "  ".join(f"{column['score']:8.4f}  #{column['document']:<3}" for column in (row, *beside))
        print(f"    {mark} {columns} {words} …")
print(f"\n{found} of {len(questions)} questions find their passage among the top 3")
sys.exit(0 if found >= 6 else 1)
