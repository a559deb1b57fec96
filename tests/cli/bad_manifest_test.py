"""Bad manifests: one sentence that names the file and the item, what it was and what is accepted; nothing is compiled.

usage: bad_manifest_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import json
import os
import socket
import threading

from command import NO_DRIVER, NO_NVRTC, CommandTest, main

SIZES = {"Nq": 1, "Nd": 1000, "Lq": 32, "Ld": 300, "d": 64}
GOOD = {"op": "dense_forward", "sizes": SIZES, "dtype": "bf16", "features": "none"}


def but(**changes):
    """The good item with some fields changed, or left out (None)."""
    return {name: value for name, value in {**GOOD, **changes}.items() if value is not None}


def sized(**changes):
    return but(sizes={name: value for name, value in {**SIZES, **changes}.items() if value is not ...})


TEXTS = [
    (b"", "not JSON"),
    (b"   \n", "not JSON"),
    (b"op: dense_forward", "not JSON", "line 1"),
    (b'[{"op": "dense_forward"', "not JSON"),
    (b'[{"op": "dense_forward"}] more', "not JSON"),
    (b"['op']", "not JSON"),
    (b"[NaN]", "not JSON"),
    (b"[1e999]", "1e999"),
    (b'["\xff\xfe"]', "not JSON", "UTF-8"),
    (b"\xff\xfe[\0]\0", "not JSON"),  # UTF-16
    (b'[{"op": "dense_forward", "op": "x"}]', "'op' twice"),
    (b'[{"op": "dense_forward", "sizes": {"Nq": 1, "Nq": 2}}]', "'Nq' twice"),
    (b"{}", "a JSON object", "a list of"),
    (b"null", "a JSON null", "a list of"),
    (b"7", "a JSON number", "a list of"),
    (b'"dense_forward"', "a JSON string", "a list of"),
    (b'[]\0{"anything', "not JSON", "column 3 has '\\x00'", "the end of the text is accepted"),
    (b'["UTF-8 name\n"]', "not JSON", "'\\x0a', where a string needs an escape"),
    (b'{"a\\u0000b": 1, "a\\u0000b": 1}', "'a\\x00b' twice in one object; once is accepted"),
    (b"[" + b",".join([b"{}"] * 5500000) + b"]", "more than 1048576 objects, lists and names"),  # once took an hour
    (b"[" * 18 + b"]" * 18, "nested deeper than 16"),
    (b"[" * 200000 + b"]" * 200000, "nested deeper than 16"),  # once exhausted the stack of whoever walked it
]

ITEMS = [
    (7, "it is 7", "an object with op, sizes, dtype and features"),
    ([], "it is []", "an object"),
    (None, "it is null", "an object"),
    ({}, "'op' is missing"),
    (but(op=None), "'op' is missing"),
    (but(op=1), "'op' is 1", "a string"),
    (but(op="sparse"), "'op' is 'sparse'", "dense_forward"),
    (but(op=""), "''", "dense_forward"),
    (but(sizes=None), "'sizes' is missing", "Nq, Nd, Lq, Ld, d"),
    (but(sizes=[1, 2]), "'sizes' is [1,2]", "an object"),
    (but(sizes={}), "'sizes' does not name Nq", "Nq, Nd, Lq, Ld, d"),
    (but(sizes="Nq=1"), "'sizes' does not name Nd"),
    (but(dtype=None), "'dtype' is missing"),
    (but(dtype=16), "'dtype' is 16", "a string"),
    (but(dtype="int4"), "'dtype': q of dense_forward is 'int4'", "bf16"),
    (but(dtype="fp8_e4m3"), "'fp8_e4m3'", "bf16"),
    (but(dtype="q=f16,q=bf16"), "'dtype' names q twice"),
    (but(dtypes="bf16"), "'dtypes'", "op, sizes, dtype and features are accepted"),
    (but(features=3), "'features' is 3", "a list of names"),
    (but(features="sparse"), "'sparse'", "q_mask"),
    (but(features=["q_mask", "x"]), "'x'", "q_mask"),
    (but(features=["q_mask", "d_mask", "q_mask"]), "'features' names q_mask twice", "once is accepted"),
    (but(features=["q_mask", 1]), "'features' holds 1", "names of features"),
    (but(features=[["q_mask"], "d_mask"]), "mixes names and lists"),
    (but(features={"q_mask": True}), "'features' is", "a list of names"),
    (sized(Nq=...), "'sizes' does not name Nq"),
    (sized(Nq=0), "size Nq", "'0'", "an integer from 1"),
    (sized(Nq=-1), "size Nq", "'-1'", "an integer from 1"),
    (sized(Nq=1.5), "size Nq", "'1.5'", "an integer from 1"),
    (sized(Nq=1.0), "size Nq", "'1.0'", "an integer from 1"),
    (sized(Nq="1"), "size Nq", "\"1\"", "an integer from 1"),
    (sized(Nq=True), "size Nq", "'true'", "an integer from 1"),
    (sized(Nq=None), "size Nq", "'null'", "an integer from 1"),
    (sized(Nq=1 << 63), "size Nq", "'9223372036854775808'", "an integer from 1"),
    (sized(Nq=1 << 70), "size Nq", "an integer from 1"),
    (sized(d=4097), "size d", "'4097'", "from 1 to 4096"),
    (sized(d_model=1), "'d_model'", "Nq, Nd, Lq, Ld, d"),
    (but(op="a\0b"), "'op' is 'a\\x00b'; accepted: dense_forward"),
    (but(features=["a\0b"]), "'features' names 'a\\x00b'; dense_forward has"),
    (but(features="a\0b"), "'features' names 'a\\x00b'; dense_forward has"),
    (but(dtype="a\0b"), "is 'a\\x00b'; accepted: "),
    (but(**{"a\0b": 1}), "it has 'a\\x00b'; op, sizes, dtype and features are accepted"),
    (sized(**{"a\0b": 1}), "'sizes' names 'a\\x00b'; dense_forward has"),
    (but(op="x" * 5000), "…"),
    (but(**{"k" * 5000: 1}), "…"),
    (but(features=["f" * 5000]), "…"),
]


class BadManifestTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.manifest = self.directory / "manifest.json"

    def refuse(self, manifest, *parts):
        result = self.run_command("warm", "--manifest", manifest, "--arch", "sm_90a", code=1)
        self.assert_sentence(result, manifest, *parts)
        self.assertLess(len(result.stderr), 600 + len(str(manifest)))
        self.assertFalse(self.cache.exists())

    def test_texts(self):
        for text, *parts in TEXTS:
            with self.subTest(text[:60]):
                self.manifest.write_bytes(text)
                self.refuse(self.manifest, *parts)

    def test_items(self):
        for item, *parts in ITEMS:
            with self.subTest(str(item)[:80]):
                self.manifest.write_text(json.dumps([GOOD, item]))  # the first is sound: it must not be prepared either
                self.refuse(self.manifest, "item 1", *parts)

    def test_what_is_no_file(self):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.directory / "socket"))
            for path, *parts in (
                (self.directory, "a directory", "a JSON file"),
                ("/dev/zero", "device", "a JSON file"),
                (self.directory / "socket", "socket", "a JSON file"),
                (self.directory / "none.json", "No such file"),
            ):
                with self.subTest(path):
                    self.refuse(path, *parts)

    def test_one_that_lists_nothing_says_so(self):
        self.manifest.write_text("[]")
        result = self.run_command("warm", "--manifest", self.manifest, "--arch", "sm_90a")
        self.assertEqual(result.stderr, f"maxsim-jit: {self.manifest}: the manifest lists nothing to prepare\n")
        self.assertIn("prepared 0 of 0", result.stdout)

    def test_too_large(self):
        with open(self.manifest, "wb") as file:
            file.write(b"[")
            file.truncate(1 << 34)  # sparse
        self.refuse(self.manifest, "larger than 16 MiB")

    def test_a_pipe_is_read_to_its_end(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_text(json.dumps([{**GOOD, "op": "sparse"}])))
        writer.start()
        self.refuse(pipe, "item 0", "'sparse'")
        writer.join()

    def test_what_fails_for_all_is_said_once(self):
        self.manifest.write_text(json.dumps([{**GOOD, "features": "all"}]))
        result = self.run_command("warm", "--manifest", self.manifest, code=1, environment=NO_DRIVER)
        self.assertEqual(result.stderr.count("16 of 16 specializations failed"), 1)
        result = self.run_command("warm", "--manifest", self.manifest, "--arch", "sm_90a", code=1, environment=NO_NVRTC)
        self.assertEqual(result.stderr.count("16 of 16 specializations failed"), 1)
        self.assertIn("/nowhere/libnvrtc.so", result.stderr)


if __name__ == "__main__":
    main(__doc__)
