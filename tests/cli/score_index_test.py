"""`score --index` of residual_forward: directories in each layout against scores computed here by the definition, the
fast-plaid fixtures against what the library itself made of them, and broken directories, each refused in one sentence.

usage: score_index_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import math
import os
import random
import shutil
import struct
import unittest

from command import CODES, CommandTest, Here, main, npy_bytes, npy_header, write_npy
from other_user import USER, UserTest, why_not
from score_test import flat, maxsim, nested, read_npy

NQ, LQ, D, K = 2, 3, 10, 7
LENGTHS = [[3, 0, 5], [1, 4]]  # of two chunks
TOKENS = sum(map(sum, LENGTHS))
OP = ("--op", "residual_forward")


def write_odd_npy(path, descr, shape, values):
    """An array that starts at an odd byte of its file, as in next-plaid's merged files."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * ((len(text) + 11) % 2 == 0) + "\n"
    data = struct.pack(f"<{len(values)}{CODES[descr]}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)


def packed(indices, nbits):
    """One row's bytes: feature after feature, low bit first, each byte from its highest bit on."""
    bits = [index >> bit & 1 for index in indices for bit in range(nbits)]
    bits += [1] * (-len(bits) % 8)  # spare bits are ignored
    return [sum(bit << 7 - j for j, bit in enumerate(bits[i:i + 8])) for i in range(0, len(bits), 8)]


class Index:
    """A small index of exact numbers, and its documents' rows."""

    def __init__(self, rng, nbits):
        self.nbits, self.bytes_per_row = nbits, (D * nbits + 7) // 8
        self.centroids = [[rng.randint(-8, 8) / 4 for _ in range(D)] for _ in range(K)]
        self.weights = [(i - 2 ** (nbits - 1)) / 16 for i in range(2 ** nbits)]
        self.codes = [rng.randrange(K) for _ in range(TOKENS)]
        self.indices = [[rng.randrange(2 ** nbits) for _ in range(D)] for _ in range(TOKENS)]
        self.residuals = [packed(row, nbits) for row in self.indices]
        rows = [[self.centroids[code][k] + self.weights[index[k]] for k in range(D)]
                for code, index in zip(self.codes, self.indices)]
        self.documents, start = [], 0
        for length in flat(LENGTHS):
            self.documents.append(rows[start:start + length])
            start += length

    def write(self, path, centroids="<f2", weights="<f4", merged=None, chunks=(0, 1), write=write_npy, padding=4):
        """`merged`: how many tokens the merged files have before padding; `chunks`: those with files of their own."""
        path.mkdir()
        write(path / "centroids.npy", centroids, (K, D), flat(self.centroids))
        write(path / "bucket_weights.npy", weights, (2 ** self.nbits,), self.weights)
        (path / "metadata.json").write_text(json.dumps({"num_chunks": len(LENGTHS), "nbits": self.nbits, "avg": 1.5}))
        start = 0
        for chunk, lengths in enumerate(LENGTHS):
            (path / f"doclens.{chunk}.json").write_text(json.dumps(lengths))
            if chunk in chunks:
                self.write_rows(path, f"{chunk}.", start, sum(lengths), 0, write)
            start += sum(lengths)
        if merged is not None:
            self.write_rows(path, "merged_", 0, merged, padding, write)
        return path

    def write_rows(self, path, prefix, start, count, padding, write):
        codes = self.codes[start:start + count] + [-1] * padding  # what padding holds does not matter
        residuals = flat(self.residuals[start:start + count]) + [7] * (padding * self.bytes_per_row)
        write(path / f"{prefix}codes.npy", "<i8", (count + padding,), codes)
        write(path / f"{prefix}residuals.npy", "|u1", (count + padding, self.bytes_per_row), residuals)


class ScoreIndexTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(self.id())
        self.q = [self.rng.randint(-4, 4) / 2 for _ in range(NQ * LQ * D)]
        self.q_file = write_npy(self.directory / "q.npy", "<f4", (NQ, LQ, D), self.q)

    def score(self, path, *arguments, code=0):
        q = () if "--q" in arguments else ("--q", self.q_file)
        line = ["score", "--device", "cpu", "--json", *OP, "--index", path, *q, *arguments]
        result = self.run_command(*line, code=code)
        return json.loads(result.stdout) if code == 0 else result

    def expected(self, documents):
        longest = max(map(len, documents), default=0)
        padded = [rows + [[0] * D] * (longest - len(rows)) for rows in documents]
        keep = [[t < len(rows) for t in range(longest)] for rows in documents]
        return maxsim(nested((NQ, LQ, D), self.q), padded, d_mask=keep)[0]

    # ---- layouts

    def test_layouts(self):
        layouts = {
            "merged, with padding": {"merged": TOKENS, "chunks": ()},
            "merged, without": {"merged": TOKENS, "chunks": (), "padding": 0},
            "chunks": {},
            "chunks of float32": {"centroids": "<f4"},
            "merged of float32": {"centroids": "<f4", "merged": TOKENS, "chunks": ()},
            "chunks beside a merged file that is too old": {"merged": 2},
            "a chunk that is not merged yet": {"merged": sum(LENGTHS[0]), "chunks": (1,)},
            "a first chunk that is not merged yet": {"merged": TOKENS, "chunks": (0,)},
            "data at odd bytes": {"merged": TOKENS, "chunks": (), "write": write_odd_npy},
            "chunks at odd bytes": {"write": write_odd_npy},
            "Fortran order": {"merged": TOKENS, "chunks": (), "write": write_in_fortran_order},
        }
        for nbits in (1, 2, 4, 8):
            index = Index(self.rng, nbits)
            for what, layout in layouts.items():
                with self.subTest(nbits=nbits, layout=what):
                    path = index.write(self.directory / f"{nbits} {what}", **layout)
                    result = self.score(path)
                    self.assertEqual(result["scores"], self.expected(index.documents))
                    self.assertEqual(result["features"], [])
                    self.assertNotIn("documents", result)  # all of them, in their order
                    self.assertEqual(result["dtypes"]["bucket_weights"], result["dtypes"]["centroids"])

    def test_candidates_keep_their_numbers(self):
        index = Index(self.rng, 2)
        path = index.write(self.directory / "index")
        for descr, candidates in (("<i8", [4, 0, 4, 2]), ("<i4", [1]), ("<i8", [])):
            with self.subTest(candidates=candidates):
                file = write_npy(self.directory / "ids.npy", descr, (len(candidates),), candidates)
                expected = self.expected([index.documents[j] for j in candidates]) if candidates else []
                result = self.score(path, "--candidates", file)
                self.assertEqual((result["documents"], result["scores"]), (candidates, expected))
                result = self.score(path, "--candidates", file, "--out", self.directory / "out.npy")
                self.assertEqual((result["documents"], "scores" in result), (candidates, False))
                result = self.score(path, "--candidates", file, "--top-k", "2")
                self.assertNotIn("documents", result)
                top = result["top"]
                for row, scores in zip(top, expected, strict=True):
                    best = sorted(range(len(candidates)), key=lambda place: (-scores[place], place))[:2]
                    self.assertEqual([(r["document"], r["score"]) for r in row],
                                     [(candidates[place], scores[place]) for place in best])
        text = self.run_command("score", "--device", "cpu", *OP, "--index", path, "--q", self.q_file, "--candidates",
                                write_npy(self.directory / "ids.npy", "<i8", (1,), [3])).stdout
        self.assertEqual([line.split()[1] for line in text.splitlines()[1:]], ["3"] * NQ)

    def test_normalize_and_the_other_features(self):
        index = Index(self.rng, 4)
        path = index.write(self.directory / "index", merged=TOKENS, chunks=())
        unit = [[[x / max(math.hypot(*row), 1e-12) for x in row] for row in rows] for rows in index.documents]
        argmax = self.directory / "argmax.npy"
        for candidates in ([0, 1, 2, 3, 4], [3, 2]):
            file = write_npy(self.directory / "ids.npy", "<i8", (len(candidates),), candidates)
            result = self.score(path, "--candidates", file, "--normalize", "--argmax", argmax)
            self.assertEqual(result["features"], ["normalize", "save_argmax"])
            expected = self.expected([unit[j] for j in candidates])
            for a, b in zip(flat(result["scores"]), flat(expected), strict=True):
                self.assertLessEqual(abs(a - b), 1e-5 * max(1.0, abs(b)))
            self.assertEqual(read_npy(argmax)[1], (NQ, len(candidates), LQ))
        lsb = self.score(path, "--lsb-first")  # another index, as the bytes are read the other way round
        self.assertEqual(lsb["features"], ["lsb_first"])
        self.assertNotEqual(lsb["scores"], self.expected(index.documents))

    def test_dtype_converts_queries_and_centroids(self):
        path = Index(self.rng, 2).write(self.directory / "index")
        dtypes = self.score(path, "--dtype", "bf16")["dtypes"]
        self.assertEqual([dtypes[name] for name in ("q", "centroids", "bucket_weights")], ["bf16"] * 3)

    def test_an_index_without_a_token(self):
        path = Index(self.rng, 2).write(self.directory / "index", chunks=())
        for chunk in range(2):
            (path / f"doclens.{chunk}.json").write_text("[0, 0]" if chunk == 0 else "[]")
            for kind, descr in (("codes", "<i8"), ("residuals", "|u1")):
                write_npy(path / f"{chunk}.{kind}.npy", descr, (0,), [])
        self.assertEqual(self.score(path)["scores"], [[0, 0]] * NQ)
        self.assertEqual(self.score(path, "--normalize")["scores"], [[0, 0]] * NQ)
        self.assertEqual(self.score(path, "--empty-doc", "neginf")["scores"], [["-inf", "-inf"]] * NQ)

    # ---- the fixtures that fast-plaid made

    def test_decoded_rows_are_the_librarys(self):
        for nbits in (2, 4):
            with self.subTest(nbits=nbits):
                fixture = Here.source / "tests/data" / f"plaid{nbits}"
                path = self.directory / f"tokens{nbits}"  # an index whose documents are the tokens
                shutil.copytree(fixture, path)
                lengths = json.loads((fixture / "doclens.0.json").read_text())
                (path / "doclens.0.json").write_text(json.dumps([1] * sum(lengths)))
                tokens = [sum(lengths[:j]) + t for j in range(0, len(lengths), 8) for t in range(lengths[j])]
                ids = write_npy(self.directory / "ids.npy", "<i8", (len(tokens),), tokens)
                unit = [1.0 if i == j else 0.0 for i in range(128) for j in range(128)]
                q = write_npy(self.directory / "unit.npy", "<f2", (128, 1, 128), unit)
                out = self.directory / "columns.npy"
                self.run_command("score", "--device", "cpu", *OP, "--index", path, "--candidates", ids, "--q", q,
                                 "--normalize", "--out", out)
                columns = nested((128, len(tokens)), read_npy(out)[2])
                library = nested((len(tokens), 128), read_npy(fixture / "library_rows.npy")[2])
                # The library computes in float16, the norm and each element by it.
                worst = max(math.dist([column[t] for column in columns], row) / math.hypot(*row)
                            for t, row in enumerate(library))
                print(f"index: {nbits} bits: {len(tokens)} rows, worst {worst:.2e} of its length from the library's")
                self.assertLessEqual(worst, 1e-3)

    def test_ranks_are_the_librarys(self):
        data = Here.source / "tests/data"
        for nbits in (2, 4):
            with self.subTest(nbits=nbits):
                line = ["score", "--device", "cpu", "--json", *OP, "--index", data / f"plaid{nbits}", "--normalize",
                        "--q", data / "q_emb.npy", "--q-mask", data / "q_mask.npy"]
                ours = json.loads(self.run_command(*line).stdout)["scores"]
                library = nested((8, 64), read_npy(data / f"plaid{nbits}" / "library_scores.npy")[2])
                self.assert_same_ranks(nbits, ours, library)
                answers = [q["expected_passage"] for q in json.loads((data / "questions.json").read_text())]
                self.assertEqual([row.index(max(row)) for row in ours], answers)

    def assert_same_ranks(self, nbits, ours, library):
        worst, ties = 0, 0
        for our_row, library_row in zip(ours, library, strict=True):
            found = [j for j, score in enumerate(library_row) if not math.isnan(score)]
            slack = {j: 1e-3 * abs(library_row[j]) for j in found}
            worst = max(worst, *(abs(our_row[j] - library_row[j]) / abs(library_row[j]) for j in found))
            for i in found:
                for j in found:
                    if library_row[i] > library_row[j] and our_row[i] <= our_row[j]:
                        ties += 1
                        self.assertLessEqual(library_row[i] - library_row[j], slack[i] + slack[j])
        print(f"index: {nbits} bits: worst score {worst:.2e} from the library's, {ties} pairs in the other order")
        self.assertLessEqual(worst, 1e-3)

    # ---- what is refused

    def test_broken_directories(self):
        index = Index(self.rng, 2)

        def replaced(name, text):
            return lambda path: (path / name).write_text(text)

        def array(name, descr, shape, values):
            return lambda path: write_npy(path / name, descr, shape, values)

        def removed(name):
            return lambda path: (path / name).unlink()

        def pipe(name):
            return lambda path: [removed(name)(path), os.mkfifo(path / name)]

        def shortened(name, by):
            return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-by])

        def longer(path):
            (path / "doclens.1.json").write_text("[1, 9]")

        def code(value):
            return lambda path: write_npy(path / "1.codes.npy", "<i8", (5,), [0, 1, value, 0, 0])

        cases = [
            ("no metadata", removed("metadata.json"), "metadata.json", "cannot be opened"),
            ("a pipe as metadata", pipe("metadata.json"), "metadata.json", "is a pipe", "a regular JSON file"),
            ("a pipe as lengths", pipe("doclens.1.json"), "doclens.1.json", "is a pipe", "a regular JSON file"),
            ("no JSON", replaced("metadata.json", "{"), "metadata.json", "not JSON"),
            ("more after a NUL", replaced("metadata.json", '{"num_chunks": 2, "nbits": 2}\0x'), "metadata.json",
             "has '\\x00', where the end of the text is accepted"),
            ("lengths with more after a NUL", replaced("doclens.0.json", "[1]\0x"), "doclens.0.json", "has '\\x00'"),
            # Once a minute.
            ("a list of objects", replaced("metadata.json", "[" + ",".join(["{}"] * 500000) + "]"), "metadata.json",
             "\"num_chunks\" is missing"),
            ("a list", replaced("metadata.json", "[]"), "metadata.json", "\"num_chunks\" is missing", "\"nbits\""),
            ("no nbits", replaced("metadata.json", '{"num_chunks": 2}'), "metadata.json", "\"nbits\" is missing"),
            ("nbits 3", replaced("metadata.json", '{"num_chunks": 2, "nbits": 3}'), "metadata.json", "\"nbits\" is 3",
             "1, 2, 4, 8"),
            ("nbits as text", replaced("metadata.json", '{"num_chunks": 2, "nbits": "2"}'), "\"nbits\" is \"2\""),
            ("no chunk", replaced("metadata.json", '{"num_chunks": 0, "nbits": 2}'), "\"num_chunks\" is 0", "from 1"),
            ("a third chunk", replaced("metadata.json", '{"num_chunks": 3, "nbits": 2}'), "doclens.2.json",
             "cannot be opened"),
            ("no lengths", removed("doclens.1.json"), "doclens.1.json", "cannot be opened"),
            ("lengths in an object", replaced("doclens.0.json", "{}"), "doclens.0.json", "{}", "a list"),
            ("a negative length", replaced("doclens.0.json", "[3, -1, 6]"), "doclens.0.json: length 1", "-1", "from 0"),
            ("half a length", replaced("doclens.0.json", "[3, 0.5, 5]"), "doclens.0.json: length 1", "0.5"),
            ("a length beyond int64", replaced("doclens.0.json", "[99999999999999999999]"), "doclens.0.json: length 0"),
            ("lengths above the rows", longer, "1.codes.npy has 5 rows", "doclens.1.json add up to 10", "as many"),
            ("a missing shard", lambda path: [removed(f"1.{kind}.npy")(path) for kind in ("codes", "residuals")],
             "neither 1.codes.npy nor merged_codes.npy", "2 chunks"),
            ("missing residuals", removed("1.residuals.npy"), "1.residuals.npy", "cannot be opened"),
            ("missing codes", removed("1.codes.npy"), "1.codes.npy", "cannot be opened"),
            ("wide rows", array("0.residuals.npy", "|u1", (8, 4), [0] * 32), "0.residuals.npy has 4 bytes a row",
             "3 are accepted for d 10 and nbits 2"),
            ("residuals of int8", array("0.residuals.npy", "|i1", (8, 3), [0] * 24), "0.residuals.npy", "int8",
             "uint8 of two dimensions"),
            ("flat residuals", array("0.residuals.npy", "|u1", (24,), [0] * 24), "0.residuals.npy", "(24,)"),
            ("few residuals", array("0.residuals.npy", "|u1", (7, 3), [0] * 21), "0.residuals.npy has 7 rows",
             "add up to 8"),
            ("codes as floats", array("0.codes.npy", "<f4", (8,), [0] * 8), "0.codes.npy", "float32", "int64 or int32"),
            ("a code of K", code(K), "1.codes.npy has the code 7 at row 2", "0 to 6", "centroids.npy"),
            ("a negative code", code(-1), "1.codes.npy has the code -1 at row 2"),
            ("a code beyond int32", code(1 << 40), "1.codes.npy has the code 1099511627776"),
            ("truncated codes", shortened("0.codes.npy", 1), "0.codes.npy", "truncated"),
            ("truncated residuals", shortened("1.residuals.npy", 2), "1.residuals.npy", "truncated"),
            ("truncated centroids", shortened("centroids.npy", 2), "centroids.npy", "truncated"),
            ("no centroids", removed("centroids.npy"), "centroids.npy", "cannot be opened"),
            ("flat centroids", array("centroids.npy", "<f2", (70,), [0] * 70), "centroids.npy has shape (70,)",
             "[K, d]"),
            ("no centroid at all", array("centroids.npy", "<f2", (0, 10), []), "centroids.npy has shape (0, 10)"),
            ("centroids of bytes", array("centroids.npy", "|u1", (7, 10), [0] * 70), "centroids.npy holds uint8"),
            ("no weights", removed("bucket_weights.npy"), "bucket_weights.npy", "cannot be opened"),
            ("weights of 4 bits", array("bucket_weights.npy", "<f4", (16,), [0] * 16), "bucket_weights.npy", "(16,)",
             "(4,) is accepted for nbits 2"),
        ]
        for what, damage, *parts in cases:
            with self.subTest(what):
                path = index.write(self.directory / what)
                damage(path)
                self.assert_sentence(self.score(path, code=1), path, *parts)
        short = index.write(self.directory / "short", merged=TOKENS - 1, chunks=(), padding=0)
        self.assert_sentence(self.score(short, code=1), "merged_codes.npy has 12 rows", "add up to 13",
                             "as many rows or more")
        half = index.write(self.directory / "half", merged=TOKENS, chunks=())
        (half / "merged_codes.npy").unlink()
        self.assert_sentence(self.score(half, code=1), "merged_codes.npy", "cannot be opened")

    def test_a_chunk_that_cannot_be_followed_is_not_taken_from_the_merged_files(self):
        index = Index(self.rng, 2)
        for kind in ("codes", "residuals"):
            for what, target, part in (("dangling", "nowhere", "No such file"), ("loop", f"1.{kind}.npy", "symbolic links"),
                                       ("through a file", "metadata.json/x", "Not a directory")):
                with self.subTest(kind=kind, what=what):
                    path = index.write(self.directory / f"{kind} {what}", merged=TOKENS)
                    for both in ("codes", "residuals"):
                        (path / f"1.{both}.npy").unlink()
                    (path / f"1.{kind}.npy").symlink_to(target)
                    other = {"codes": "1.residuals.npy", "residuals": "1.codes.npy"}[kind]
                    write_npy(path / other, "<i8", (0,), [])
                    self.assert_sentence(self.score(path, code=1), path / f"1.{kind}.npy", "cannot be opened", part)

    def test_bad_candidates(self):
        path = Index(self.rng, 2).write(self.directory / "index")
        for descr, shape, values, *parts in (("<i8", (1,), [5], "names document 5", "the index has 5"),
                                             ("<i8", (1,), [-1], "names document -1"),
                                             ("<i8", (1, 1), [0], "(1, 1)", "one dimension"),
                                             ("<f4", (1,), [0], "float32", "int64 or int32")):
            file = write_npy(self.directory / "ids.npy", descr, shape, values)
            self.assert_sentence(self.score(path, "--candidates", file, code=1), "--candidates", file, *parts)

    def test_no_result_is_written_over_what_the_index_links_to(self):
        files = Index(self.rng, 2).write(self.directory / "files", merged=TOKENS)
        index = self.directory / "index"
        index.mkdir()
        for file in files.iterdir():
            (index / file.name).symlink_to(f"../files/{file.name}")
        (self.directory / "link.npy").symlink_to("files/centroids.npy")
        before = {file: file.read_bytes() for file in files.iterdir()}
        for out in (*before, self.directory / "link.npy", self.directory / "index/../files/0.codes.npy"):
            for option in ("--out", "--argmax"):
                with self.subTest(out=out, option=option):
                    self.assert_sentence(self.score(index, option, out, code=2), out, "is a file of the index", index)
        self.assertEqual({file: file.read_bytes() for file in files.iterdir()}, before)
        self.score(index, "--out", files / "scores.npy")

    def test_bad_lines(self):
        path = Index(self.rng, 2).write(self.directory / "index")
        self.assert_sentence(self.score(self.directory / "nowhere", code=1), "--index", "no such directory")
        self.assert_sentence(self.score(self.q_file, code=1), "--index", self.q_file, "it is no directory")
        (self.directory / "loop").symlink_to("loop")
        self.assert_sentence(self.score(self.directory / "loop", code=1), "--index", "cannot be reached", "symbolic links")
        for operand in ("codes", "residuals", "d-starts", "d-lengths", "centroids", "bucket-weights"):
            self.assert_sentence(self.score(path, f"--{operand}", "x.npy", code=2), f"--{operand} is given beside")
        self.assert_sentence(self.score(path, "--d-inv-norms", "x.npy", "--normalize", code=2), "--d-inv-norms",
                             "--normalize")
        self.assert_sentence(self.score(path, "--op", "dense_forward", code=2), "--op")
        line = ["score", "--q", self.q_file, "--d", self.q_file, "--index", path]
        self.assert_sentence(self.run_command(*line, code=2), "--index is given, which --op residual_forward accepts", "dense_forward accepts")
        line = ["score", *OP, "--q", self.q_file, "--candidates", self.q_file]
        self.assert_sentence(self.run_command(*line, code=2), "--candidates is given without --index")
        line = ["score", *OP, "--q", self.q_file]
        self.assert_sentence(self.run_command(*line, code=2), "--codes is missing", "--index")
        for out in (path / "centroids.npy", path / "scores.npy"):
            self.assert_sentence(self.score(path, "--out", out, code=2), out, "lies in the index")
        ids = write_npy(self.directory / "ids.npy", "<i8", (1,), [0])
        self.assert_sentence(self.score(path, "--candidates", ids, "--out", ids, code=2), ids, "--candidates")
        self.assert_sentence(self.score(self.q_file, "--out", self.directory / "o.npy", code=1), "--index", "Not a directory")
        wide = write_npy(self.directory / "wide.npy", "<f4", (1, 1, 11), [0] * 11)
        self.assert_sentence(self.score(path, "--q", wide, code=1), "wide.npy", "centroids.npy makes it 10")


@unittest.skipIf(why_not(), why_not())
class OtherUsersTest(UserTest):
    def setUp(self):
        super().setUp()
        self.index = Index(random.Random(self.id()), 2).write(self.directory / "index", merged=TOKENS)
        self.q = write_npy(self.directory / "q.npy", "<f4", (1, 1, D), [1.0] * D)
        self.closed = self.directory / "closed"
        self.closed.mkdir(mode=0o700)

    def refuse(self, *arguments, parts, code=1):
        line = ["score", "--device", "cpu", *OP, "--q", self.q, *arguments]
        self.assert_sentence(self.run_as(USER, *line, code=code), *parts)

    def test_a_chunk_that_may_not_be_followed_is_not_taken_from_the_merged_files(self):
        for kind in ("codes", "residuals"):
            own = self.index / f"1.{kind}.npy"
            own.rename(self.closed / own.name)
            own.symlink_to(self.closed / own.name)
        self.refuse("--index", self.index, parts=[self.index / "1.codes.npy", "Permission denied"])

    def test_a_directory_that_may_not_be_reached(self):
        index = self.index.rename(self.closed / "index")
        self.refuse("--index", index, parts=["--index", index, "cannot be reached", "Permission denied"])


def write_in_fortran_order(path, descr, shape, values):
    if len(shape) == 2:
        values = [values[i * shape[1] + j] for j in range(shape[1]) for i in range(shape[0])]
    data = struct.pack(f"<{len(values)}{CODES[descr]}", *values)
    path.write_bytes(npy_bytes(npy_header(descr, shape, True), data))


if __name__ == "__main__":
    main(__doc__)
