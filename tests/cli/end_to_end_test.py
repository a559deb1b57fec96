"""The built command, driven as people and scripts drive it. Standard library only; needs neither a GPU nor NumPy.

usage: end_to_end_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import ast
import itertools
import json
import math
import os
import pathlib
import pty
import random
import struct
import subprocess

from command import CODES, NO_NVRTC, CommandTest, Here, main, write_npy


def read_npy(path):
    """The descr, shape and flat values of a C-ordered file."""
    raw = pathlib.Path(path).read_bytes()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    (length,) = struct.unpack("<H", raw[8:10])
    header = ast.literal_eval(raw[10 : 10 + length].decode())
    assert not header["fortran_order"]
    count = math.prod(header["shape"])
    return header["descr"], header["shape"], list(struct.unpack(f"<{count}{CODES[header['descr']]}", raw[10 + length :]))


class Problem:
    """A small problem of integers, and its scores by the definition."""

    def __init__(self, seed, nq=2, lq=3, nd=5, ld=4, d=16):
        rng = random.Random(seed)
        self.nq, self.lq, self.nd, self.ld, self.d = nq, lq, nd, ld, d
        self.q = [rng.randint(-2, 2) for _ in range(nq * lq * d)]
        self.docs = [rng.randint(-2, 2) for _ in range(nd * ld * d)]
        self.q_mask = [rng.random() < 0.7 for _ in range(nq * lq)]
        self.d_mask = [rng.random() < 0.7 for _ in range(nd * ld)]
        self.lengths = [rng.randint(1, ld) for _ in range(nd)]
        self.lengths[0] = 0
        self.lengths[-1] = ld + 7  # clamped

    def dot(self, i, s, j, t):
        a = (i * self.lq + s) * self.d
        b = (j * self.ld + t) * self.d
        return sum(x * y for x, y in zip(self.q[a : a + self.d], self.docs[b : b + self.d]))

    def solve(self, q_mask=False, d_mask=False, lengths=False, empty=0.0):
        scores, argmax = [], []
        for i, j in itertools.product(range(self.nq), range(self.nd)):
            end = min(self.lengths[j], self.ld) if lengths else self.ld
            active = [t for t in range(end) if not d_mask or self.d_mask[j * self.ld + t]]
            tokens = [s for s in range(self.lq) if not q_mask or self.q_mask[i * self.lq + s]]
            total = 0.0
            for s in range(self.lq):
                if s not in tokens or not active:
                    argmax.append(-1)
                    continue
                best = max(active, key=lambda t: (self.dot(i, s, j, t), -t))
                argmax.append(best)
                total += self.dot(i, s, j, best)
            scores.append(total if active or not tokens else empty)
        return scores, argmax

    def write(self, directory, descr="<f4"):
        files = {
            "--q": write_npy(directory / "q.npy", descr, (self.nq, self.lq, self.d), self.q),
            "--d": write_npy(directory / "d.npy", descr, (self.nd, self.ld, self.d), self.docs),
            "--q-mask": write_npy(directory / "q_mask.npy", "|b1", (self.nq, self.lq), self.q_mask),
            "--d-mask": write_npy(directory / "d_mask.npy", "|u1", (self.nd, self.ld), self.d_mask),
            "--d-lengths": write_npy(directory / "d_lengths.npy", "<i4", (self.nd,), self.lengths),
        }
        return files


class EndToEndTest(CommandTest):
    def run_json(self, *arguments, **options):
        result = self.run_command(*arguments, "--json", **options)
        return json.loads(result.stdout)  # fails unless stdout is one object and nothing else


class UsageTest(EndToEndTest):
    def test_help_of_each_command(self):
        whole = self.run_command("--help").stdout
        for command in ("warm", "inspect", "cache", "doctor", "score"):
            self.assertIn(command, whole)
            self.assertIn("--json", self.run_command(*((command, "path") if command == "cache" else (command,)), "--help").stdout)

    def test_score_has_an_option_for_each_operand_and_feature(self):
        text = self.run_command("score", "--help").stdout
        for option in ("--q ", "--d ", "--q-mask", "--d-mask", "--d-lengths", "--argmax", "--normalize", "--empty-doc"):
            self.assertIn(option, text)
        self.assertNotIn("--scores", text)  # --out is its name

    def test_version(self):
        self.assertRegex(self.run_command("--version").stdout, r"^maxsim-jit \d+\.\d+\.\d+\n$")



class ScoreTest(EndToEndTest):
    def score(self, files, *arguments, **options):
        return self.run_json("score", "--device", "cpu", *itertools.chain(*files.items()), *arguments, **options)

    def test_every_feature_set_by_the_definition(self):
        for seed, (q_mask, d_mask, lengths, argmax) in enumerate(itertools.product((False, True), repeat=4)):
            with self.subTest(q_mask=q_mask, d_mask=d_mask, lengths=lengths, argmax=argmax):
                problem = Problem(seed)
                files = problem.write(self.directory)
                for option, wanted in (("--q-mask", q_mask), ("--d-mask", d_mask), ("--d-lengths", lengths)):
                    if not wanted:
                        del files[option]
                out, where = self.directory / "s.npy", self.directory / "a.npy"
                extra = ["--argmax", where] if argmax else []
                document = self.score(files, "--out", out, *extra)
                scores, winners = problem.solve(q_mask, d_mask, lengths)
                self.assertEqual(read_npy(out), ("<f4", (2, 5), scores))
                if argmax:
                    self.assertEqual(read_npy(where), ("<i4", (2, 5, 3), winners))
                features = [n for n, on in (("q_mask", q_mask), ("d_mask", d_mask), ("save_argmax", argmax)) if on]
                self.assertEqual(document["features"], features)
                self.assertNotIn("scores", document)

    def test_json_has_sizes_dtypes_device_and_scores(self):
        problem = Problem(1)
        files = problem.write(self.directory)
        document = self.score({k: files[k] for k in ("--q", "--d")})
        self.assertEqual(document["schema"], "maxsim-jit/score/1")
        self.assertEqual(document["op"], "dense_forward")
        self.assertEqual(document["device"], "cpu")
        self.assertEqual(document["sizes"], {"Nq": 2, "Lq": 3, "Nd": 5, "Ld": 4, "d": 16})
        self.assertEqual(document["dtypes"], {"q": "f32", "d": "f32"})
        self.assertEqual(sum(document["scores"], []), problem.solve()[0])
        self.assertIn("nvrtc_invocations", document["counters"])

    def test_text_has_a_line_for_each_score(self):
        problem = Problem(2)
        files = problem.write(self.directory)
        lines = self.run_command("score", "--device", "cpu", "--q", files["--q"], "--d", files["--d"]).stdout.splitlines()
        self.assertEqual(lines[0].split(), ["query", "document", "score"])
        values = [line.split() for line in lines[1:]]
        self.assertEqual([(int(q), int(d)) for q, d, _ in values], list(itertools.product(range(2), range(5))))
        self.assertEqual([float(s) for _, _, s in values], problem.solve()[0])

    def test_top_k_is_sorted_with_ties_by_index(self):
        problem = Problem(3)
        problem.docs = problem.docs[: problem.ld * problem.d] * problem.nd  # five equal documents
        files = problem.write(self.directory)
        top = self.score({k: files[k] for k in ("--q", "--d")}, "--top-k", 3)["top"]
        self.assertEqual([[row["document"] for row in query] for query in top], [[0, 1, 2], [0, 1, 2]])
        problem = Problem(4)
        files = problem.write(self.directory)
        scores = problem.solve()[0]
        top = self.score({k: files[k] for k in ("--q", "--d")}, "--top-k", 99)["top"]
        for i, query in enumerate(top):
            row = scores[i * 5 : i * 5 + 5]
            self.assertEqual([r["document"] for r in query], sorted(range(5), key=lambda j: (-row[j], j)))
            self.assertEqual([r["score"] for r in query], sorted(row, reverse=True))

    def test_empty_documents_score_what_was_asked(self):
        problem = Problem(5)
        files = problem.write(self.directory)
        del files["--d-mask"], files["--q-mask"]
        self.assertEqual(self.score(files, "--empty-doc", "zero")["scores"][0][0], 0)
        self.assertEqual(self.score(files)["scores"][0][0], 0)
        document = self.score(files, "--empty-doc", "neginf")
        self.assertEqual(document["scores"][0][0], "-inf")
        self.assertEqual(document["scores"][0][1], problem.solve(lengths=True)[0][1])

    def test_nan_is_a_string_in_json_and_ranks_last(self):
        problem = Problem(6)
        problem.docs[0] = math.nan  # document 0, token 0
        files = problem.write(self.directory)
        files = {k: files[k] for k in ("--q", "--d")}
        self.assertEqual(self.score(files)["scores"][0][0], "nan")
        self.assertEqual(self.score(files, "--top-k", 5)["top"][0][-1], {"document": 0, "score": "nan"})

    def test_normalize(self):
        problem = Problem(7)
        files = problem.write(self.directory)
        document = self.score({k: files[k] for k in ("--q", "--d")}, "--normalize")
        self.assertEqual(document["features"], ["normalize"])

        def norm(values, row):
            return max(math.sqrt(sum(x * x for x in values[row * 16 : row * 16 + 16])), 1e-12)

        for i, j in itertools.product(range(2), range(5)):
            expected = sum(
                max(
                    problem.dot(i, s, j, t) / norm(problem.q, i * 3 + s) / norm(problem.docs, j * 4 + t) for t in range(4)
                )
                for s in range(3)
            )
            self.assertAlmostEqual(document["scores"][i][j], expected, places=5)

    def test_dtypes_convert_or_are_the_files(self):
        problem = Problem(8)
        expected = problem.solve()[0]
        for descr, file_dtype in (("<f4", "f32"), ("<f2", "f16")):
            files = problem.write(self.directory, descr)
            files = {k: files[k] for k in ("--q", "--d")}
            for option, dtype in ((None, file_dtype), ("bf16", "bf16"), ("fp16", "f16"), ("f32", "f32")):
                document = self.score(files, *(["--dtype", option] if option else []))
                self.assertEqual(document["dtypes"], {"q": dtype, "d": dtype})
                self.assertEqual(sum(document["scores"], []), expected)

    def test_float64_is_converted_with_a_note(self):
        problem = Problem(9)
        files = problem.write(self.directory, "<f8")
        result = self.run_command("score", "--device", "cpu", "--json", "--q", files["--q"], "--d", files["--d"])
        self.assertEqual(sum(json.loads(result.stdout)["scores"], []), problem.solve()[0])
        self.assertEqual(result.stderr.count("holds float64: converted to f32"), 2)

    def test_fortran_order_gives_the_same_scores(self):
        problem = Problem(10)
        files = problem.write(self.directory)
        nd, ld, d = problem.nd, problem.ld, problem.d
        columns = [problem.docs[(j * ld + t) * d + k] for k in range(d) for t in range(ld) for j in range(nd)]
        write_npy(self.directory / "f.npy", "<f4", (nd, ld, d), columns, fortran=True)
        document = self.score({"--q": files["--q"], "--d": self.directory / "f.npy"})
        self.assertEqual(sum(document["scores"], []), problem.solve()[0])

    def test_one_query_and_one_document_without_leading_dimensions(self):
        problem = Problem(11, nq=1, nd=1)
        write_npy(self.directory / "q.npy", "<f4", (3, 16), problem.q)
        write_npy(self.directory / "d.npy", "<f4", (4, 16), problem.docs)
        write_npy(self.directory / "m.npy", "|b1", (4,), [True, False, True, True])
        problem.d_mask = [True, False, True, True]
        document = self.score({"--q": self.directory / "q.npy", "--d": self.directory / "d.npy", "--d-mask": self.directory / "m.npy"})
        self.assertEqual(document["scores"], [problem.solve(d_mask=True)[0]])

    def test_lengths_of_int64(self):
        problem = Problem(12)
        files = problem.write(self.directory)
        write_npy(files["--d-lengths"], "<i8", (5,), problem.lengths)
        del files["--q-mask"], files["--d-mask"]
        self.assertEqual(sum(self.score(files)["scores"], []), problem.solve(lengths=True)[0])

    def test_empty_inputs_give_empty_results(self):
        write_npy(self.directory / "q.npy", "<f4", (2, 3, 16), [0.0] * 96)
        write_npy(self.directory / "d.npy", "<f4", (0, 4, 16), [])
        out = self.directory / "o.npy"
        files = {"--q": self.directory / "q.npy", "--d": self.directory / "d.npy"}
        self.score(files, "--out", out)
        self.assertEqual(read_npy(out), ("<f4", (2, 0), []))
        self.assertEqual(self.score(files, "--top-k", 3)["sizes"]["Nd"], 0)

    def test_real_text_finds_its_passages(self):
        data = Here.source / "tests" / "data"
        questions = json.loads((data / "questions.json").read_text())
        files = {f"--{name.replace('_', '-')}": data / f"{name}.npy" for name in ("q_mask", "d_mask", "d_lengths")}
        files |= {"--q": data / "q_emb.npy", "--d": data / "d_emb.npy"}
        top = self.score(files, "--top-k", 1)["top"]
        self.assertEqual([row[0]["document"] for row in top], [question["expected_passage"] for question in questions])

    def test_without_a_device_the_cpu_scores_and_says_so(self):
        problem = Problem(13)
        files = problem.write(self.directory)
        result = self.run_command("score", "--q", files["--q"], "--d", files["--d"], "--json",
                                  environment={"MAXSIM_JIT_LIBCUDA": "/nowhere/libcuda.so.1"})
        self.assertEqual(json.loads(result.stdout)["device"], "cpu")
        self.assertIn("scoring on the CPU", result.stderr)

    def test_an_output_is_replaced_whole(self):
        problem = Problem(17)
        files = problem.write(self.directory)
        out = self.directory / "o.npy"
        out.write_bytes(b"x" * 100000)
        self.score({k: files[k] for k in ("--q", "--d")}, "--out", out)
        self.assertEqual(read_npy(out)[2], problem.solve()[0])


class CacheTest(EndToEndTest):
    SIZES = "Nq=1,Nd=1000,Lq=32,Ld=300,d=64"

    def warm(self, *arguments, features="none", **options):
        return self.run_json("warm", "--op", "dense_forward", "--sizes", self.SIZES, "--dtype", "bf16", "--features", features,
                             "--arch", "sm_90a", *arguments, **options)

    def need_nvrtc(self):
        checks = {check["name"]: check for check in self.run_json("doctor")["checks"]}
        if checks["nvrtc"]["status"] != "ok":
            self.skipTest("no NVRTC here: " + checks["nvrtc"]["found"])

    def test_warm_compiles_once_and_reads_ever_after(self):
        self.need_nvrtc()
        first = self.warm(features="q_mask,normalize")
        self.assertEqual(first["schema"], "maxsim-jit/warm/1")
        self.assertEqual((first["prepared"], first["failed"], first["entries"]), (1, [], 0))
        self.assertGreaterEqual(first["counters"]["nvrtc_invocations"], 1)
        self.assertEqual(first["counters"]["sweeps"], 0)
        self.assertGreater(first["seconds"], 0)
        again = self.warm(features="q_mask,normalize")
        self.assertEqual(again["counters"]["nvrtc_invocations"], 0)
        self.assertEqual(again["counters"]["cubin_hits_disk"], first["counters"]["nvrtc_invocations"])

    def test_the_power_set_costs_a_compile_each_whatever_the_threads(self):
        self.need_nvrtc()
        one = self.warm()["counters"]["nvrtc_invocations"]  # configs of this bucket
        every = self.warm("--jobs", 4, features="all")
        self.assertEqual(every["prepared"], 16)
        self.assertEqual(every["counters"]["nvrtc_invocations"], one * 15)
        self.assertEqual(self.warm("--jobs", 4, features="all")["counters"]["nvrtc_invocations"], 0)
        cubins = self.run_json("inspect", "--cubins")["cubins"]
        self.assertEqual(len({tuple(c["features"]) for c in cubins}), 16)
        places = [(c["op"], c["architecture"], json.dumps(c["features"])) for c in cubins]
        self.assertEqual(places, sorted(places))  # not as their hashes fall
        table = self.run_command("inspect", "--cubins", "--table").stdout.splitlines()
        self.assertEqual(len(table), 1 + len(cubins))
        self.assertIn("features", table[0].split())
        self.assertEqual(self.run_json("inspect", "--cubins", "--arch", "sm_80")["cubins"], [])

    def test_manifest_and_failures(self):
        self.need_nvrtc()
        manifest = self.directory / "m.json"
        item = {"op": "dense_forward", "sizes": dict(part.split("=") for part in self.SIZES.split(",")), "dtype": "fp16"}
        item["sizes"] = {name: int(value) for name, value in item["sizes"].items()}
        manifest.write_text(json.dumps([dict(item, features="none"), dict(item, features=[["normalize"], ["d_mask"]])]))
        document = self.run_json("warm", "--manifest", manifest, "--arch", "sm_90a")
        self.assertEqual(document["prepared"], 3)
        text = self.run_command("warm", "--manifest", manifest, "--arch", "sm_90a").stdout
        self.assertIn("prepared 3 of 3 feature sets", text)
        document = self.run_json("warm", "--manifest", manifest, "--arch", "sm_80", code=1, environment=NO_NVRTC)
        self.assertEqual(len(document["failed"]), 3)
        self.assertIn("/nowhere/libnvrtc.so", document["failed"][0]["error"])
        self.assertEqual(document["failed"][0]["status"], "MSJ_ERROR_NO_NVRTC")

    def test_without_a_gpu_warm_needs_arch(self):
        result = self.run_command("warm", "--op", "dense_forward", "--sizes", self.SIZES, "--dtype", "bf16", code=1,
                                  environment={"MAXSIM_JIT_LIBCUDA": "/nowhere/libcuda.so.1"})
        self.assertIn("16 of 16 specializations failed", result.stderr)
        self.assertIn("/nowhere/libcuda.so.1", result.stderr)
        self.assertEqual(result.stderr.count("specializations failed"), 1)  # one sentence for all

    def read_all(self, leader):
        drawn = b""
        try:
            while chunk := os.read(leader, 65536):
                drawn += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(leader)
        return drawn

    def test_progress_is_lines_in_a_pipe_and_a_bar_on_a_terminal(self):
        self.need_nvrtc()
        arguments = ["warm", "--op", "dense_forward", "--sizes", self.SIZES, "--dtype", "bf16", "--features", "none", "--arch",
                     "sm_90a"]
        piped = self.run_command(*arguments)
        self.assertIn("maxsim-jit: warm 1 of 1\n", piped.stderr)
        self.assertNotIn("\x1b", piped.stderr)
        leader, follower = pty.openpty()
        result = subprocess.run([Here.command, *arguments], stdout=subprocess.PIPE, stderr=follower,
                                env=dict(os.environ, MAXSIM_JIT_CACHE_DIR=str(self.cache)), timeout=600)
        os.close(follower)
        drawn = self.read_all(leader).decode()
        self.assertEqual(result.returncode, 0)
        self.assertIn("[##############################] 1/1 100 %", drawn)
        self.assertTrue(drawn.endswith("\r\x1b[K"), drawn)
        self.assertNotIn(b"#", result.stdout)

    def test_inspect_is_stable_json_by_default(self):
        first = self.run_command("inspect").stdout
        document = json.loads(first)
        self.assertEqual(document["schema"], "maxsim-jit/inspect/1")
        self.assertIn("shipped", {entry["source"] for entry in document["entries"]})
        self.assertEqual(self.run_command("inspect", "--json").stdout, first)
        of_op = json.loads(self.run_command("inspect", "--op", "dense_forward").stdout)["entries"]
        self.assertEqual(of_op, [entry for entry in document["entries"] if entry["op"] == "dense_forward"])
        nothing = self.run_command("inspect", "--op", "dense_forward", "--arch", "sm_80", "--table").stderr
        self.assertIn("no autotune entry is cached or shipped of dense_forward for sm_80", nothing)
        self.run_command("inspect", "--table")

    def test_cache_path_verify_and_clear(self):
        self.need_nvrtc()
        self.assertEqual(self.run_command("cache", "path").stdout, f"{self.cache}\n")
        layers = self.run_json("cache", "path")["layers"]
        self.assertEqual([(layer["path"], layer["writable"]) for layer in layers], [(str(self.cache), True)])
        self.warm()
        self.assertEqual(self.run_json("cache", "verify")["problems"], [])
        cubin = next(self.cache.rglob("*.cubin"))
        damaged = bytearray(cubin.read_bytes())
        damaged[-1] ^= 1
        cubin.write_bytes(damaged)
        document = self.run_json("cache", "verify", code=1)
        self.assertEqual([problem["path"] for problem in document["problems"]], [str(cubin)])
        self.assertIn(f"{cubin}: ", self.run_command("cache", "verify", code=1).stdout)
        checks = {check["name"]: check["status"] for check in self.run_json("doctor")["checks"]}
        self.assertIn("warning", checks.values())
        self.assertIn("removed", self.run_command("cache", "clear").stdout)
        self.assertEqual(list(self.cache.rglob("*.cubin")), [])
        self.assertEqual(self.run_json("cache", "verify")["problems"], [])

    def test_a_cache_that_cannot_be_cleared_exits_1(self):
        self.need_nvrtc()
        self.warm()
        self.cache.chmod(0o777)  # not to be trusted: nothing in it is touched
        result = self.run_command("cache", "clear", code=1)
        self.assertIn("not removed", result.stdout)
        self.assertTrue(list(self.cache.rglob("*.cubin")))
        self.cache.chmod(0o700)
        self.run_command("cache", "clear")
        self.assertEqual(list(self.cache.rglob("*.cubin")), [])

    def test_no_cache_directory_is_said(self):
        for action in (["path"], ["verify"], ["prune"], ["clear"], ["export", "a.tar"], ["import", "a.tar"]):
            result = self.run_command("cache", *action, cwd=self.directory, code=1, environment={"MAXSIM_JIT_CACHE_DIR": "", "HOME": "", "XDG_CACHE_HOME": ""})
            self.assertIn("MAXSIM_JIT_CACHE_DIR", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_doctor(self):
        document = self.run_json("doctor")
        self.assertEqual(document["schema"], "maxsim-jit/doctor/1")
        for check in document["checks"]:
            self.assertIn(check["status"], ("ok", "warning", "error"))
            self.assertTrue(check["name"] and check["found"])
        text = self.run_command("doctor").stdout
        for check in document["checks"]:
            self.assertIn(check["name"], text)



if __name__ == "__main__":
    main(__doc__)
