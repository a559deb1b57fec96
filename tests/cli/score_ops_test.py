"""`score` of fp8_forward and fused_head_forward against scores computed here by the definition, and `warm` of them.

usage: score_ops_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import math
import random

from command import CommandTest, main, write_npy
from score_test import flat, maxsim, nested, read_npy

NQ, LQ, ND, LD, D, D_MODEL = 2, 3, 5, 4, 8, 6
E4M3 = {0: 0x00, 0.5: 0x30, 1: 0x38, 2: 0x40, -0.5: 0xB0, -1: 0xB8, -2: 0xC0}
E5M2 = {0: 0x00, 0.5: 0x38, 1: 0x3C, 2: 0x40, -0.5: 0xB8, -1: 0xBC, -2: 0xC0}


class ScoreOpsTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(self.id())
        self.q = [self.rng.choice(list(E4M3)) for _ in range(NQ * LQ * D)]
        self.docs = [self.rng.choice(list(E4M3)) for _ in range(ND * LD * D)]

    def npy(self, name, descr, shape, values):
        return write_npy(self.directory / f"{name}.npy", descr, shape, values)

    def score(self, *arguments, code=0):
        result = self.run_command("score", "--device", "cpu", "--json", *arguments, code=code)
        return json.loads(result.stdout) if code == 0 else result

    def assert_close(self, scores, expected, relative=1e-6):
        for a, b in zip(flat(scores), flat(expected), strict=True):
            self.assertLessEqual(abs(a - b), relative * max(1.0, abs(b)), (scores, expected))

    # ---- fp8_forward

    def fp8_files(self, codes):
        return ["--op", "fp8_forward", "--q", self.npy("q", "|u1", (NQ, LQ, D), [codes[x] for x in self.q]),
                "--d", self.npy("d", "|u1", (ND, LD, D), [codes[x] for x in self.docs])]

    def test_bytes_of_both_kinds_with_scales_of_both_ranks_or_none(self):
        q, docs = nested((NQ, LQ, D), self.q), nested((ND, LD, D), self.docs)
        scale_q = [[self.rng.choice((0.5, 1, 2)) for _ in range(LQ)] for _ in range(NQ)]
        scale_d = [[self.rng.choice((0.5, 1, 2)) for _ in range(LD)] for _ in range(ND)]
        times = lambda vectors, scales: [[[x * s for x in v] for v, s in zip(row, of)] for row, of in zip(vectors, scales)]
        for dtype, codes in (("fp8_e4m3", E4M3), ("fp8_e5m2", E5M2)):
            files = [*self.fp8_files(codes), "--dtype", dtype]
            with self.subTest(dtype=dtype):
                self.assertEqual(self.score(*files)["scores"], maxsim(q, docs)[0])
                token = ["--scale-q", self.npy("sq", "<f4", (NQ, LQ), flat(scale_q)),
                         "--scale-d", self.npy("sd", "<f4", (ND, LD), flat(scale_d))]
                argmax = self.directory / "argmax.npy"
                result = self.score(*files, *token, "--argmax", argmax)
                scores, winners = maxsim(times(q, scale_q), times(docs, scale_d))
                self.assertEqual(result["scores"], scores)
                self.assertEqual(result["features"], ["scale_q_per_token", "scale_d_per_token", "save_argmax"])
                self.assertEqual(read_npy(argmax), ("<i4", (NQ, ND, LQ), flat(winners)))
                single = ["--scale-q", self.npy("s", "<f4", (1,), [0.25])]
                result = self.score(*files, *single)
                self.assertEqual(result["scores"], [[x / 4 for x in row] for row in maxsim(q, docs)[0]])
                self.assertEqual(result["features"], [])

    def test_wider_floats_are_quantized(self):
        scores, _ = maxsim(nested((NQ, LQ, D), self.q), nested((ND, LD, D), self.docs))
        for descr in ("<f2", "<f4"):
            files = ["--op", "fp8_forward", "--q", self.npy("q", descr, (NQ, LQ, D), self.q),
                     "--d", self.npy("d", descr, (ND, LD, D), self.docs)]
            for dtype in ("fp8_e4m3", "fp8_e5m2"):
                with self.subTest(descr=descr, dtype=dtype):
                    result = self.score(*files, "--dtype", dtype)
                    self.assert_close(result["scores"], scores)  # zeros, maxima and their halves are exact
                    self.assertEqual(result["dtypes"]["q"], dtype)
            one = self.score("--op", "fp8_forward", "--q", self.npy("q1", descr, (LQ, D), self.q[: LQ * D]), *files[4:])
            self.assert_close(one["scores"], scores[:1])

    def test_what_quantizing_refuses(self):
        files = ["--op", "fp8_forward", "--q", self.npy("q", "<f4", (NQ, LQ, D), self.q),
                 "--d", self.npy("d", "<f4", (ND, LD, D), self.docs)]
        result = self.score(*files, "--scale-q", self.npy("s", "<f4", (1,), [1.0]), code=2)
        self.assert_sentence(result, "--scale-q is given", "wider floats", "fp8")
        huge = self.npy("huge", "<f4", (1000000, 1000000, 0), [])
        result = self.score("--op", "fp8_forward", "--q", huge, *files[4:], code=1)
        self.assert_sentence(result, "huge.npy", "makes d 0", "1 to 4096")
        self.assert_sentence(self.score("--op", "fp8_quantize", "--q", huge, "--d", huge, code=2), "fp8_quantize")

    # ---- fused_head_forward

    def test_fused_head(self):
        numbers = lambda count: [self.rng.randint(-2, 2) for _ in range(count)]
        q, h, w, bias = numbers(NQ * LQ * D), numbers(ND * LD * D_MODEL), numbers(D * D_MODEL), numbers(D)
        keep = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 1]]
        rows = lambda with_bias: [[[math.fsum(a * b for a, b in zip(token, line)) + (bias[o] if with_bias else 0)
                                    for o, line in enumerate(nested((D, D_MODEL), w))] for token in document]
                                  for document in nested((ND, LD, D_MODEL), h)]
        for descr in ("<f2", "<f4"):
            files = ["--op", "fused_head_forward", "--q", self.npy("q", descr, (NQ, LQ, D), q),
                     "--h", self.npy("h", descr, (ND, LD, D_MODEL), h), "--w", self.npy("w", descr, (D, D_MODEL), w)]
            with self.subTest(descr=descr):
                self.assertEqual(self.score(*files)["scores"], maxsim(nested((NQ, LQ, D), q), rows(False))[0])
                for of_bias in {descr, "<f4"}:
                    result = self.score(*files, "--bias", self.npy("b", of_bias, (D,), bias),
                                        "--d-mask", self.npy("m", "|u1", (ND, LD), flat(keep)))
                    self.assertEqual(result["scores"], maxsim(nested((NQ, LQ, D), q), rows(True), d_mask=keep)[0])
                    self.assertEqual(result["features"], ["bias", "d_mask"])
                unit = [[[x / max(math.hypot(*row), 1e-12) for x in row] for row in document] for document in rows(False)]
                result = self.score(*files, "--normalize")
                self.assert_close(result["scores"], maxsim(nested((NQ, LQ, D), q), unit)[0], 5e-3)
                self.assertEqual(result["features"], ["normalize"])

    # ---- warm

    def test_a_manifest_of_every_op_compiles_each_set_once(self):
        items = [{"op": "fp8_quantize", "sizes": {"N": 5, "L": 9, "d": 16}, "dtype": "x=bf16,quantized=fp8_e4m3"},
                 {"op": "fp8_forward", "sizes": {"Nq": 1, "Nd": 5, "Lq": 8, "Ld": 9, "d": 16}, "dtype": "fp8_e4m3",
                  "features": []},
                 {"op": "fp8_forward", "sizes": {"Nq": 1, "Nd": 5, "Lq": 8, "Ld": 9, "d": 16}, "dtype": "fp8_e4m3",
                  "features": ["save_argmax"]}]
        manifest = self.directory / "manifest.json"
        manifest.write_text(json.dumps(items))
        report = json.loads(self.run_command("warm", "--manifest", manifest, "--arch", "sm_90a", "--json").stdout)
        self.assertEqual(report["counters"]["nvrtc_invocations"], 4)
        again = json.loads(self.run_command("warm", "--manifest", manifest, "--arch", "sm_90a", "--json").stdout)
        self.assertEqual(again["counters"]["nvrtc_invocations"], 0)


if __name__ == "__main__":
    main(__doc__)
