"""docs/examples/colbert_index.py on an index as ColBERT lays one out, in two chunks: the scores are those of the index
that it was made from; and what the script says without them. The first is skipped (77) where there is no torch.

usage: colbert_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
except ImportError:
    torch = None

COMMAND = SOURCE = None


def write_colbert_index(fixture, folder):
    """The fixture's index with ColBERT's names and types."""
    folder.mkdir()
    array = lambda name: torch.from_numpy(numpy.load(fixture / f"{name}.npy"))
    lengths = json.loads((fixture / "doclens.0.json").read_text())
    nbits = json.loads((fixture / "metadata.json").read_text())["nbits"]
    torch.save(array("centroids"), folder / "centroids.pt")
    weights = array("bucket_weights").half()
    torch.save((weights[1:] - 1, weights), folder / "buckets.pt")
    start = 0
    for chunk, part in enumerate((lengths[:20], lengths[20:])):
        end = start + sum(part)
        torch.save(array("merged_codes")[start:end].int().clone(), folder / f"{chunk}.codes.pt")
        torch.save(array("merged_residuals")[start:end].clone(), folder / f"{chunk}.residuals.pt")
        (folder / f"doclens.{chunk}.json").write_text(json.dumps(part))
        start = end
    (folder / "metadata.json").write_text(json.dumps({"config": {"nbits": nbits, "dim": 128}, "num_chunks": 2}))


class Said(unittest.TestCase):
    def run_script(self, *words):
        # -S: without site-packages, so without torch.
        return subprocess.run([sys.executable, "-S", SOURCE / "docs/examples/colbert_index.py", *words], capture_output=True, text=True)

    def test_usage_comes_first(self):
        result = self.run_script("only one")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("colbert_index.py COLBERT_INDEX NEW_FOLDER\n", result.stderr)

    def test_what_is_missing_is_one_sentence(self):
        result = self.run_script("a", "b")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"^colbert_index\.py: \S+ has no (numpy|torch); install it there, or use [^\n]+\n$")


@unittest.skipIf(torch is None, "no torch or no NumPy")
class Converted(unittest.TestCase):
    def scores(self, index):
        data = SOURCE / "tests/data"
        line = [COMMAND, "score", "--device", "cpu", "--op", "residual_forward", "--index", index, "--normalize",
                "--q", data / "q_emb.npy", "--json"]
        return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["scores"]

    def test_scores_are_those_of_the_index(self):
        for name in ("plaid2", "plaid4"):
            with self.subTest(name), tempfile.TemporaryDirectory() as scratch:
                fixture, scratch = SOURCE / "tests/data" / name, pathlib.Path(scratch)
                write_colbert_index(fixture, scratch / "colbert")
                subprocess.run([sys.executable, SOURCE / "docs/examples/colbert_index.py", scratch / "colbert",
                                scratch / "index"], check=True)
                self.assertEqual(self.scores(scratch / "index"), self.scores(fixture))


if __name__ == "__main__":
    COMMAND, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
    ran = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False)
    sys.exit(1 if not ran.result.wasSuccessful() else 77 if ran.result.skipped else 0)
