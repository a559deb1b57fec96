"""`score` against scores computed here, in float64 and by the definition: every way to write the files, every output.

usage: score_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import ast
import itertools
import json
import math
import pathlib
import random
import struct

from command import CommandTest, Here, main, npy_bytes, npy_header

NUMBERS = {"f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "b1": "?", "i1": "b", "u1": "B"}
NQ, LQ, ND, LD, D = 2, 3, 5, 4, 8


def encoded(descr, values):
    """The bytes of the values; bfloat16 ('V2') has the upper half of float32's."""
    order = ">" if descr[0] == ">" else "<"
    if descr[1:] == "V2":
        halves = [struct.pack(">f", value) for value in values]
        assert all(half[2:] == b"\0\0" for half in halves), "no bfloat16"
        return b"".join(half[:2] if order == ">" else half[1::-1] for half in halves)
    return struct.pack(f"{order}{len(values)}{NUMBERS[descr[1:]]}", *values)


def by_columns(shape, values):
    """The same array's values in Fortran order."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    indices = itertools.product(*(range(size) for size in reversed(shape)))
    return [values[sum(i * stride for i, stride in zip(reversed(index), strides))] for index in indices]


def read_npy(path):
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<H", raw[8:10])
    header = ast.literal_eval(raw[10 : 10 + length].decode())
    assert raw[:8] == b"\x93NUMPY\x01\x00" and not header["fortran_order"] and (10 + length) % 64 == 0
    count = math.prod(header["shape"])
    values = struct.unpack(f"<{count}{NUMBERS[header['descr'][1:]]}", raw[10 + length :])
    return header["descr"], header["shape"], list(values)


def maxsim(q, docs, q_mask=None, d_mask=None):
    """Scores [i][j] and argmax [i][j][s] of vectors q[i][s] and docs[j][t]; masks of the same shape, nonzero keeps."""
    scores, argmax = [], []
    for i, query in enumerate(q):
        scores.append([])
        argmax.append([])
        for j, document in enumerate(docs):
            total, winners = 0.0, []
            active = [t for t in range(len(document)) if d_mask is None or d_mask[j][t]]
            for s, a in enumerate(query):
                if not active or (q_mask is not None and not q_mask[i][s]):
                    winners.append(-1)
                    continue
                products = {t: math.fsum(x * y for x, y in zip(a, document[t])) for t in active}
                best = max(active, key=lambda t: (products[t], -t))
                winners.append(best)
                total += products[best]
            scores[-1].append(total)
            argmax[-1].append(winners)
    return scores, argmax


def nested(shape, values):
    if len(shape) == 1:
        return list(values)
    step = math.prod(shape[1:])
    return [nested(shape[1:], values[k * step : (k + 1) * step]) for k in range(shape[0])]


def flat(values):
    return [x for value in values for x in (flat(value) if isinstance(value, list) else [value])]


class ScoreTest(CommandTest):
    def setUp(self):
        super().setUp()
        rng = random.Random(self.id())
        self.q = [rng.randint(-3, 3) for _ in range(NQ * LQ * D)]
        self.docs = [rng.randint(-3, 3) for _ in range(ND * LD * D)]
        self.docs[LD * D : 2 * LD * D] = self.docs[: LD * D]  # documents 0 and 1 tie

    def write(self, name, descr, shape, values, fortran=False, version=(1, 0)):
        path = self.directory / f"{name}.npy"
        data = encoded(descr, by_columns(shape, values) if fortran else values)
        path.write_bytes(npy_bytes(npy_header(descr, shape, fortran), data, version))
        return path

    def operands(self, descr="<f4", **how):
        return ["--q", self.write("q", descr, (NQ, LQ, D), self.q, **how),
                "--d", self.write("d", descr, (ND, LD, D), self.docs, **how)]

    def run_score(self, *arguments):
        return self.run_command("score", "--device", "cpu", *arguments)

    def run_json(self, *arguments):
        return json.loads(self.run_score("--json", *arguments).stdout)

    def expected(self, **masks):
        return maxsim(nested((NQ, LQ, D), self.q), nested((ND, LD, D), self.docs), **masks)

    # ---- inputs

    def test_every_dtype_byte_order_array_order_and_version(self):
        scores, _ = self.expected()
        kinds = itertools.product(("f2", "f4", "f8", "V2"), "<>", (False, True), ((1, 0), (2, 0), (3, 0)))
        for kind, order, fortran, version in kinds:
            with self.subTest(kind=kind, order=order, fortran=fortran, version=version):
                result = self.run_json(*self.operands(order + kind, fortran=fortran, version=version))
                self.assertEqual(result["scores"], scores)
                dtype = {"f2": "f16", "f4": "f32", "f8": "f32", "V2": "bf16"}[kind]
                self.assertEqual(result["dtypes"], {"q": dtype, "d": dtype})

    def test_masks_of_every_dtype_keep_where_they_are_not_zero(self):
        d_mask = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 1]]
        q_mask = [[1, 1, 0], [0, 1, 1]]
        scores, argmax = self.expected(q_mask=q_mask, d_mask=d_mask)
        where = self.directory / "argmax.npy"
        for descr, kept in (("|b1", True), ("|i1", -1), ("|i1", 2), ("|u1", 255), ("|u1", 1)):
            for fortran in (False, True):
                with self.subTest(descr=descr, kept=kept, fortran=fortran):
                    masks = ["--d-mask", self.write("dm", descr, (ND, LD), [kept * x for x in flat(d_mask)], fortran),
                             "--q-mask", self.write("qm", descr, (NQ, LQ), [kept * x for x in flat(q_mask)], fortran)]
                    result = self.run_json(*self.operands(), *masks, "--argmax", where)
                    self.assertEqual(result["scores"], scores)
                    self.assertEqual(read_npy(where), ("<i4", (NQ, ND, LQ), flat(argmax)))

    def test_real_text_scores_as_computed_here(self):
        data = Here.source / "tests" / "data"
        arrays = {name: read_npy(data / f"{name}.npy") for name in ("q_emb", "q_mask", "d_emb", "d_mask")}
        counts = {"q": 2, "d": 3}
        parts, files = {}, []
        for name, (descr, shape, values) in arrays.items():
            cut = (counts[name[0]], *shape[1:])
            parts[name] = values[: math.prod(cut)]
            option = {"q_emb": "--q", "d_emb": "--d"}.get(name, "--" + name.replace("_", "-"))
            files += [option, self.write(name, descr, cut, parts[name])]
            parts[name] = nested(cut, parts[name])
        q_mask, d_mask = parts["q_mask"], parts["d_mask"]
        scores, argmax = maxsim(parts["q_emb"], parts["d_emb"], q_mask, d_mask)
        where = self.directory / "argmax.npy"
        for row, expected in zip(self.run_json(*files, "--argmax", where)["scores"], scores):
            for score, wanted in zip(row, expected):
                self.assertAlmostEqual(score, wanted, delta=1e-6 * abs(wanted))
        self.assertEqual(read_npy(where)[2], flat(argmax))

    # ---- outputs

    def test_text_is_a_table(self):
        scores, _ = self.expected()
        lines = self.run_score(*self.operands()).stdout.splitlines()
        self.assertEqual(lines[0], "query  document  score")
        rows = [f"{i:>5}  {j:>8}  {scores[i][j]:g}" for i, j in itertools.product(range(NQ), range(ND))]
        self.assertEqual(lines[1:], rows)

    def best(self, scores, k):
        """Documents of each query, best first, equal ones in their order."""
        return [sorted(range(ND), key=lambda j: (-row[j], j))[:k] for row in scores]

    def test_top_k_as_text_and_as_json(self):
        scores, _ = self.expected()
        for k in (1, 2, ND, ND + 3, 2**62):
            with self.subTest(k=k):
                best = self.best(scores, k)
                text = self.run_score(*self.operands(), "--top-k", k).stdout.splitlines()[1:]
                rows = [(i, j, scores[i][j]) for i in range(NQ) for j in best[i]]
                self.assertEqual([(int(i), int(j), float(s)) for i, j, s in map(str.split, text)], rows)
                result = self.run_json(*self.operands(), "--top-k", k)
                self.assertNotIn("scores", result)
                top = [[{"document": j, "score": scores[i][j]} for j in best[i]] for i in range(NQ)]
                self.assertEqual(result["top"], top)

    def test_files_take_the_place_of_text(self):
        scores, argmax = self.expected()
        out, where = self.directory / "scores.npy", self.directory / "argmax.npy"
        result = self.run_score(*self.operands(), "--out", out, "--argmax", where)
        self.assertEqual(result.stdout, "")
        self.assertEqual(read_npy(out), ("<f4", (NQ, ND), flat(scores)))
        self.assertEqual(read_npy(where), ("<i4", (NQ, ND, LQ), flat(argmax)))
        self.assertIn(f"wrote scores [{NQ}, {ND}] to {out}", result.stderr)
        self.assertIn(f"wrote argmax [{NQ}, {ND}, {LQ}] to {where}", result.stderr)

    def test_files_json_and_a_ranking_together(self):
        scores, argmax = self.expected()
        out, where = self.directory / "scores.npy", self.directory / "argmax.npy"
        result = self.run_json(*self.operands(), "--out", out, "--argmax", where, "--top-k", 1)
        self.assertEqual(result["files"], {"scores": str(out), "argmax": str(where)})
        self.assertEqual([row[0]["document"] for row in result["top"]], [row[0] for row in self.best(scores, 1)])
        self.assertEqual(read_npy(out)[2], flat(scores))
        self.assertEqual(read_npy(where)[2], flat(argmax))
        text = self.run_score(*self.operands(), "--out", out, "--top-k", 1).stdout.splitlines()
        self.assertEqual(len(text), 1 + NQ)

    def test_text_and_json_name_what_is_no_number(self):
        self.docs[0] = math.nan
        self.docs[2 * LD * D] = math.inf
        self.q = [abs(x) + 1 for x in self.q]
        mask = self.write("dm", "|b1", (ND, LD), [j != 3 for j in range(ND) for _ in range(LD)])
        arguments = [*self.operands(), "--d-mask", mask, "--empty-doc", "neginf"]
        words = [line.split()[2] for line in self.run_score(*arguments).stdout.splitlines()[1 : 1 + ND]]
        self.assertEqual([words[0], words[2], words[3]], ["nan", "inf", "-inf"])
        row = self.run_json(*arguments)["scores"][0]
        self.assertEqual([row[0], row[2], row[3]], ["nan", "inf", "-inf"])
        ranking = [entry["document"] for entry in self.run_json(*arguments, "--top-k", ND)["top"][0]]
        self.assertEqual((ranking[0], ranking[3], ranking[4]), (2, 3, 0))  # the infinite first, NaN after all numbers


if __name__ == "__main__":
    main(__doc__)
