"""A cache that root baked into an image, used by other users as a layer that they can't write.

usage: warm_image_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import os
import pathlib
import shutil
import sys

from command import NO_NVRTC, Here, main
from other_user import SECOND_USER, STRANGER, USER, UserTest, snapshot, why_not

SIZES = {"Nq": 1, "Nd": 1000, "Lq": 32, "Ld": 300}
# Two shapes and dtypes; without features, and with some of them.
MANIFEST = [
    {"op": "dense_forward", "sizes": {**SIZES, "d": 32}, "dtype": "fp16", "features": [[], ["q_mask", "normalize"]]},
    {"op": "dense_forward", "sizes": {**SIZES, "d": 64}, "dtype": "bf16", "features": [[], ["d_mask"]]},
]
NOT_BAKED = [{"op": "dense_forward", "sizes": {**SIZES, "d": 16}, "dtype": "fp16", "features": [[]]}]
BAKED = None  # root's, made once: compiling takes its time


def files_of(layer):
    return sorted(layer.rglob("*.cubin"))


class WarmImageTest(UserTest):
    def setUp(self):
        super().setUp()
        self.need_nvrtc()
        self.image = self.directory / "image"
        self.manifest = self.write_manifest("manifest.json", MANIFEST)
        global BAKED
        if BAKED is None:
            made = self.warm_as(0, self.image)
            self.assertEqual((made["counters"]["nvrtc_invocations"], made["failed"]), (4, []))
            BAKED = {path.relative_to(self.image): path.read_bytes() for path in self.image.rglob("*") if path.is_file()}
        self.bake()

    def bake(self):
        """As COPY leaves it in an image: root's, readable by all."""
        shutil.rmtree(self.image, ignore_errors=True)
        for relative, content in BAKED.items():
            (self.image / relative).parent.mkdir(parents=True, exist_ok=True)
            (self.image / relative).write_bytes(content)
        for path in (self.image, *self.image.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def write_manifest(self, name, items):
        path = self.directory / name
        path.write_text(json.dumps(items))
        path.chmod(0o644)
        return path

    def warm_as(self, user, cache, manifest=None, **options):
        return self.json_as(user, "warm", "--manifest", manifest or self.manifest, "--arch", "sm_90a", cache=cache, **options)

    def assert_served(self, document, hits=4):
        counters = document["counters"]
        self.assertEqual((counters["nvrtc_invocations"], counters["cubin_hits_disk"]), (0, hits))
        self.assertEqual((document["prepared"], document["failed"]), (4, []))

    def test_two_users_compile_nothing_and_write_nothing(self):
        before = snapshot(self.image)
        baked = self.json_as(0, "inspect", "--cubins", cache=self.image)["cubins"]
        self.assertEqual(len(baked), 4)
        self.assertEqual({tuple(cubin["features"]) for cubin in baked}, {(), ("q_mask", "normalize"), ("d_mask",)})
        for user in (USER, SECOND_USER):
            with self.subTest(user):
                layers = f"{self.home_of(user)}/cache:{self.image}"
                self.assertEqual(self.json_as(user, "inspect", "--cubins", cache=layers)["cubins"], baked)
                self.assert_served(self.warm_as(user, layers))
                self.assert_served(self.warm_as(user, layers, environment=NO_NVRTC))
                self.assertEqual(self.json_as(user, "cache", "verify", cache=layers)["problems"], [])
        self.assertEqual(snapshot(self.image), before)

    def test_a_user_without_a_place_to_write(self):
        before = snapshot(self.image)
        shut = self.directory / "shut"
        shut.mkdir(mode=0o755)  # root's
        for layers in (f":{self.image}", f"{shut}/cache:{self.image}", f"/proc/cache:{self.image}", self.image):
            with self.subTest(layers):
                self.assert_served(self.warm_as(USER, layers, environment={"HOME": "/nowhere"}))
                self.assertEqual(len(self.json_as(USER, "inspect", "--cubins", cache=layers)["cubins"]), 4)
        # What is not baked is compiled and lost, with one warning; by choice, without.
        other = self.write_manifest("other.json", NOT_BAKED)
        for layers, warnings in ((f":{self.image}", 0), (f"{shut}/cache:{self.image}", 1), (self.image, 1)):
            with self.subTest(layers):
                made = self.warm_as(USER, layers, other, warnings=warnings, code=1)
                self.assertEqual((made["kept"]["files"], made["kept"]["failed"]), (0, 1))
                self.assertEqual((made["counters"]["nvrtc_invocations"], made["failed"]), (1, []))
        self.assertEqual(snapshot(self.image), before)
        self.assertEqual(list(shut.iterdir()), [])

    def test_what_a_user_adds_is_their_own(self):
        before = snapshot(self.image)
        own = self.home_of(USER) / "cache"
        other = self.write_manifest("other.json", NOT_BAKED)
        self.assertEqual(self.warm_as(USER, f"{own}:{self.image}", other)["counters"]["nvrtc_invocations"], 1)
        self.assertEqual(self.warm_as(USER, f"{own}:{self.image}", other)["counters"]["nvrtc_invocations"], 0)
        (kept,) = files_of(own)
        self.assertEqual((kept.stat().st_uid, kept.stat().st_mode & 0o777), (USER, 0o600))
        listed = self.json_as(SECOND_USER, "inspect", "--cubins", cache=f":{self.image}")["cubins"]
        self.assertEqual(len(listed), 4)
        self.assertEqual(snapshot(self.image), before)

    def test_a_cache_of_a_stranger_is_refused_once_and_ignored(self):
        for path in (self.image, *self.image.rglob("*")):
            os.chown(path, STRANGER, STRANGER)
        layers = f"{self.home_of(USER)}/cache:{self.image}"
        self.assertEqual(self.json_as(USER, "inspect", "--cubins", cache=layers, warnings=1)["cubins"], [])
        made = self.warm_as(USER, layers, warnings=1)
        self.assertEqual((made["counters"]["nvrtc_invocations"], made["counters"]["cubin_hits_disk"]), (4, 0))
        result = self.run_as(USER, "warm", "--manifest", self.manifest, "--arch", "sm_90a", cache=layers)
        self.assertIn(f"{self.image} belongs to uid {STRANGER}; this user's (uid {USER}) or root's is accepted", result.stderr)
        problems = self.json_as(USER, "cache", "verify", cache=layers, code=1)["problems"]
        self.assertEqual([problem["path"] for problem in problems], [str(self.image)])
        # Root trusts nobody else, its owner trusts it.
        self.assertEqual(self.json_as(0, "inspect", "--cubins", cache=f":{self.image}", warnings=1)["cubins"], [])
        self.assertEqual(len(self.json_as(STRANGER, "inspect", "--cubins", cache=self.image)["cubins"]), 4)

    def test_one_file_of_a_stranger_or_damaged_costs_one_compile(self):
        layers = f"{self.home_of(USER)}/cache:{self.image}"
        victim = files_of(self.image)[0]
        os.chown(victim, STRANGER, STRANGER)
        made = self.warm_as(USER, layers, warnings=1)
        self.assertEqual((made["counters"]["nvrtc_invocations"], made["counters"]["cubin_hits_disk"]), (1, 3))
        self.assert_served(self.warm_as(USER, layers))  # the user's own is asked first
        self.bake()
        victim.write_bytes(victim.read_bytes()[:-1])
        damaged = snapshot(self.image)
        made = self.warm_as(SECOND_USER, f"{self.home_of(SECOND_USER)}/cache:{self.image}", warnings=1)
        self.assertEqual((made["counters"]["nvrtc_invocations"], made["counters"]["cubin_hits_disk"]), (1, 3))
        self.assertEqual(snapshot(self.image), damaged)

    def test_an_image_that_others_cannot_read_says_what_to_do(self):
        self.image.chmod(0o700)
        layers = f"{self.home_of(USER)}/cache:{self.image}"
        result = self.run_as(USER, "inspect", "--cubins", "--json", cache=layers)
        self.assertEqual(json.loads(result.stdout)["cubins"], [])
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(f"{self.image} can't be opened: Permission denied", result.stderr)
        self.assertIn("chmod -R go+rX", result.stderr)

    def test_on_a_gpu_it_runs_without_nvrtc_and_without_a_sweep(self):
        """With the driver's stand-in, which computes nothing: what is loaded and launched is the baked code."""
        driver = pathlib.Path(Here.command).parent.parent / "tests" / "libmsj_fake_libcuda.so"
        self.assertTrue(driver.exists(), f"no stand-in for the driver at {driver}")
        driver = shutil.copy(driver, self.directory / "libcuda.so.1")
        os.chmod(driver, 0o755)
        before = snapshot(self.image)
        environment = {**NO_NVRTC, "MAXSIM_JIT_LIBCUDA": str(driver), "MAXSIM_JIT_TUNE": "cached"}
        ready = self.json_as(USER, "warm", "--manifest", self.manifest, cache=f":{self.image}", environment=environment)
        self.assert_served(ready)
        self.assertEqual((ready["counters"]["sweeps"], ready["counters"]["module_loads"]), (0, 4))
        self.assertEqual(snapshot(self.image), before)


if __name__ == "__main__":
    if reason := why_not():
        print(reason)
        sys.exit(77)
    main(__doc__)
