"""`doctor` on machines that lack something: each check says what was found and what to do about it.

usage: doctor_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]; FAKE_LIBCUDA and FAKE_OLD_NVRTC name the stand-ins
"""
import json
import os
import pathlib
import re
import shutil
import unittest

from command import NO_DRIVER, NO_NVRTC, CommandTest, main
from other_user import STRANGER, USER, UserTest, why_not

WARM = ["warm", "--op", "dense_forward", "--sizes", "Nq=1,Nd=1,Lq=1,Ld=1,d=16", "--dtype", "bf16", "--features", "none",
        "--arch", "sm_90a"]
GO_ON = "until then everything is compiled and tuned again in each process"


class DoctorTest(CommandTest):
    def doctor(self, **environment):
        """Checks by name. The text for people holds the same, and a problem is no failure of the command."""
        document = json.loads(self.run_command("doctor", "--json", environment=environment).stdout)
        self.assertEqual(document["schema"], "maxsim-jit/doctor/1")
        text = self.run_command("doctor", environment=environment).stdout
        for check in document["checks"]:
            self.assertRegex(text, rf"(?m)^{check['status']} +{re.escape(check['name'])} +{re.escape(check['found'])}$")
            self.assertEqual(check["status"] != "ok", bool(check["fix"]), check)
            if check["fix"]:
                self.assertIn(f"to fix: {check['fix']}\n", text)
            self.assertTrue((check["found"] + check["fix"]).isprintable(), check)
        return {check["name"]: check for check in document["checks"]}

    def assert_ok(self, check, *parts):
        self.assertEqual(check["status"], "ok", check)
        for part in parts:
            self.assertIn(str(part), check["found"])

    def assert_warning(self, check, found, fix):
        self.assertEqual(check["status"], "warning", check)
        for part in found:
            self.assertIn(str(part), check["found"])
        for part in fix:
            self.assertIn(part, check["fix"])

    def sound_nvrtc(self):
        """Where the machine's own NVRTC lies."""
        check = self.doctor()["nvrtc"]
        if check["status"] != "ok":
            self.skipTest("no NVRTC here: " + check["found"])
        opened = re.search(r"from (\S+),", check["found"]).group(1)
        places = [pathlib.Path(opened), *pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so.[0-9]*"),
                  *pathlib.Path("/usr/lib").glob("*/libnvrtc.so.[0-9]*")]
        return next(path.resolve() for path in places if path.is_absolute() and path.exists())

    # ---- driver and NVRTC

    def test_no_driver(self):
        self.assert_warning(self.doctor(**NO_DRIVER)["driver"], ["/nowhere/libcuda.so.1"],
                            ["install NVIDIA's driver", "MAXSIM_JIT_LIBCUDA", "warm --arch", "score --device cpu", "MSJ_DEVICE_CPU"])

    def test_no_nvrtc(self):
        self.assert_warning(self.doctor(**NO_NVRTC)["nvrtc"], ["/nowhere/libnvrtc.so"],
                            ["NVRTC", "12.0 or newer", "MAXSIM_JIT_LIBNVRTC", "only what the cache holds"])

    def test_neither(self):
        checks = self.doctor(**NO_DRIVER, **NO_NVRTC)
        self.assertEqual((checks["driver"]["status"], checks["nvrtc"]["status"]), ("warning", "warning"))
        self.assert_ok(checks["cache"], self.cache)

    def test_what_is_no_library(self):
        plain = self.directory / "plain.so"
        plain.write_text("no library")
        checks = self.doctor(MAXSIM_JIT_LIBCUDA=str(plain), MAXSIM_JIT_LIBNVRTC=str(plain))
        self.assert_warning(checks["driver"], [plain], ["MAXSIM_JIT_LIBCUDA"])
        self.assert_warning(checks["nvrtc"], [plain], ["MAXSIM_JIT_LIBNVRTC"])
        fifo = self.directory / "fifo"  # which nobody will ever write to
        os.mkfifo(fifo)
        checks = self.doctor(MAXSIM_JIT_LIBCUDA=str(fifo), MAXSIM_JIT_LIBNVRTC=str(fifo))
        self.assert_warning(checks["driver"], [f"{fifo}: it is no regular file"], ["MAXSIM_JIT_LIBCUDA"])
        self.assert_warning(checks["nvrtc"], [f"{fifo}: it is no regular file"], ["MAXSIM_JIT_LIBNVRTC"])

    def test_nvrtc_that_compiles(self):
        self.sound_nvrtc()
        self.assert_ok(self.doctor(**NO_DRIVER)["nvrtc"], "NVRTC ", "compiles for sm_90a")

    def test_nvrtc_without_builtins(self):
        # A copy of libnvrtc alone, with a damaged builtins library, so that none of the loader's places serves.
        library = pathlib.Path(shutil.copy(self.sound_nvrtc(), self.directory))
        version = re.search(r"NVRTC (\S+)", self.doctor()["nvrtc"]["found"]).group(1)
        (self.directory / f"libnvrtc-builtins.so.{version}").write_text("cut off")
        places = os.pathsep.join(filter(None, [str(self.directory), os.environ.get("LD_LIBRARY_PATH")]))
        check = self.doctor(MAXSIM_JIT_LIBNVRTC=str(library), LD_LIBRARY_PATH=places)["nvrtc"]
        self.assert_warning(check, [f"libnvrtc-builtins.so.{version}", "beside libnvrtc", self.directory], ["whole"])

    def test_an_old_nvrtc(self):
        old = os.environ["FAKE_OLD_NVRTC"]
        self.assert_warning(self.doctor(MAXSIM_JIT_LIBNVRTC=old, **NO_DRIVER)["nvrtc"],
                            ["NVRTC 11.2", old, "too old for sm_90a", "12.0 or newer"], ["12.0 or newer", "MAXSIM_JIT_LIBNVRTC"])

    def test_a_gpu(self):
        self.sound_nvrtc()
        fake = {"MAXSIM_JIT_LIBCUDA": os.environ["FAKE_LIBCUDA"], "FAKE_CUDA_DEVICES": "NVIDIA A100:80:108:166912"}
        checks = self.doctor(**fake)
        self.assert_ok(checks["driver"], "CUDA 13.0", os.environ["FAKE_LIBCUDA"])
        self.assert_ok(checks["gpu 0"], "NVIDIA A100", "sm_80", "108 multiprocessors", "163 KiB")
        self.assert_ok(checks["nvrtc"], "compiles for sm_80")

    def test_drivers_that_are_of_no_use(self):
        fake = {"MAXSIM_JIT_LIBCUDA": os.environ["FAKE_LIBCUDA"]}
        check = self.doctor(**fake, FAKE_CUDA_DRIVER="11040")["driver"]
        self.assert_warning(check, ["supports CUDA 11.4", "12.0 or newer", "update the driver"], ["driver"])
        check = self.doctor(**fake, FAKE_CUDA_DEVICES="")["driver"]
        self.assert_warning(check, ["CUDA_ERROR_NO_DEVICE", "is a GPU there and visible?"], ["warm --arch"])
        check = self.doctor(**fake, FAKE_CUDA_DEVICES="Tesla V100:70:80:98304")["gpu 0"]
        self.assert_warning(check, ["Tesla V100", "compute capability 7.0"], ["compute capability 8.0 or newer"])

    # ---- the cache

    def test_a_sound_cache(self):
        checks = self.doctor()
        self.assert_ok(checks["cache"], self.cache)
        self.assert_ok(checks["cache files"], "0 files, all valid")

    def test_home_unset(self):
        check = self.doctor(MAXSIM_JIT_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=None)["cache"]
        self.assert_warning(check, ["no cache directory", "HOME is not set", "MAXSIM_JIT_CACHE_DIR"], ["MAXSIM_JIT_CACHE_DIR", GO_ON])
        check = self.doctor(MAXSIM_JIT_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME="here")["cache"]
        self.assert_warning(check, ['HOME is "here"', "absolute"], ["MAXSIM_JIT_CACHE_DIR", GO_ON])

    def test_no_place_for_it(self):
        (self.directory / "plain").write_text("")
        place = self.directory / "plain" / "cache"
        check = self.doctor(MAXSIM_JIT_CACHE_DIR=str(place))["cache"]
        self.assert_warning(check, [self.directory / "plain", "is a file"], ["MAXSIM_JIT_CACHE_DIR", GO_ON])

    def test_a_root_that_cannot_be_used_is_no_damaged_file(self):
        (self.directory / "plain").write_text("")
        for place in (self.directory / "plain", self.directory / "plain" / "cache"):
            check = self.doctor(MAXSIM_JIT_CACHE_DIR=str(place))["cache files"]
            self.assert_warning(check, ["none", "can't be used"], ["MAXSIM_JIT_CACHE_DIR", GO_ON])
            self.assertNotIn("not valid", check["found"])
            printed = self.run_command("cache", "verify", environment={"MAXSIM_JIT_CACHE_DIR": str(place)}, code=1).stdout
            self.assertIn(f"{place}: this cache directory can't be used: it ", printed)
            self.assertIn("is a file", printed)
            self.assertIn("files: 0, ", printed)

    def test_writable_by_group(self):
        self.cache.mkdir()
        for mode in (0o770, 0o707):
            self.cache.chmod(mode)
            check = self.doctor()["cache"]
            self.assert_warning(check, [self.cache, "writable by group or others", f"mode {mode:04o}", "chmod go-w"],
                                ["chmod go-w", GO_ON])

    def test_a_symbolic_link(self):
        (self.directory / "real").mkdir()
        self.cache.symlink_to(self.directory / "real")
        self.assert_warning(self.doctor()["cache"], [self.cache, "is a symbolic link"], ["MAXSIM_JIT_CACHE_DIR"])

    def test_a_damaged_file(self):
        self.sound_nvrtc()
        self.run_command(*WARM)
        self.assert_ok(self.doctor()["cache files"], "all valid")
        cubin = next(self.cache.rglob("*.cubin"))
        cubin.write_bytes(cubin.read_bytes()[:-1])
        check = self.doctor()["cache files"]
        self.assert_warning(check, ["1 of", "not valid", cubin], ["cache verify", "cache prune"])
        self.run_command("cache", "prune")
        self.assert_ok(self.doctor()["cache files"], "all valid")

    def test_a_file_that_is_being_written(self):
        self.sound_nvrtc()
        self.run_command(*WARM)
        temporary = next(self.cache.rglob("*.cubin")).parent / ".tmp-1-00"
        temporary.write_bytes(b"half")
        self.assert_ok(self.doctor()["cache files"], "all valid")
        self.run_command("cache", "verify")
        os.utime(temporary, (0, 0))  # what nobody writes any more
        self.assert_warning(self.doctor()["cache files"], ["1 of", "not valid", temporary, "interrupted"], ["cache prune"])
        self.assertIn(f"{temporary}: is a leftover", self.run_command("cache", "verify", code=1).stdout)

    def test_verify_agrees(self):
        plain = self.directory / "plain"
        plain.write_text("mine")
        for place in ("/proc/cache", plain, plain / "below"):
            with self.subTest(place):
                environment = {"MAXSIM_JIT_CACHE_DIR": str(place)}
                checks = self.doctor(**environment)
                verified = json.loads(self.run_command("cache", "verify", "--json", code=1, environment=environment).stdout)
                self.assertEqual(verified["unusable"], [str(place)])
                (problem,) = verified["problems"]
                why = problem["problem"].removeprefix("this cache directory can't be used: it ")
                self.assertEqual(checks["cache"]["found"], f"{place} {why}")
                self.assertEqual(checks["cache files"]["status"], "warning")

    def test_verify_makes_nothing(self):
        place = self.directory / "a" / "b"
        environment = {"MAXSIM_JIT_CACHE_DIR": str(place)}
        self.assertEqual(self.run_command("cache", "verify", environment=environment).stdout, "files: 0, problems: 0\n")
        self.assertFalse(place.parent.exists())
        self.assert_ok(self.doctor(**environment)["cache"], place)

    def test_path_makes_nothing_and_says_what_cannot_be_used(self):
        home = {"MAXSIM_JIT_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": str(self.directory / "home")}
        result = self.run_command("cache", "path", environment=home)
        self.assertEqual(result.stdout, f"{self.directory}/home/.cache/maxsim-jit\n")
        self.assertIn(f"this cache directory can't be used: {self.directory}/home", result.stderr)
        (self.directory / "home").mkdir(mode=0o700)
        result = self.run_command("cache", "path", environment=home)
        self.assertEqual((result.stdout, result.stderr), (f"{self.directory}/home/.cache/maxsim-jit\n", ""))
        self.assertEqual(list((self.directory / "home").iterdir()), [])

    def test_clear_makes_nothing(self):
        for place, code in ((self.cache, 0), ("/proc/cache", 0), (self.directory / "plain" / "below", 1)):
            with self.subTest(place):
                (self.directory / "plain").write_text("mine")
                self.run_command("cache", "clear", code=code, environment={"MAXSIM_JIT_CACHE_DIR": str(place)})
                self.assertFalse(os.path.exists(place))

    def test_layers(self):
        sound, missing, open_to_all = (self.directory / name for name in ("sound", "missing", "open"))
        sound.mkdir(mode=0o755)
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        for layer, *found in ((missing, "does not exist"), (open_to_all, "writable by group or others")):
            checks = self.doctor(MAXSIM_JIT_CACHE_DIR=f"{self.cache}:{layer}")
            self.assert_ok(checks["cache"], self.cache)
            self.assert_warning(checks["cache layer"], [layer, *found], ["MAXSIM_JIT_CACHE_DIR", "as good as empty"])
            if layer == open_to_all:
                self.assert_warning(checks["cache files"], [f"none; not read: {layer}, which can't be used"],
                                    ["MAXSIM_JIT_CACHE_DIR", "as good as empty"])
        self.assert_ok(self.doctor(MAXSIM_JIT_CACHE_DIR=f"{self.cache}:{sound}")["cache layer"], sound)
        (sound / "v1" / "locks").mkdir(parents=True, mode=0o755)
        (sound / "v1" / "x.json").write_text("{}")
        checks = self.doctor(MAXSIM_JIT_CACHE_DIR=f":{sound}:{open_to_all}")
        self.assert_warning(checks["cache files"], ["1 of 1 are not valid", sound / "v1" / "x.json",
                                                    f"; not read: {open_to_all}, which can't be used"], ["cache verify"])
        (sound / "v1" / "x.json").unlink()
        alone = self.doctor(MAXSIM_JIT_CACHE_DIR=f":{sound}")
        self.assert_ok(alone["cache layer"], sound)
        self.assert_ok(alone["cache"], "nothing is kept")


@unittest.skipIf(why_not(), why_not())
class OtherUsersTest(UserTest):
    def cache_check(self, **options):
        checks = self.json_as(USER, "doctor", **options)["checks"]
        return next(check for check in checks if check["name"] == "cache")

    def test_a_foreign_cache(self):
        self.cache.mkdir(mode=0o755)
        os.chown(self.cache, STRANGER, STRANGER)
        check = self.cache_check(cache=self.cache)
        self.assertEqual(check["status"], "warning")
        for part in (str(self.cache), f"belongs to uid {STRANGER}", f"uid {USER}"):
            self.assertIn(part, check["found"])
        self.assertIn("chown", check["fix"])

    def test_a_home_that_cannot_be_written(self):
        home = self.directory / "home"
        home.mkdir(mode=0o755)  # root's
        check = self.cache_check(environment={"HOME": str(home)})
        self.assertEqual(check["status"], "warning")
        self.assertIn(f"{home}/.cache", check["found"])
        self.assertIn("Permission denied", check["found"])
        self.assertIn("MAXSIM_JIT_CACHE_DIR", check["fix"])
        (problem,) = self.json_as(USER, "cache", "verify", environment={"HOME": str(home)}, code=1)["problems"]
        why = problem["problem"].removeprefix("this cache directory can't be used: it ")
        self.assertEqual(check["found"], f"{problem['path']} {why}")
        self.assertEqual(list(home.iterdir()), [])


if __name__ == "__main__":
    main(__doc__)
