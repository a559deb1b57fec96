#!/usr/bin/env bash
# tests/fuzz/run.sh SECONDS [TARGET…]   fuzzes each target (all five) for SECONDS, one after the other
# tests/fuzz/run.sh keep [TARGET…]      puts what was found into the kept corpus, as few files as cover the same edges
#
# Builds build/fuzz with clang. What is found grows in build/fuzz/found/TARGET, a crash is build/fuzz/crashes/TARGET-*.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-}
if [[ ! $what =~ ^([1-9][0-9]*|keep)$ ]]; then sed -n '2,5s/^# \?//p' "$0" >&2; exit 2; fi
shift
targets=("$@")
[ $# -gt 0 ] || targets=(npy manifest entry cubin tar)

if ! command -v clang++ >/dev/null; then echo 'run.sh: no clang++; install clang' >&2; exit 1; fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz >&2

status=0
mkdir -p build/fuzz/crashes
for target in "${targets[@]}"; do
  fuzzer=build/fuzz/tests/fuzz/msj_${target}_fuzz
  kept=tests/fuzz/corpus/$target
  found=build/fuzz/found/$target
  log=build/fuzz/$target.log
  mkdir -p "$found" "$kept"
  if [ "$what" = keep ]; then
    chosen=$(mktemp -d) smallest=$(mktemp -d)
    cp "$kept"/* "$chosen"
    find "$found" -type f -size -600c -exec cp -t "$chosen" {} +
    # Edges alone: with libFuzzer's counters of how often each is taken, the corpora would be ten times as large.
    "$fuzzer" -set_cover_merge=1 -use_counters=0 "$smallest" "$chosen" >"$log" 2>&1
    for sample in "$kept"/sample-*; do [ ! -e "$sample" ] || cp "$sample" "$smallest"; done  # made by the real writers
    rm -rf "$chosen"
    rm -rf "$kept"
    mv "$smallest" "$kept"
    chmod 755 "$kept"
    echo "$target: $(find "$kept" -type f | wc -l) files, $(du -sb --apparent-size "$kept" | cut -f1) bytes"
    continue
  fi
  if ! "$fuzzer" -max_total_time="$what" -max_len=8192 -timeout=10 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/crashes/$target-" "$found" "$kept" >"$log" 2>&1; then
    echo "$target: CRASH; see $log and build/fuzz/crashes" >&2
    status=1
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
  echo "$target: ${executions:-?} executions, ${rate:-?} a second, ${edges:-cov: ?}"
done
exit $status
