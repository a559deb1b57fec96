"""The surroundings of a cache: no home, odd paths, full and read-only disks, and whom its files must belong to. The command
goes on in memory with one warning, or trusts what it may.

usage: environment_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import os
import pathlib
import stat
import subprocess
import unittest

from command import CommandTest, Here, main
from other_user import STRANGER, USER, UserTest, why_not

WARM = ("warm", "--op", "dense_forward", "--sizes", "Nq=1,Nd=1000,Lq=32,Ld=300,d=16", "--dtype", "fp16", "--features", "none",
        "--arch", "sm_90a", "--json")
NO_PLACE = {"MAXSIM_JIT_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": None}


def said_of_not_kept(test, result, files):
    """What is said on stderr, but for the progress, where so many files could not be kept, and none was."""
    kept = json.loads(result.stdout)["kept"]
    test.assertEqual((kept["failed"], bool(kept["problem"])), (files, files > 0))
    if files:
        test.assertEqual(kept["files"], 0)
    return [line for line in result.stderr.splitlines() if not line.startswith("maxsim-jit: warm ")]


class Surroundings(CommandTest):
    def setUp(self):
        super().setUp()
        checks = {check["name"]: check for check in json.loads(self.run_command("doctor", "--json").stdout)["checks"]}
        if checks["nvrtc"]["status"] != "ok":
            self.skipTest("no NVRTC here: " + checks["nvrtc"]["found"])

    def warm(self, warnings, *parts, compiles=1, **options):
        """One specialization; `parts` are in the one warning, which is all that is said of what could not be kept."""
        result = self.run_command(*WARM, code=1 if warnings else 0, **options)
        said = said_of_not_kept(self, result, 1 if warnings else 0)
        self.assertEqual(len(said), warnings, result.stderr)
        for part in parts:
            self.assertIn(str(part), said[0])
        document = json.loads(result.stdout)
        self.assertEqual((document["counters"]["nvrtc_invocations"], document["failed"]), (compiles, []))

    def cubins(self, directory):
        return sorted(pathlib.Path(directory).rglob("*.cubin"))


class SizeCapTest(Surroundings):
    def test_what_was_evicted_again_is_not_kept(self):
        manifest = self.directory / "manifest.json"
        manifest.write_text(json.dumps([{"op": "dense_forward", "sizes": {"Nq": 1, "Nd": 1000, "Lq": 32, "Ld": 300, "d": 16},
                                         "dtype": "fp16", "features": [[], ["q_mask"]]}]))
        folder = self.cache / "v1" / "cubins" / "aa"
        folder.mkdir(parents=True, mode=0o700)
        for path in (self.cache, self.cache / "v1", folder.parent, folder):
            path.chmod(0o700)
        with open(folder / ".tmp-1-0", "wb") as being_written:  # counts, and is never evicted
            being_written.truncate(1 << 20)
        result = self.run_command("warm", "--manifest", manifest, "--arch", "sm_90a", "--jobs", "1", "--json", code=1,
                                  environment={"MAXSIM_JIT_CACHE_LIMIT_MB": "1"})
        kept = json.loads(result.stdout)["kept"]
        self.assertEqual((kept["files"], kept["failed"], len(self.cubins(self.cache))), (1, 1, 1))
        self.assertIn("kept 1 of 2 cubins and entries; each of the others will be made again: the cache's size cap removed 1 "
                      "again: MAXSIM_JIT_CACHE_LIMIT_MB is 1, and most of it is taken by other files", result.stderr)


class HomeTest(Surroundings):
    def test_no_home(self):
        for home, said in ((None, "HOME is not set"), ("", "HOME is not set"), ("relative/home", 'HOME is "relative/home"')):
            with self.subTest(home):
                self.warm(1, said, "MAXSIM_JIT_CACHE_DIR", environment={**NO_PLACE, "HOME": home}, cwd=self.directory)
                self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_home_that_is_no_directory(self):
        plain = self.directory / "plain"
        plain.write_text("mine")
        missing = self.directory / "missing"
        for home in (plain, missing, "/dev/null", "/proc"):
            with self.subTest(home):
                self.warm(1, home, environment={**NO_PLACE, "HOME": str(home)})
        self.assertEqual(plain.read_text(), "mine")
        self.assertFalse(missing.exists())

    def test_the_place_is_below_home_or_xdg_cache_home(self):
        home, xdg = self.directory / "home", self.directory / "xdg"
        home.mkdir()
        for other in (None, "", "relative/cache"):
            with self.subTest(other):
                environment = {**NO_PLACE, "HOME": str(home), "XDG_CACHE_HOME": other}
                path = self.run_command("cache", "path", environment=environment, cwd=self.directory).stdout
                self.assertEqual(path, f"{home}/.cache/maxsim-jit\n")
        self.warm(0, environment={**NO_PLACE, "HOME": str(home), "XDG_CACHE_HOME": "relative/cache"}, cwd=self.directory)
        self.assertEqual(len(self.cubins(home / ".cache/maxsim-jit")), 1)
        self.warm(0, environment={**NO_PLACE, "HOME": str(home), "XDG_CACHE_HOME": str(xdg)})
        self.assertEqual(len(self.cubins(xdg / "maxsim-jit")), 1)
        self.assertEqual(sorted(os.listdir(self.directory)), ["home", "xdg"])

    def test_odd_names(self):
        for name in ("with space", "äöü", "日本語 🙂", "quote'\"\\$(x)", "new\nline", b"not \xff utf-8",
                     "n" * 255):
            with self.subTest(name):
                root = os.path.join(os.fsencode(self.directory), os.fsencode(name), b"cache")
                environment = {"MAXSIM_JIT_CACHE_DIR": os.fsdecode(root)}
                self.warm(0, environment=environment)
                self.warm(0, compiles=0, environment=environment)
                document = json.loads(self.run_command("cache", "verify", "--json", environment=environment).stdout)
                self.assertEqual(document["problems"], [])
                shown = root.decode("utf-8", "replace")
                layer = {"path": shown, "writable": True}
                if shown.encode() != root:
                    layer["path_hex"] = root.hex()
                self.assertEqual(document["layers"], [layer])
                path = subprocess.run([Here.command, "cache", "path"], capture_output=True, env=self.environment(environment))
                self.assertEqual(path.stdout, root + b"\n")  # for scripts: byte for byte
                (cubin,) = self.cubins(os.fsdecode(root))
                cubin.write_bytes(b"")
                problems = json.loads(self.run_command("cache", "verify", "--json", environment=environment, code=1).stdout)
                self.assertEqual([problem["path"] for problem in problems["problems"]],
                                 [os.fsencode(cubin).decode("utf-8", "replace")])
                self.run_command("cache", "clear", environment=environment)
                self.assertEqual(self.cubins(os.fsdecode(root)), [])

    def test_no_control_character_is_printed(self):
        for name in ("new\nline", "bell\a and \x1b[31m", "c1 \x9b31m", "delete \x7f"):
            root = self.directory / name / "cache"
            self.warm(0, environment={"MAXSIM_JIT_CACHE_DIR": str(root)})
            (cubin,) = self.cubins(root)
            cubin.write_bytes(b"")
            for words in (["cache", "path", "--json"], ["cache", "verify"], ["doctor"], ["inspect", "--cubins", "--table"]):
                for more in ([],) if words[-1].startswith("--") else ([], ["--json"]):
                    with self.subTest(name=name, words=words + more):
                        line = [Here.command, *words, *more]
                        result = subprocess.run(line, capture_output=True, env=self.environment({"MAXSIM_JIT_CACHE_DIR": str(root)}))
                        for stream in (result.stdout, result.stderr):
                            text = stream.decode()
                            self.assertTrue(all(part.isprintable() for part in text.split("\n")), ascii(text))
                        if words == ["cache", "verify"] and not more:
                            self.assertIn("\\x", result.stdout.decode())

    def test_how_much_of_the_log_is_said(self):
        def said(level, *flags):
            environment = {"MAXSIM_JIT_CACHE_DIR": "/dev/null/cache", "MAXSIM_JIT_LOG": level}
            stderr = self.run_command(*flags, *WARM, environment=environment, code=1).stderr
            return "warning: cache: " in stderr

        self.assertTrue(said(None))
        self.assertTrue(said("warn"))
        self.assertFalse(said("error"))
        self.assertFalse(said("off"))
        self.assertTrue(said("off", "-v"))
        for level, flags, expected in (("debug", [], True), ("debug", ["-v"], True), ("info", [], False), (None, ["-v"], False)):
            with self.subTest(level=level, flags=flags):
                root = self.directory / f"{level}{len(flags)}"
                result = self.run_command(*flags, *WARM, environment={"MAXSIM_JIT_CACHE_DIR": str(root), "MAXSIM_JIT_LOG": level})
                self.assertEqual("cache: kept cubin " in result.stderr, expected, result.stderr)
                self.assertRegex(result.stderr, r"maxsim-jit: compiled dense_forward \(\w+\), features \[.*\], for sm_\w+ in \d")

    def test_people_are_told_once(self):
        line = [word for word in WARM if word != "--json"]
        result = self.run_command(*line, environment={"MAXSIM_JIT_CACHE_DIR": "/proc/cache"}, code=1)
        said = [one for one in result.stderr.splitlines() if not one.startswith("maxsim-jit: warm ")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn("/proc/cache can't be made", said[0])
        self.assertIn("kept 0 of 1 cubins and entries; each of the others will be made again\n", result.stdout)
        quiet = self.run_command(*line, environment={"MAXSIM_JIT_CACHE_DIR": "/proc/cache", "MAXSIM_JIT_LOG": "off"}, code=1)
        self.assertIn("maxsim-jit: kept 0 of 1 cubins and entries; each of the others will be made again: /proc/cache can't "
                      "be made", quiet.stderr)

    def test_a_name_too_long(self):
        self.warm(1, "File name too long", environment={"MAXSIM_JIT_CACHE_DIR": f"{self.directory}/{'n' * 256}/cache"})
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_cache_directory_that_is_none(self):
        plain = self.directory / "plain"
        plain.write_text("mine")
        for place in (plain, "/dev/null", plain / "below"):
            with self.subTest(place):
                self.warm(1, place, environment={"MAXSIM_JIT_CACHE_DIR": str(place)})
        self.assertEqual(plain.read_text(), "mine")


MOUNT = "mount -t tmpfs -o {options} tmpfs \"$1\" && {then} && shift && exec \"$@\""


class DiskTest(Surroundings):
    """On file systems of one process's own, which end with it."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can mount a file system")
        probe = self.in_mount("size=1m", "true", "true")
        if probe.returncode != 0:
            self.skipTest(f"no file system can be mounted here: {probe.stderr.strip()}")

    def in_mount(self, options, then, *line, place=None):
        """Runs `line` with a tmpfs at `place`, once the shell has done `then` in it."""
        place = place or self.directory
        script = MOUNT.format(options=options, then=then)
        return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(place), *map(str, line)], text=True,
                              capture_output=True, timeout=600, env=self.environment({"MAXSIM_JIT_CACHE_DIR": f"{place}/cache"}))

    def assert_in_memory(self, options, then, *parts):
        # After it, what is in the file system: nothing half-written.
        line = ("sh", "-c", '"$@"; code=$?; find "$0" -name ".tmp-*" -o -name "*.cubin" >&2; exit $code', self.directory,
                Here.command, *WARM)
        result = self.in_mount(options, then, *line)
        self.assertEqual(result.returncode, 1, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual((document["counters"]["nvrtc_invocations"], document["failed"]), (1, []))
        said = said_of_not_kept(self, result, 1)
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn(str(self.directory), said[0])
        self.assertTrue(said[0].startswith("maxsim-jit: warning: cache: "), said[0])
        for part in (*parts, "going on in memory"):
            self.assertIn(part, said[0])

    def test_a_full_disk(self):
        fill = 'head -c {} /dev/zero > "$1/ballast"'
        kept = self.in_mount("size=1m", "true", Here.command, *WARM)  # that much room is enough
        self.assertEqual((kept.returncode, "warning" in kept.stderr), (0, False), kept.stderr)
        self.assert_in_memory("size=1m", f'({fill.format("2m")} 2>/dev/null || true)', "No space left on device")
        self.assert_in_memory("size=1m", fill.format(1020 * 1024), "No space left on device")  # room for a part of it
        self.assert_in_memory("size=1m,nr_inodes=1", "true", "No space left on device")  # none for a directory
        self.assert_in_memory("size=1m,nr_inodes=5", "true", "No space left on device")  # none for a file in it

    def test_a_read_only_disk(self):
        for then in ('mount -o remount,ro "$1"',
                     'mkdir -m 0700 "$1/cache" && mount -o remount,ro "$1"',
                     'mkdir -m 0700 -p "$1/cache/v1/cubins" && chmod -R go-w "$1/cache" && mount -o remount,ro "$1"'):
            with self.subTest(then):
                self.assert_in_memory("size=1m", then, "Read-only file system")

    def test_a_warmed_cache_on_a_disk_that_became_read_only(self):
        warmed = f"'{Here.command}' {' '.join(WARM)} >/dev/null"
        result = self.in_mount("size=1m", f'{warmed} && mount -o remount,ro "$1"', Here.command, *WARM)
        self.assertEqual((result.returncode, "warning" in result.stderr), (0, False), result.stderr)
        self.assertEqual(json.loads(result.stdout)["counters"]["nvrtc_invocations"], 0)


@unittest.skipIf(why_not(), why_not())
class OtherUserTest(UserTest):
    def setUp(self):
        super().setUp()
        self.need_nvrtc()
        self.cache = self.home_of(USER) / "cache"

    def test_a_home_that_its_user_cannot_write(self):
        home = self.directory / "home"
        home.mkdir(mode=0o755)  # root's
        for environment in ({"HOME": str(home)}, {"HOME": str(home), "XDG_CACHE_HOME": str(home / "x")}, {"HOME": "/root"}):
            with self.subTest(environment):
                result = self.run_as(USER, *WARM, environment=environment, code=1)
                self.assertEqual(json.loads(result.stdout)["counters"]["nvrtc_invocations"], 1)
                said = said_of_not_kept(self, result, 1)
                self.assertEqual(len(said), 1, result.stderr)
                self.assertIn("Permission denied", said[0])
        self.assertEqual(list(home.iterdir()), [])

    def test_files_that_their_user_cannot_read_are_replaced(self):
        self.run_as(USER, *WARM, cache=self.cache)
        (cubin,) = self.cache.rglob("*.cubin")
        content = cubin.read_bytes()
        cubin.chmod(0)
        problems = self.json_as(USER, "cache", "verify", cache=self.cache, code=1)["problems"]
        self.assertEqual(problems, [{"path": str(cubin), "problem": "can't be opened: Permission denied"}])
        self.assertEqual(self.json_as(USER, *WARM[:-1], cache=self.cache, warnings=1)["counters"]["nvrtc_invocations"], 1)
        self.assertEqual((len(cubin.read_bytes()), stat.S_IMODE(cubin.stat().st_mode)), (len(content), 0o600))
        self.assertEqual(self.json_as(USER, *WARM[:-1], cache=self.cache)["counters"]["nvrtc_invocations"], 0)

    # ---- whom files and directories must belong to: each rule met by a warmed cache ----

    def test_trust(self):
        self.run_as(USER, *WARM, cache=self.cache)
        (cubin,) = self.cache.rglob("*.cubin")
        levels = {"root": self.cache, "v1": self.cache / "v1", "cubins": cubin.parent.parent, "folder": cubin.parent, "file": cubin}
        for name, level in levels.items():
            for change in ("stranger", "roots", "group", "others", "sticky", "link"):
                if change == "sticky" and level == cubin:
                    continue
                with self.subTest(level=name, change=change):
                    restore = self.change(level, change)
                    # Root's own is as good as one's own; all else is a miss with one warning, which verify names.
                    trusted = change == "roots"
                    listed = self.json_as(USER, "inspect", "--cubins", cache=self.cache, warnings=0 if trusted else 1)["cubins"]
                    self.assertEqual(len(listed), 1 if trusted else 0)
                    found = self.json_as(USER, "cache", "verify", cache=self.cache, code=0 if trusted else 1)["problems"]
                    self.assertEqual([problem["path"] for problem in found], [] if trusted else [str(level)])
                    restore()
        self.assertEqual(len(self.json_as(USER, "inspect", "--cubins", cache=self.cache)["cubins"]), 1)

    def change(self, path, change):
        """Breaks (or keeps) a rule at `path`; returns what undoes it."""
        mode = stat.S_IMODE(path.stat().st_mode)

        def restore():
            os.chown(path, USER, USER)
            path.chmod(mode)

        if change in ("stranger", "roots"):
            owner = STRANGER if change == "stranger" else 0
            os.chown(path, owner, owner)
            path.chmod(0o755 if path.is_dir() else 0o644)
        elif change == "link":
            aside = path.rename(self.directory / "aside")
            path.symlink_to(aside)
            os.lchown(path, USER, USER)

            def restore():
                path.unlink()
                aside.rename(path)
        else:
            path.chmod(mode | {"group": 0o020, "others": 0o002, "sticky": 0o1777}[change])
        return restore

    def test_links_above_the_root(self):
        self.run_as(USER, *WARM, cache=self.cache)
        places = {
            "their own": (USER, 0o755, USER, True),
            "root's": (0, 0o755, 0, True),
            "sticky, their own link": (0, 0o1777, USER, True),
            "sticky, root's link": (0, 0o1777, 0, True),
            "sticky, a stranger's link": (0, 0o1777, STRANGER, False),
            "for all to write": (0, 0o777, USER, False),
            "for a group to write": (USER, 0o775, USER, False),
            "a stranger's": (STRANGER, 0o755, USER, False),
        }
        for number, (name, (owner, mode, link_owner, trusted)) in enumerate(places.items()):
            with self.subTest(name):
                place = self.directory / f"place-{number}"
                place.mkdir()
                place.chmod(mode)
                os.chown(place, owner, owner)
                link = place / "link"
                link.symlink_to(self.cache.parent)
                os.lchown(link, link_owner, link_owner)
                result = self.run_as(USER, "inspect", "--cubins", "--json", cache=link / "cache")
                self.assertEqual(len(json.loads(result.stdout)["cubins"]), 1 if trusted else 0)
                self.assertEqual(len(result.stderr.splitlines()), 0 if trusted else 1, result.stderr)
                if not trusted:
                    self.assertIn(f"{link} is a symbolic link that others can change", result.stderr)


if __name__ == "__main__":
    main(__doc__)
