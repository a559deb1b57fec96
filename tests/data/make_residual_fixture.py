#!/usr/bin/env python3
"""Makes the index fixtures beside this script: see README.md for what each file is.

fast-plaid, on the CPU, makes an index of the passages of the real-text fixture (the tokens that d_mask keeps) at 2 and
at 4 bits. Kept are the files that a reader needs, as the library wrote them, and what the library itself makes of them:
the decoded tokens of every eighth passage, and its scores of the questions.

    python3 -m venv VENV && VENV/bin/pip install -r tests/data/requirements-plaid.txt
    VENV/bin/python tests/data/make_residual_fixture.py [--out DIR] [--check]
"""

import argparse
import filecmp
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from fast_plaid.search import FastPlaid

HERE = Path(__file__).resolve().parent
SEED = 42
STEP = 8  # of the passages whose decoded tokens are kept
KEPT = ["metadata.json", "doclens.0.json", "centroids.npy", "bucket_weights.npy", "merged_codes.npy",
        "merged_residuals.npy"]


def rows(name):
    """The kept tokens of each question ("q") or passage ("d")."""
    embeddings, mask = np.load(HERE / f"{name}_emb.npy"), np.load(HERE / f"{name}_mask.npy")
    return [torch.from_numpy(one[keep]) for one, keep in zip(embeddings, mask)]


def library_scores(index, questions, passages):
    """[Nq, Nd]; NaN where the library's search does not come upon a passage."""
    scores = np.full((len(questions), passages), np.nan, np.float32)
    found = index.search(questions, top_k=passages, n_full_scores=4096, n_ivf_probe=64)
    for row, results in zip(scores, found):
        for passage, score in results:
            row[passage] = score
    return scores


def make(nbits, folder):
    passages = rows("d")
    with tempfile.TemporaryDirectory() as scratch:
        index = FastPlaid(index=scratch, device="cpu")
        index.create(documents_embeddings=passages, nbits=nbits, seed=SEED)
        decoded = torch.cat(index.get_embeddings(list(range(0, len(passages), STEP)))).numpy()
        scores = library_scores(index, rows("q"), len(passages))
        index.close()
        folder.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copyfile(Path(scratch) / name, folder / name)
    if not np.array_equal(decoded, decoded.astype(np.float16)):
        sys.exit("make_residual_fixture: the library's decoded tokens are no float16 numbers any more")
    np.save(folder / "library_rows.npy", decoded.astype(np.float16))
    np.save(folder / "library_scores.npy", scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file in --out differs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    different = []
    with tempfile.TemporaryDirectory() as scratch:
        for nbits in (2, 4):
            name = f"plaid{nbits}"
            made = Path(scratch) / name if arguments.check else arguments.out / name
            make(nbits, made)
            for file in sorted(made.iterdir()):
                print(f"  {name}/{file.name:22} {file.stat().st_size:7} bytes")
                if arguments.check and not filecmp.cmp(file, arguments.out / name / file.name, shallow=False):
                    different.append(f"{name}/{file.name}")
    if different:
        sys.exit(f"make_residual_fixture: not what the script makes: {', '.join(different)}")


if __name__ == "__main__":
    main()
