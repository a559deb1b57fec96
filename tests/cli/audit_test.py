"""audit from start to end, on a driver that launches nothing and kernels that do nothing: each launch takes as long.

usage: audit_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]; FAKE_LIBCUDA names the stand-in
"""
import json

from command import CommandTest, main
from small_kernels import small_kernels

AUDIT = ("audit", "--op", "residual_forward", "--sizes", "Nq=1,Nd=100,Lq=32,N=10000,d=100,nbits=2", "--dtype", "fp16", "--pairs")
ROW = {"regret", "shared_ms", "best_ms", "dispersion", "shared", "source", "best"}


class AuditTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.here = small_kernels(self)

    def audit(self, tune, *options):
        return self.run_command(*AUDIT, *options, environment={**self.here, "MAXSIM_JIT_TUNE": tune})

    def test_every_row_has_the_one_winner_of_the_sweep(self):
        result = self.audit("on", "--json")
        self.assertNotIn("untuned", result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(set(document), {"schema", "op", "features", "sizes", "median_regret", "worst_regret",
                                         "worst_regret_of_sizes", "features_of_sizes"})
        self.assertEqual((document["schema"], document["op"]), ("maxsim-jit/audit/1", "residual_forward"))
        self.assertEqual(document["features_of_sizes"], "normalize")  # as the op's sweeps
        features = [row["features"] for row in document["features"]]
        one = ["q_mask", "lsb_first", "normalize", "save_argmax"]
        self.assertCountEqual([frozenset(text.split(",")) for text in features],
                              [frozenset(["none"]), frozenset(one), *(frozenset([name]) for name in one),
                               *(frozenset(one) - {name} for name in one)])
        self.assertEqual([row["sizes"].split()[0] for row in document["sizes"]], ["least", "middle", "largest"])
        for row in document["sizes"]:
            # As asked for, not the bucket's 112, which would be of another layout class.
            self.assertIn(" d=100", row["sizes"])
            self.assertIn(" nbits=2", row["sizes"])
        rows = document["features"] + document["sizes"]
        self.assertEqual(len({row["shared"] for row in rows}), 1)
        self.assertEqual({row["source"] for row in rows}, {"tuned"})
        for row in rows:
            self.assertEqual(set(row) - {"features", "sizes"}, ROW)
            self.assertGreaterEqual(row["regret"], 0)
            self.assertAlmostEqual(row["regret"], row["shared_ms"] / row["best_ms"] - 1)

    def test_ceilings_are_no_part_of_it(self):
        (self.directory.parent / "kernels/ceilings.cu").unlink()
        self.assertNotIn("ceilings", self.audit("off", "--json").stderr)

    def test_an_untuned_default_is_not_passed_off_as_a_winner(self):
        result = self.audit("off")
        self.assertIn("maxsim-jit: 'shared' is the untuned default config", result.stderr)
        self.assertRegex(result.stdout, r"(?m)^shared: .* \(default\)$")
        self.assertIn("regret over 10 feature sets: ", result.stdout)
        document = json.loads(self.audit("off", "--json").stdout)
        self.assertEqual({row["source"] for row in document["features"] + document["sizes"]}, {"default"})


if __name__ == "__main__":
    main(__doc__)
