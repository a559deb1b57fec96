"""ColBERT's index, a folder of .pt files, as a folder of .npy files that `maxsim-jit score --index` reads.

    python3 docs/examples/colbert_index.py COLBERT_INDEX NEW_FOLDER

Needs torch and NumPy. Codes and residuals are copied chunk by chunk, so memory for one chunk is enough. ColBERT's
search scores rows of length 1: pass --normalize to `score`.
"""
import json
import pathlib
import shutil
import sys

if __name__ == "__main__" and len(sys.argv) != 3:
    sys.exit(__doc__)

try:
    import numpy
    import torch
except ImportError as error:
    sys.exit(f"colbert_index.py: {sys.executable} has no {error.name}; install it there, or use a python3 that has it")


def load(file):
    return torch.load(file, map_location="cpu", weights_only=True)


def convert(source, target):
    metadata = json.loads((source / "metadata.json").read_text())
    nbits, chunks = metadata["config"]["nbits"], metadata["num_chunks"]
    target.mkdir(parents=True)
    numpy.save(target / "centroids.npy", load(source / "centroids.pt").numpy())
    _, weights = load(source / "buckets.pt")  # the cutoffs are for encoding alone
    numpy.save(target / "bucket_weights.npy", weights.float().numpy())
    for chunk in range(chunks):
        numpy.save(target / f"{chunk}.codes.npy", load(source / f"{chunk}.codes.pt").to(torch.int32).numpy())
        numpy.save(target / f"{chunk}.residuals.npy", load(source / f"{chunk}.residuals.pt").numpy())
        shutil.copyfile(source / f"doclens.{chunk}.json", target / f"doclens.{chunk}.json")
    (target / "metadata.json").write_text(json.dumps({"nbits": nbits, "num_chunks": chunks}) + "\n")


if __name__ == "__main__":
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
