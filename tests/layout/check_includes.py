"""Includes point one way: api -> ops -> tune -> jit -> cuda -> base, store and reference beside, cli apart; text and file,
headers alone, below all.

usage: check_includes.py SOURCE_DIR
"""
import pathlib
import re
import sys

HEADERS_ALONE = {"text", "file"}  # what the command shares with the library, of whose objects it has none
ALLOWED = {
    "text": set(),
    "file": set(),
    "base": {"text"},
    "cuda": {"base", "text"},
    "store": {"base", "text", "file"},
    "reference": {"base"},
    "jit": {"cuda", "base", "store"},
    "tune": {"jit", "cuda", "base", "store", "text"},
    "ops": {"tune", "jit", "cuda", "base", "store", "reference"},
    "api": {"ops", "tune", "jit", "cuda", "base", "store", "reference", "text"},
    "cli": HEADERS_ALONE,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
FOREIGN = {  # a library that only these layers may see
    "spdlog/": {"base"},
    "CLI/": {"cli"},
}
ANGLE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)


def problems(source):
    files = [p for p in sorted((source / "src").rglob("*")) if p.suffix in (".h", ".cpp")]
    if len(files) < 20:
        yield f"only {len(files)} files found below {source}/src"
    for path in files:
        layer = path.relative_to(source / "src").parts[0]
        if layer in HEADERS_ALONE and path.suffix != ".h":
            yield f"{path}: layer {layer} has headers alone"
        text = path.read_text()
        for target in INCLUDE.findall(text):
            if target.startswith("maxsim_jit/"):
                continue
            to = target.split("/")[0]
            if "/" not in target or to not in ALLOWED:
                yield f"{path}: includes '{target}'; name it from src/, as layer/file.h"
            elif to != layer and to not in ALLOWED[layer]:
                yield f"{path}: layer {layer} includes {to}; it may include {sorted(ALLOWED[layer]) or 'nothing else'}"
        for target in ANGLE.findall(text):
            for prefix, layers in FOREIGN.items():
                if target.startswith(prefix) and layer not in layers:
                    yield f"{path}: includes <{target}>; only {sorted(layers)} may"
    for path in sorted((source / "kernels").rglob("*.cu*")):
        for target in ANGLE.findall(path.read_text()):
            yield f"{path}: includes <{target}>; kernels are self-contained"
    for path in sorted((source / "include").rglob("*.h*")):
        if "cuda" in " ".join(ANGLE.findall(path.read_text())):
            yield f"{path}: a public header includes a CUDA header"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "includes point one way")
sys.exit(1 if found else 0)
