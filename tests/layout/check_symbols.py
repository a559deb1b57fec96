"""The library exports the functions of its C header and nothing else.

usage: check_symbols.py LIBRARY HEADER
"""
import pathlib
import re
import subprocess
import sys

library, header = sys.argv[1:]
table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1].split("@")[0] for line in table.splitlines()}
declared = set(re.findall(r"MSJ_API[^;]*?\b(msj_\w+)\(", pathlib.Path(header).read_text()))
needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
linked = set(re.findall(r"\(NEEDED\).*\[(.*)\]", needed))

problems = [f"exported, but not in the header: {name}" for name in sorted(exported - declared)]
problems += [f"in the header, but not exported: {name}" for name in sorted(declared - exported)]
problems += [f"linked against {name}" for name in sorted(linked) if re.match(r"lib(cuda|nvrtc|fmt|spdlog)", name)]
if len(declared) < 10:
    problems.append(f"only {len(declared)} functions found in {header}")
print("\n".join(problems) or f"{len(exported)} functions exported, all of them the header's")
sys.exit(1 if problems else 0)
