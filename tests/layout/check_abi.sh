#!/usr/bin/env bash
# The library's ABI against tests/layout/maxsim_jit.abi (libabigail).
# usage: check_abi.sh LIBRARY INCLUDE_DIR [--update]   (--update writes the baseline, after a deliberate change)
set -euo pipefail
baseline=$(dirname "$0")/maxsim_jit.abi
command -v abidiff >/dev/null || { echo 'skipped: abidiff (Debian package abigail-tools) is not installed'; exit 77; }
if [ "${3:-}" = --update ]; then
  abidw --exported-interfaces-only --headers-dir "$2" --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types \
        --drop-undefined-syms --out-file "$baseline" "$1"
  exit
fi
abidiff --exported-interfaces-only --no-added-syms --headers-dir2 "$2" --drop-private-types "$baseline" "$1"
echo 'the ABI is that of the baseline'
