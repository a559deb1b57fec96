#!/usr/bin/env bash
# The library's ABI against tests/layout/maxsim_jit.abi (libabigail): the public functions and the types in their header.
# usage: check_abi.sh LIBRARY INCLUDE_DIR [--update]   (--update writes the baseline, after a deliberate change)
set -euo pipefail
baseline=$(dirname "$0")/maxsim_jit.abi
command -v abidw >/dev/null || { echo 'skipped: abidw (Debian package abigail-tools) is not installed'; exit 77; }
describe() {  # describe LIBRARY INCLUDE_DIR FILE
  abidw --exported-interfaces-only --headers-dir "$2" --no-corpus-path --no-comp-dir-path --no-show-locs \
        --drop-private-types --drop-undefined-syms --out-file "$3" "$1"
}
if [ "${3:-}" = --update ]; then
  describe "$1" "$2" "$baseline"
  exit
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
describe "$1" "$2" "$scratch/now.abi"
abidiff --no-added-syms "$baseline" "$scratch/now.abi"
# A check that can't fail is none: another size of a public struct must be seen.
sed "s/\(class-decl name='msj_tensor' size-in-bits='\)[0-9]*/\1999/" "$scratch/now.abi" >"$scratch/other.abi"
if abidiff "$baseline" "$scratch/other.abi" >/dev/null; then echo 'abidiff does not see a changed struct'; exit 1; fi
echo 'the ABI is that of the baseline'
