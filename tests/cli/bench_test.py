"""bench from start to end, on a driver that launches nothing and kernels that do nothing: each launch takes as long.

usage: bench_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]; FAKE_LIBCUDA names the stand-in
"""
import json
import os
import xml.etree.ElementTree

from command import NO_DRIVER, CommandTest, main
from small_kernels import small_kernels

BENCH = ("bench", "--ops", "dense_forward,residual_forward", "--quick")
REPORT = {"schema", "environment", "least_rounds", "seconds", "read_terabytes_per_second", "matrix_tflops", "rows", "failed",
          "left_out", "counters"}
CASE = {"op", "shape", "sizes", "dtype", "features"}
ROW = CASE | {"time_ms", "dispersion", "rounds", "empty_ms", "read_ms", "loads_ms", "bulk_ms", "read_bytes", "multiply_adds", "matrix_ms", "floor_ms",
              "efficiency", "least_efficiency", "config", "source", "best_config", "best_ms", "peers"}
PEERS = {"ceilings": {"bf16": 790.5}, "cases": {
    "dense_forward rerank-1k bf16": {"features": "", "torch": {"ms": 0.05}, "lik": {"ways": {}}},
    "residual_forward plaid2-1k f16": {"features": "no such", "torch": {"ms": 0.05}}}}

# Options, and what the sentence says. All exit 2.
LINES = [
    (["--ops", "sparse"], "--ops names 'sparse'", "dense_forward, fp8_forward"),
    (["--shapes", "rerank"], "--shapes names 'rerank'", "rerank-1k, rerank-10k"),
    (["--shapes", "plaid2", "--ops", "fp8_forward"], "--shapes is 'plaid2'", "'fp8_forward'", "rerank-1k"),
    (["--features", "bias"], "'bias'", "q_mask"),
    (["--rounds", "0"], "--rounds", "0", "1"),
    (["--seconds", "-1"], "--seconds: it is '-1'; a number from 0 is accepted"),
    (["--seconds", "inf"], "--seconds: it is 'inf'; a number from 0 is accepted"),
    (["--seconds", "nan"], "--seconds: it is 'nan'; a number from 0 is accepted"),
    (["--seconds", "soon"], "--seconds: it is 'soon'; a number from 0 is accepted"),
    (["--device", "cpu"], "--device is 'cpu'", "cuda and cuda:N"),
    (["--device", "gpu"], "--device is 'gpu'", "cuda"),
    (["--quick", "--shapes", "colpali"], "--quick", "--shapes"),
    (["--svg", ""], "--svg", "''"),
    (["--peers", "p.json", "--svg", "./p.json"], "--svg is './p.json'", "--peers", "another file"),
]
# What a file of peers is, and what the sentence says. All exit 1.
PEERS_TEXTS = [
    ("[]", "the peers' file is a JSON array", "an object"),
    ("{", "is not JSON"),
    ('{"ceilings": 5}', "'ceilings' is 5", "an object"),
    ('{"ceilings": {"bf16": 0}}', "the ceiling of bf16 is 0", "TFLOP/s above 0"),
    ('{"ceilings": {"bf16": "fast"}}', 'the ceiling of bf16 is "fast"', "TFLOP/s above 0"),
    ('{"cases": []}', "'cases' is []", "an object"),
]


class RefusedTest(CommandTest):
    def refuse(self, options, *parts, code):
        with self.subTest(options):
            result = self.run_command("bench", *options, code=code, cwd=self.directory, environment=NO_DRIVER)
            self.assert_sentence(result, *parts)

    def test_lines(self):
        (self.directory / "p.json").write_text("{}")
        for options, *parts in LINES:
            self.refuse(options, *parts, code=2)

    def test_peers(self):
        self.refuse(["--peers", "nowhere.json"], "nowhere.json: the peers' file cannot be opened", code=1)
        for text, *parts in PEERS_TEXTS:
            (self.directory / "p.json").write_text(text)
            self.refuse(["--peers", "p.json"], "p.json: ", *parts, code=1)

    def test_places_where_no_plot_can_be(self):
        self.refuse(["--svg", "nowhere/o.svg"], "nowhere/o.svg: there is no directory nowhere", code=1)
        self.refuse(["--svg", "."], ".: the output exists and is no regular file", code=1)

    def test_without_a_gpu(self):
        self.refuse(["--svg", "o.svg", "--json"], "libcuda", "/nowhere/libcuda.so.1", "install the driver", code=1)
        self.assertEqual(os.listdir(self.directory), [])


def launches_of(row):
    """The stand-in clock counts launches: the table path has two."""
    return 2 if row["config"].startswith("table") else 1


class BenchTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.here = small_kernels(self)

    def bench(self, *options):
        return self.run_command(*BENCH, *options, environment=self.here, cwd=self.directory)

    def test_json_has_every_case(self):
        (self.directory / "p.json").write_text(json.dumps(PEERS))
        result = self.bench("--json", "--peers", "p.json", "--rounds", "30")
        document = json.loads(result.stdout)
        self.assertEqual(set(document), REPORT)
        self.assertEqual((document["schema"], document["failed"], document["left_out"]), ("maxsim-jit/bench/1", [], []))
        self.assertEqual(document["matrix_tflops"], {"bf16": 790.5})
        self.assertIsNone(document["read_terabytes_per_second"])  # a read takes as long as nothing
        rows = {(row["shape"], row["dtype"], len(row["features"])): row for row in document["rows"]}
        self.assertEqual(list(rows), [("rerank-1k", "bf16", 0), ("train-128", "bf16", 0), ("train-128", "f32", 0),
                                      ("plaid2-1k", "f16", 1), ("rerank-1k", "bf16", 4), ("train-128", "bf16", 4)])
        for row in rows.values():
            self.assertEqual(set(row), ROW)
            self.assertEqual(row["rounds"], 30)
            self.assertEqual((row["loads_ms"], row["bulk_ms"]), (0, 0))
            self.assertEqual((row["time_ms"], row["empty_ms"], row["read_ms"]), (launches_of(row), 1, 0))
            self.assertEqual((row["source"], row["efficiency"]), ("shipped", None))  # the stand-in GPU is an H200
            self.assertEqual(row["floor_ms"] is None, row["dtype"] != "bf16")
        first = rows["rerank-1k", "bf16", 0]
        self.assertEqual(first["read_bytes"], 2 * (32 + 1000 * 300) * 128)
        self.assertEqual(first["multiply_adds"], 32 * 1000 * 300 * 128)
        self.assertAlmostEqual(first["matrix_ms"], 2 * first["multiply_adds"] / 790.5e9)
        self.assertEqual([row["peers"] for row in rows.values()], [{"torch": 0.05}, {}, {}, {}, {}, {}])
        self.assertIn("a floor is not known: --peers", result.stderr)

    def test_text_and_plot(self):
        result = self.bench("--svg", "o.svg", "--features", "none")
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "NVIDIA-H200_sm_90a_132sm_227KiB: empty launch 1.0000 ms")
        self.assertEqual(lines[2].split()[:9], ["op", "shape", "dtype", "read", "matrix", "floor", "time", "of", "floor"])
        self.assertEqual([line.split()[:8] for line in lines[3:4]],
                         [["dense_forward", "rerank-1k", "bf16", "0.0000", "-", "-", "1.0000", "-"]])
        self.assertEqual(len(lines), 3 + 4)
        self.assertIn("maxsim-jit: wrote the plot to o.svg", result.stderr)
        root = xml.etree.ElementTree.parse(self.directory / "o.svg").getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for expected in ("rerank-1k bf16", "plaid2-1k f16", "Roofline", "TFLOP/s"):
            self.assertIn(expected, words)
        self.assertEqual(os.listdir(self.directory), ["o.svg"])

    def test_without_ceilings_times_stay(self):
        (self.directory.parent / "kernels/ceilings.cu").unlink()
        result = self.bench("--json")
        document = json.loads(result.stdout)
        self.assertEqual((len(document["rows"]), document["failed"]), (6, []))
        for row in document["rows"]:
            self.assertEqual((row["time_ms"], row["rounds"], row["read_ms"], row["efficiency"]),
                             (launches_of(row), 20, None, None))
        self.assertIn("the ceilings of dense_forward are not timed: kernel source", result.stderr)

    def test_no_time_is_said(self):
        result = self.bench("--seconds", "0", "--json")
        document = json.loads(result.stdout)
        self.assertEqual((document["rows"], document["environment"]), ([], None))
        self.assertEqual(len(document["left_out"]), 6)
        self.assertEqual(set(document["left_out"][0]), CASE)
        self.assertIn("6 cases are left out: --seconds 0 had passed", result.stderr)


if __name__ == "__main__":
    main(__doc__)
