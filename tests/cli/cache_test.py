"""A cache carried as one file, by the command and by tar, and tidied.

usage: cache_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import tarfile
import unittest

from command import NO_NVRTC, CommandTest, Here, main
from other_user import STRANGER, USER, UserTest, snapshot, why_not

SIZES = {"Nq": 1, "Nd": 1000, "Lq": 32, "Ld": 300, "d": 16}
MANIFEST = [{"op": "dense_forward", "sizes": SIZES, "dtype": "fp16", "features": [[], ["q_mask"]]}]
CACHED = {}  # relative path → bytes of a cache made once: compiling takes its time


def checksum(entry):
    """As docs/cache-files.md says: of everything but itself and the date."""
    summed = {**entry, "provenance": {name: value for name, value in entry["provenance"].items() if name != "date"}}
    del summed["checksum"]
    text = json.dumps(summed, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class CacheTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.manifest = self.directory.parent / "manifest.json"
        self.manifest.write_text(json.dumps(MANIFEST))
        self.tar = self.directory / "cache.tar"

    def json_of(self, *arguments, **options):
        document = json.loads(self.run_command(*arguments, "--json", **options).stdout)
        if arguments[0] == "cache":
            self.assertEqual(document["schema"], "maxsim-jit/cache/1")
        return document

    def in_cache(self, cache):
        return {"environment": {"MAXSIM_JIT_CACHE_DIR": str(cache)}}

    def warm(self, cache, compiles, **options):
        environment = {"MAXSIM_JIT_CACHE_DIR": str(cache), **options.pop("environment", {})}
        document = self.json_of("warm", "--manifest", self.manifest, "--arch", "sm_90a", environment=environment, **options)
        self.assertEqual((document["counters"]["nvrtc_invocations"], document["failed"]), (compiles, []))

    def fill(self):
        """self.cache, warmed; beside the cubins an entry, which takes a GPU to make: one that is shipped."""
        if not CACHED:
            checks = {check["name"]: check for check in self.json_of("doctor")["checks"]}
            if checks["nvrtc"]["status"] != "ok":
                self.skipTest("no NVRTC here: " + checks["nvrtc"]["found"])
            self.warm(self.cache, 2)
            (shipped, *_) = sorted((Here.source / "configs" / "tuned").rglob("dense_forward/*.json"))
            environment = shipped.parent.parent.name
            place = self.cache / "v1" / environment / "autotune" / "dense_forward"
            place.mkdir(parents=True)
            self.make_current(shipped, place / shipped.name)
            CACHED.update({p.relative_to(self.cache): p.read_bytes() for p in self.cache.rglob("*") if p.is_file()})
        for relative, content in CACHED.items():
            (self.cache / relative).parent.mkdir(parents=True, exist_ok=True)
            (self.cache / relative).write_bytes(content)
        for path in (self.cache, *self.cache.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)

    def make_current(self, shipped, place):
        """A copy of this library's own tuning epoch, which `prune` says, whatever the shipped one's; as another library wrote it,
        so that its configs need be no candidates of this one."""
        entry = json.loads(shipped.read_text())
        self.assertEqual(entry["checksum"], checksum(entry))  # else what is written below would be damaged
        entry["provenance"]["library"] = "0.0.0"

        def write(epoch):
            entry["key"]["tuning_epoch"] = epoch
            entry["checksum"] = checksum(entry)
            place.write_text(json.dumps(entry, indent=2, ensure_ascii=False) + "\n")  # as the library writes it
            for path in (self.cache, *self.cache.rglob("*")):
                path.chmod(0o700 if path.is_dir() else 0o600)

        write(0)
        removed = self.json_of("cache", "prune")["removed"]
        (reason,) = [file["reason"] for file in removed if file["path"] == str(place)] or [""]
        place.parent.mkdir(parents=True, exist_ok=True)
        write(int(re.fullmatch(r"is of tuning epoch 0; this library's is (\d+)", reason)[1]) if reason else 0)
        self.assertEqual(self.json_of("cache", "verify")["problems"], [])

    def kept(self):
        """The entries and cubins of the filled cache."""
        return {str(path): content for path, content in CACHED.items() if "locks" not in path.parts}

    def files_of(self, cache):
        return {str(p.relative_to(cache)): p.read_bytes() for p in pathlib.Path(cache).rglob("*")
                if p.is_file() and "locks" not in p.parts}

    def tar_command(self, *arguments):
        return subprocess.run(["tar", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


class ExportTest(CacheTest):
    def setUp(self):
        super().setUp()
        self.fill()

    def test_round_trip(self):
        sent = self.json_of("cache", "export", self.tar)
        self.assertEqual((sent["entries"], sent["cubins"], sent["bytes"]), (1, 2, sum(map(len, self.kept().values()))))
        other = self.directory / "other"
        got = self.json_of("cache", "import", self.tar, **self.in_cache(other))
        self.assertEqual((got["entries"], got["cubins"], got["problems"]), (1, 2, []))
        self.assertEqual(self.files_of(other), self.kept())
        self.warm(other, 0, environment=NO_NVRTC)
        again = self.run_command("cache", "import", self.tar, **self.in_cache(other)).stdout
        self.assertEqual(again, "imported entries: 0, cubins: 0, bytes: 0; there already: 3 the same, 0 others, which stay; "
                                "refused: 0\n")
        self.assertEqual(self.json_of("cache", "verify", **self.in_cache(other))["problems"], [])

    def test_the_same_cache_gives_the_same_bytes(self):
        other = self.directory / "other.tar"
        self.run_command("cache", "export", self.tar)
        self.warm(self.cache, 0)  # sets times
        self.assertRegex(self.run_command("cache", "export", other).stdout, r"^exported entries: 1, cubins: 2, bytes: \d+\n$")
        self.assertEqual(self.tar.read_bytes(), other.read_bytes())

    def test_what_tar_makes_of_it_is_a_read_only_layer(self):
        self.run_command("cache", "export", self.tar)
        names = self.tar_command("tf", self.tar).splitlines()
        self.assertEqual(names, sorted(names))
        self.assertEqual({name for name in names if not name.endswith("/")}, set(self.kept()))
        with tarfile.open(self.tar) as archive:
            for member in archive:
                self.assertEqual((member.uid, member.gid, member.uname, member.mtime), (0, 0, "root", 315532800))
                self.assertEqual(member.mode, 0o755 if member.isdir() else 0o644)
        layer = self.directory / "layer"
        layer.mkdir()
        self.tar_command("xf", self.tar, "-C", layer)
        self.assertEqual(self.files_of(layer), self.kept())
        before = snapshot(layer)
        for layers in (f":{layer}", f"{self.directory}/own:{layer}"):
            self.warm(layers, 0, environment=NO_NVRTC)
            self.assertEqual(self.json_of("cache", "verify", **self.in_cache(layers))["problems"], [])
            self.run_command("cache", "prune", **self.in_cache(layers))
        self.assertEqual(snapshot(layer), before)

    def test_what_tar_packs_is_imported(self):
        self.run_command("cache", "export", self.tar)
        layer = self.directory / "layer"
        layer.mkdir()
        self.tar_command("xf", self.tar, "-C", layer)
        for number, options in enumerate((["--format=gnu"], ["--format=pax"], ["--format=oldgnu"], ["--format=ustar"],
                                          ["--format=pax", "--pax-option=exthdr.name=x"], ["--sort=name", "--blocking-factor=1"])):
            for what in ("v1", "."):
                with self.subTest(options=options, what=what):
                    packed, root = self.directory / "packed.tar", self.directory / f"root-{number}-{what}"
                    self.tar_command("cf", packed, *options, "-C", layer, what)
                    got = self.json_of("cache", "import", packed, **self.in_cache(root))
                    self.assertEqual((got["entries"], got["cubins"], got["problems"]), (1, 2, []))
                    self.assertEqual(self.files_of(root), self.kept())
        # As it lies, with locks; and by another program.
        self.tar_command("cf", packed, "-C", self.cache, ".")
        self.assertEqual(self.json_of("cache", "import", packed, **self.in_cache(self.directory / "a"))["problems"], [])
        with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(layer / "v1", "v1")
        self.assertEqual(self.json_of("cache", "import", packed, **self.in_cache(self.directory / "b"))["cubins"], 2)

    def test_one_op_or_architecture(self):
        for options in (["--op", "dense_forward"], ["--arch", "sm_90a"]):
            document = self.json_of("cache", "export", self.tar, *options)
            self.assertEqual((document["entries"], document["cubins"]), (1, 2))
        self.tar.write_text("what was there")
        for options, what in ((["--op", "fp8_forward"], "of fp8_forward"), (["--arch", "sm_80"], "for sm_80"),
                              (["--op", "dense_forward", "--arch", "sm_80"], "of dense_forward for sm_80")):
            self.assert_sentence(self.run_command("cache", "export", self.tar, *options, code=1), self.tar,
                                 f"is not written: no entry or cubin {what} is cached")
        self.assertEqual(self.tar.read_text(), "what was there")
        result = self.run_command("cache", "export", self.tar, **self.in_cache(self.directory / "none"))
        self.assertIn("nothing is cached; the archive is empty", result.stderr)
        self.assertEqual(self.tar.stat().st_size, 1024)

    def test_places_where_it_cannot_be_written(self):
        (self.directory / "plain").write_text("")
        for place, part in ((self.directory, "no regular file"), ("/dev/null", "no regular file"),
                            (self.directory / "none" / "a.tar", "there is no directory"),
                            (self.directory / "plain" / "a.tar", "there is no directory"), ("/proc/a.tar", "No such file"),
                            (self.directory / ("x" * 300), "name too long")):
            with self.subTest(place=place):
                self.assert_sentence(self.run_command("cache", "export", place, code=1), place, "can't be written", part)
        (self.directory / "link").symlink_to(self.cache / "v1")
        before = snapshot(self.cache)
        for place in (self.cache / "v1" / "a.tar", self.cache / "v1" / "cubins" / "a.tar", self.directory / "link" / "a.tar"):
            self.assert_sentence(self.run_command("cache", "export", place, code=1), place,
                                 f"can't be written: it would lie within the cache, in {self.cache}/v1; a place outside it is accepted")
        self.assertEqual(snapshot(self.cache), before)
        (self.directory / "link").unlink()
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_DFL), resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
        self.tar.write_text("what was there")
        self.assert_sentence(self.run_command("cache", "export", self.tar, code=1, preexec_fn=limit), self.tar, "File too large")
        self.assertEqual(self.tar.read_text(), "what was there")
        self.assertEqual({path.name for path in self.directory.iterdir()}, {"plain", "cache.tar"})

    def test_what_links_lead_to(self):
        self.tar.symlink_to("there.tar")
        self.run_command("cache", "export", self.tar)
        self.assertTrue(self.tar.is_symlink() and (self.directory / "there.tar").is_file())
        (self.directory / "loop").symlink_to("loop")
        self.assert_sentence(self.run_command("cache", "export", self.directory / "loop", code=1), self.directory / "loop",
                             "can't be written: Too many levels of symbolic links")
        log = self.directory / "app.log"
        log.write_text("what was there\n")
        with open(log, "a") as stream:
            self.assert_sentence(self.run_command("cache", "export", "/dev/stdout", code=1, stdout=stream), "/dev/stdout",
                                 "can't be written: /proc/self/fd/1 stands for an open file")
        self.assertEqual(log.read_text(), "what was there\n")

    def make_large(self, megabytes):
        """Cubins, as another library would have made them, so large that writing them takes its time."""
        for number in range(megabytes // 32):
            digits, key, provenance = f"{number:032x}", b'{"op":"dense_forward","architecture":"sm_90a"}', b'{"library":"0.0.0"}'
            head = b"MSJCUBIN" + struct.pack("<IIIIQ", 1, len(key), len(provenance), 0, 32 << 20) + bytes.fromhex(digits)
            rest = key + provenance + bytes(32 << 20)
            folder = self.cache / "v1" / "cubins" / digits[:2]
            folder.mkdir(mode=0o700, exist_ok=True)
            file = folder / f"{digits}.cubin"
            file.write_bytes(head + hashlib.sha256(head + rest).digest() + rest)
            file.chmod(0o600)

    def test_one_that_is_killed_leaves_nothing(self):
        self.make_large(256)
        for was_there in (False, True):
            for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                if was_there:
                    self.tar.write_text("what was there")
                self.kill_while_it_writes("cache", "export", self.tar, sent=sent)
                self.assertEqual([path.read_text() for path in self.directory.iterdir()], ["what was there"] * was_there)
        self.assertEqual(self.json_of("cache", "export", self.tar)["cubins"], 10)


class ImportTest(CacheTest):
    def pack(self, *members):
        """A tar of (name or TarInfo, content) pairs."""
        with tarfile.open(self.tar, "w") as archive:
            for name, content in members:
                info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))

    def test_what_is_refused_is_named_and_the_rest_is_taken(self):
        self.fill()
        good = list(self.kept().items())
        link = tarfile.TarInfo("v1/cubins/aa/link.cubin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        device = tarfile.TarInfo("v1/cubins/aa/null.cubin")
        device.type = tarfile.CHRTYPE
        self.pack(("/v1/absolute.json", b"{}"), ("v1/../../evil.json", b"{}"), (link, b""), (device, b""), ("notes.txt", b"hi"),
                  ("v1/x/autotune/y/z.json", b"{}"), *good)
        other = self.directory / "other"
        result = self.run_command("cache", "import", self.tar, code=1, **self.in_cache(other))
        *lines, last = result.stdout.splitlines()
        self.assertEqual([line.split(": refused: ")[0] for line in lines],
                         ["/v1/absolute.json", "v1/../../evil.json", link.name, device.name, "notes.txt", "v1/x/autotune/y/z.json"])
        self.assertIn("imported entries: 1, cubins: 2", last)
        self.assertIn("refused: 6", last)
        self.assertEqual(self.files_of(other), self.kept())
        self.assertEqual({path.name for path in self.directory.iterdir()}, {"cache.tar", "other"})
        problems = self.json_of("cache", "import", self.tar, code=1, **self.in_cache(other))["problems"]
        self.assertEqual([problem["path"] for problem in problems], [line.split(": refused: ")[0] for line in lines])

    def test_sparse_files_are_refused_by_name(self):
        self.fill()
        layer = self.directory / "layer"
        for path, content in self.kept().items():
            (layer / path).parent.mkdir(parents=True, exist_ok=True)
            (layer / path).write_bytes(content)
        holes = layer / "v1" / "cubins" / "aa" / ("a" * 32 + ".cubin")
        holes.parent.mkdir(exist_ok=True)
        with holes.open("wb") as file:  # more pieces than a header has room for
            for piece in range(40):
                file.seek(piece << 16)
                file.write(b"x")
        for number, options in enumerate((["--format=gnu"], ["--format=oldgnu"], ["--format=pax"])):
            with self.subTest(options=options):
                self.tar_command("cf", self.tar, "--sparse", *options, "-C", layer, "v1")
                got = self.json_of("cache", "import", self.tar, code=1, **self.in_cache(self.directory / f"root-{number}"))
                (problem,) = got["problems"]
                self.assertEqual(problem["problem"], "is a sparse file, not a file")
                self.assertIn(holes.name, problem["path"])
                self.assertEqual((got["entries"], got["cubins"]), (1, 2))

    def test_files_that_are_no_archive(self):
        self.fill()
        self.run_command("cache", "export", self.tar)
        whole = self.tar.read_bytes()
        other = self.directory / "other"
        for content, part in ((b"", "is no tar archive"), (b"text\n" * 500, "is no tar archive"), (whole[:len(whole) // 2], "is cut off"),
                              (gzip.compress(whole), "is compressed with gzip; decompress it first (gzip -d)"),
                              (whole[:-1024], "is cut off"), (whole[:600] + b"x" + whole[601:], "is damaged")):
            self.tar.write_bytes(content)
            self.assert_sentence(self.run_command("cache", "import", self.tar, code=1, **self.in_cache(other)), self.tar, part)
        self.assertEqual(self.files_of(other), {})
        for place, part in ((self.directory / "none", "No such file"), (self.directory, "no regular file"), ("/dev/zero", "no regular file")):
            self.assert_sentence(self.run_command("cache", "import", place, code=1, **self.in_cache(other)), place, part)

    def test_a_cache_that_cannot_keep_it(self):
        self.fill()
        self.run_command("cache", "export", self.tar)
        (self.directory / "plain").write_text("")
        for layers, part in ((self.directory / "plain", "nothing can be imported"), (f":{self.cache}", "no writable directory"),
                             ("/proc/cache", "nothing can be imported")):
            self.assert_sentence(self.run_command("cache", "import", self.tar, code=1, **self.in_cache(layers)), part)
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_DFL), resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        result = self.run_command("cache", "import", self.tar, code=1, preexec_fn=limit, **self.in_cache(self.directory / "c"))
        self.assertIn(f"{self.tar} can't be imported further, after 0 of its files: ", result.stderr)
        self.assertIn("File too large", result.stderr)
        self.assertEqual(self.files_of(self.directory / "c"), {})


class ClearTest(CacheTest):
    def test_what_is_imported_meanwhile_fails_neither(self):
        self.fill()
        self.run_command("cache", "export", self.tar)
        for _ in range(20):
            both = [subprocess.Popen([Here.command, "cache", *arguments], env=self.environment(), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
                    for arguments in (["clear"], ["import", str(self.tar)], ["clear"], ["import", str(self.tar)])]
            for process in both:
                out, err = process.communicate(timeout=600)
                self.assertEqual((process.returncode, err), (0, ""), out)
        self.run_command("cache", "clear")
        self.assertEqual(self.files_of(self.cache), {})


class VerifyTest(CacheTest):
    def test_entries_of_other_bytes_are_named_with_all_of_the_reason(self):
        (shipped, *_) = sorted((Here.source / "configs" / "tuned").rglob("dense_forward/*.json"))
        sound = shipped.read_bytes()
        place = self.cache / "v1" / shipped.parent.parent.name / "autotune" / "dense_forward" / shipped.name
        place.parent.mkdir(parents=True)
        cases = [
            (sound + b'\0{"anything', "it is no JSON text: line", "'\\x00', where the end of the text is accepted"),
            (b"\xef\xbb\xbf" + sound, "its bytes are others than this library writes"),
            (sound + b"\n", "its bytes are others than this library writes"),
            (sound.replace(b"maxsim-jit/autotune/1", b"max\\u0000sim"), 'its schema is "max\\x00sim", not "maxsim-jit'),
            (b'{"candidates":[' + b",".join([b"{}"] * 200000) + b"]}", "more than 65536 objects, lists and names"),
            (sound, ""),
        ]
        for content, *parts in cases:
            with self.subTest(content[:40]):
                place.write_bytes(content)
                for path in (self.cache, *self.cache.rglob("*")):
                    path.chmod(0o700 if path.is_dir() else 0o600)
                problems = self.json_of("cache", "verify", code=int(content != sound))["problems"]
                self.assertEqual([p["path"] for p in problems], [str(place)] if content != sound else [])
                for part in parts:
                    self.assertIn(part, problems[0]["problem"] if problems else "")


class PruneTest(CacheTest):
    def test_what_is_of_no_use_goes_and_the_rest_serves(self):
        self.fill()
        folder = next(self.cache.rglob("*.cubin")).parent
        damaged = folder / f"{folder.name}{'0' * 30}.cubin"
        damaged.write_bytes(b"no cubin")
        leftover = folder / ".tmp-1-00"
        leftover.write_bytes(b"half")
        os.utime(leftover, (1, 1))
        link = self.cache / "v1" / "link.json"
        link.symlink_to(self.manifest)
        bad = {str(path) for path in (damaged, leftover, link)}
        self.assertEqual({p["path"] for p in self.json_of("cache", "verify", code=1)["problems"]}, bad)
        pruned = self.json_of("cache", "prune")
        locks = {str(self.cache / path) for path in CACHED if "locks" in path.parts}
        self.assertEqual({file["path"] for file in pruned["removed"]}, bad | locks)
        self.assertEqual(pruned["bytes"]["before"] - pruned["bytes"]["after"], 12)
        self.assertEqual(pruned["problems"], [])
        self.assertEqual(self.files_of(self.cache), self.kept())
        self.assertTrue(self.manifest.exists())
        self.warm(self.cache, 0)
        again = self.run_command("cache", "prune").stdout
        self.assertRegex(again, r"^removed files: 0, idle locks: 0; bytes: (\d+) before, \1 now\n$")

    def test_idle_locks_are_counted_and_other_files_named(self):
        self.fill()
        damaged = next(self.cache.rglob("*.cubin"))
        damaged.write_bytes(b"no cubin")
        locks = sum("locks" in path.parts for path in CACHED)
        text = self.run_command("cache", "prune").stdout
        self.assertRegex(text, rf"^{re.escape(str(damaged))}: removed: [^\n]+\n"
                               rf"removed files: 1, idle locks: {locks}; bytes: \d+ before, \d+ now\n$")

    def test_what_is_somebody_elses_stays_and_is_said(self):
        self.fill()
        notes = self.cache / "v1" / "notes.txt"
        notes.write_text("mine")
        result = self.run_command("cache", "prune", code=1)
        self.assertIn(f"{notes}: not removed: no file of this cache has such a name", result.stdout)
        self.assertEqual(notes.read_text(), "mine")

    def test_sources_that_cannot_be_read_are_no_fault_of_a_cubin(self):
        self.fill()
        nowhere = {"MAXSIM_JIT_KERNEL_DIR": str(self.directory / "nowhere")}
        self.assertEqual(self.json_of("cache", "verify", environment=nowhere)["problems"], [])
        self.run_command("cache", "prune", environment=nowhere)
        self.assertEqual(self.files_of(self.cache), self.kept())

    def test_down_to_the_cap(self):
        self.fill()
        oldest, newest = sorted(self.cache.rglob("*.cubin"))
        big = 1 << 20
        other = oldest.parent / ".tmp-1-00"  # being written: counts, and stays
        other.write_bytes(bytes(big - newest.stat().st_size))
        os.utime(oldest, (1000, 1000))
        result = self.json_of("cache", "prune", environment={"MAXSIM_JIT_CACHE_LIMIT_MB": "1"})
        reasons = {file["path"]: file["reason"] for file in result["removed"] if "locks" not in file["path"]}
        self.assertEqual(list(reasons), [str(oldest)])
        self.assertIn("MAXSIM_JIT_CACHE_LIMIT_MB", reasons[str(oldest)])
        self.assertTrue(newest.exists() and other.exists())


@unittest.skipIf(why_not(), why_not())
class OtherUserTest(UserTest):
    def test_an_archive_that_root_extracts_serves_every_user(self):
        self.need_nvrtc()
        manifest = self.directory / "manifest.json"
        manifest.write_text(json.dumps(MANIFEST))
        warm = ("warm", "--manifest", manifest, "--arch", "sm_90a")
        own = self.home_of(STRANGER)
        self.json_as(STRANGER, *warm, cache=own / "cache")
        self.json_as(STRANGER, "cache", "export", own / "a.tar", cache=own / "cache")
        layer = self.directory / "layer"
        layer.mkdir(mode=0o755)
        subprocess.run(["tar", "xf", str(own / "a.tar"), "-C", str(layer)], check=True, umask=0o077)
        made = self.json_as(USER, *warm, cache=f":{layer}", environment=NO_NVRTC)
        self.assertEqual((made["counters"]["nvrtc_invocations"], made["failed"]), (0, []))
        # What a user can't read is said, and so is what can't be written.
        result = self.run_as(USER, "cache", "import", own / "a.tar", cache=self.home_of(USER) / "cache", code=1)
        self.assert_sentence(result, own / "a.tar", "Permission denied")
        result = self.run_as(USER, "cache", "export", self.directory / "a.tar", cache=f":{layer}", code=1)
        self.assert_sentence(result, self.directory / "a.tar", "Permission denied")


if __name__ == "__main__":
    main(__doc__)
