#!/usr/bin/env bash
# Everything that needs a GPU, in one command: builds, runs the GPU tests, compute-sanitizer over small problems on every
# candidate, the benchmark with its peers, and `warm` from an empty cache.
#
#   tests/gpu_check.sh OUTDIR [--quick] [--steps build,tests,sanitizer,bench,warm,start] [--seconds N]
#
# Raw figures go to OUTDIR: build.log tests.log memcheck.log racecheck.log bench.log bench.json command.json bench.svg
# tuned.tar.gz summary.txt.
# Every step has its own time limit and a failed one does not stop the next; the whole ends within N seconds (570). The
# last lines are one PASS, FAIL or SKIP for each step. Exit status: 0 if none failed, 77 if there is no GPU.
set -uo pipefail

usage() { sed -n '5s/^#   //p' "$0" >&2; exit 2; }

[ $# -ge 1 ] || usage
case $1 in -*) usage ;; esac
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit 2

quick=0 steps=build,tests,sanitizer,bench,warm,start total=570
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1 ;;
    --steps) steps=${2:?}; shift ;;
    --seconds) total=${2:?}; shift ;;
    *) usage ;;
  esac
  shift
done

build=build/gpu
bin=$build/tests
summary=$out/summary.txt
: >"$summary"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
chmod 700 "$cache"
umask 077

# ---- steps ------------------------------------------------------------------------------------------------------------

failures=0
# step NAME LIMIT LOG COMMAND...: runs it for at most LIMIT seconds and for no longer than the whole may take.
step() {
  local name=$1 limit=$2 log=$3 status=0 began left word
  shift 3
  left=$((total - SECONDS - 5))
  if [ "$left" -lt 10 ]; then
    echo "FAIL  $name: no time was left for it" | tee -a "$summary"
    failures=$((failures + 1))
    return 1
  fi
  [ "$limit" -le "$left" ] || limit=$left
  began=$SECONDS
  echo "== $name (at most $limit s)"
  timeout --kill-after=5 "$limit" "$@" >>"$log" 2>&1 || status=$?
  case $status in
    0) word=PASS ;;
    77) word=SKIP ;;
    124 | 137) word="FAIL (out of time)" ;;
    *) word="FAIL (exit status $status)" ;;
  esac
  case $word in FAIL*) failures=$((failures + 1)) ;; esac
  echo "$word  $name: $((SECONDS - began)) s" | tee -a "$summary"
  return "$status"
}

wanted() { case ",$steps," in *",$1,"*) return 0 ;; *) return 1 ;; esac }

# Lines of a log that a reader wants first.
show() { grep -aE "$2" "$1" 2>/dev/null | cut -c1-220 | head -n "${3:-60}" | tee -a "$summary"; }

find_toolkit() {
  local root
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /x/x)")")")" \
    /usr/local/cuda; do
    if [ -e "$root/include/cuda.h" ]; then export CUDA_HOME=$root; break; fi
  done
  # Where the loader knows no libnvrtc, PyTorch's will do.
  if [ -z "${MAXSIM_JIT_LIBNVRTC:-}" ] && ! ldconfig -p | grep -q 'libnvrtc\.so' &&
    ! ls "${CUDA_HOME:-/x}"/lib64/libnvrtc.so* >/dev/null 2>&1; then
    local found
    found=$(python3 -c 'import glob, site
print(next((f for p in site.getsitepackages() for f in sorted(glob.glob(p + "/nvidia/**/libnvrtc.so.1*", recursive=True))), ""))')
    [ -z "$found" ] || export MAXSIM_JIT_LIBNVRTC=$found
  fi
}

configure_and_build() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$build" --target msj_gpu_tests msj_bench msj_start maxsim_jit_command
}

run_tests() {  # run_tests JOBS [ctest's options]
  local jobs=$1
  shift
  (cd "$build" && ctest -L '^gpu$' --output-on-failure --no-tests=error -V -j "$jobs" "$@")
}

# The kernels, their candidates and every feature set once without the sanitizer, which compiles them. racecheck follows
# a barrier in shared memory by who arrives at it: it looks at kernels in which every lane does.
racecheck_kernels() {
  cp -r kernels "$cache/kernels" &&
    sed -i 's/^constexpr int arriving_lanes = 1;/constexpr int arriving_lanes = 32;/' "$cache/kernels/common/hopper/mbarrier.cuh" &&
    grep -q 'arriving_lanes = 32;' "$cache/kernels/common/hopper/mbarrier.cuh"
}
sanitize() {  # sanitize TOOL SECONDS, of each of the two files
  [ "$1" != racecheck ] || export MAXSIM_JIT_KERNEL_DIR=$cache/kernels
  MSJ_GPU_SECONDS=$2 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 \
    "$bin/msj_gpu_tests" --source-file='*sanitizer_test.cpp'
}

warm() {
  local tool=$build/src/maxsim-jit began
  for pass in first second; do
    began=$(date +%s.%N)
    MAXSIM_JIT_CACHE_DIR=$cache/warm "$tool" warm --op dense_forward --sizes Nq=1,Nd=1000,Lq=32,Ld=300,d=128 \
      --dtype bf16 --features all --json >"$cache/warm.json" || return 1
    python3 - "$pass" "$began" "$(date +%s.%N)" "$cache/warm.json" <<'PYTHON' || return 1
import json, sys
which, began, ended, file = sys.argv[1:]
report = json.load(open(file))
flat = {key: value for key, value in report.items() if isinstance(value, (int, float))}
flat.update({key: value for key, value in report.get("counters", {}).items()})
print(f"warm {which}: {float(ended) - float(began):.2f} s of the process;", ", ".join(f"{k} {v}" for k, v in flat.items()))
PYTHON
  done
}

# Process start to first score: on nothing, on what that run left, and on a cache baked for this architecture, read-only
# below an empty one, where NVRTC can't be found.
start() {
  local program=$bin/msj_start run
  export MAXSIM_JIT_CACHE_DIR=$cache/start
  echo "empty cache:"
  "$program" || return 1
  for run in 1 2 3; do echo "tuned cache, run $run:" && "$program" || return 1; done
  MAXSIM_JIT_CACHE_DIR=$cache/baked "$build/src/maxsim-jit" warm --arch sm_90a --op dense_forward --dtype fp16 \
    --sizes Nq=1,Nd=1000,Lq=32,Ld=300,d=128 --features none --json >/dev/null || return 1
  MAXSIM_JIT_CACHE_DIR=$cache/baked "$build/src/maxsim-jit" warm --arch sm_90a --op dense_forward --dtype fp16 \
    --sizes Nq=8,Nd=64,Lq=20,Ld=96,d=128 --features q_mask,d_mask --json >/dev/null || return 1
  export MAXSIM_JIT_CACHE_DIR=$cache/fresh:$cache/baked MAXSIM_JIT_TUNE=cached MAXSIM_JIT_LIBNVRTC=$cache/nowhere.so
  for run in 1 2 3; do echo "baked cache, no NVRTC, run $run:" && "$program" || return 1; done
  baked_scores
}

# The real-text fixture from a baked cache without NVRTC: the CPU's scores, no compile, no sweep.
baked_scores() {
  local tool=$build/src/maxsim-jit data=tests/data
  local files=(--q $data/q_emb.npy --q-mask $data/q_mask.npy --d $data/d_emb.npy --d-mask $data/d_mask.npy --json)
  "$tool" score "${files[@]}" --device cuda >"$cache/baked.json" || return 1
  "$tool" score "${files[@]}" --device cpu >"$cache/cpu.json" || return 1
  python3 - "$cache/baked.json" "$cache/cpu.json" <<'PYTHON'
import json, sys
ours, cpu = (json.load(open(file)) for file in sys.argv[1:])
flat = lambda values: [x for row in values for x in row]
worst = max(abs(a - b) for a, b in zip(flat(ours["scores"]), flat(cpu["scores"])))
counters = ours["counters"]
print("baked scores: worst difference from the CPU", worst, {k: counters[k] for k in ("nvrtc_invocations", "sweeps", "launches")})
sys.exit(worst > 1e-4 or counters["nvrtc_invocations"] != 0 or counters["sweeps"] != 0 or counters["launches"] != 1)
PYTHON
}

# The command's own figures beside msj_bench's, which launches through plans: each case of both, and no ceiling passed.
bench_command() {
  local peers=()
  [ ! -f "$cache/peers.json" ] || peers=(--peers "$cache/peers.json")
  [ -f "$out/bench.json" ] || echo '{"rows": []}' >"$out/bench.json"
  "$build/src/maxsim-jit" bench --quick "${peers[@]}" --seconds 60 --json --svg "$out/bench.svg" >"$out/command.json" ||
    return 1
  python3 - "$out/command.json" "$out/bench.json" <<'PYTHON'
import json, sys
command, bench = (json.load(open(file)) for file in sys.argv[1:])
case = lambda row, features: (row["op"], row["shape"], row["dtype"], features)
theirs = {case(row, row["features"]): row for row in bench["rows"]}
wrong = not command["rows"]
for row in command["rows"]:
    other = theirs.get(case(row, " ".join(row["features"])), {})
    print("command:", row["op"], row["shape"], row["dtype"], len(row["features"]), "features:", row["time_ms"], "ms, msj_bench",
          other.get("time_ms"), "ms; read", row["read_ms"], other.get("read_ms"), "; of floor", row["efficiency"])
    wrong |= not 0 < row["read_ms"] or not 0 < row["least_efficiency"] < 1.1
print("command: read", command["read_terabytes_per_second"], "TB/s; failed", command["failed"])
sys.exit(wrong)
PYTHON
}

pack_entries() { tar -C "$cache" -czf "$out/tuned.tar.gz" --exclude=cubins --exclude=locks tuned 2>/dev/null; }

export -f configure_and_build run_tests sanitize warm start baked_scores bench_command
export build bin cache out

# ---- all of them ------------------------------------------------------------------------------------------------------

find_toolkit
export MSJ_GPU_CACHE=$cache MSJ_GPU_QUICK=$quick
options=()
[ "$quick" -eq 0 ] || options=(--quick)

{
  date -u +%Y-%m-%dT%H:%M:%SZ
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
  "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version 2>/dev/null | tail -n 2 | head -n 1
  g++ --version | head -n 1
} | tee -a "$summary"

if wanted build; then
  : >"$out/build.log"
  step build 240 "$out/build.log" bash -c configure_and_build || { tail -n 40 "$out/build.log"; exit 1; }
fi

if absence=$("$bin/msj_gpu_tests" --count 2>&1); [ $? -eq 77 ]; then
  echo "$absence" | tee -a "$summary"
  exit 77
fi

if wanted tests; then
  : >"$out/tests.log"
  # Those that time candidates have the GPU to themselves.
  step 'tests that time nothing' 330 "$out/tests.log" bash -c 'run_tests 15 -E "gpu/.*(sweep|counting)"'
  step 'tests that sweep' 240 "$out/tests.log" bash -c 'run_tests 1 -R "gpu/.*(sweep|counting)"'
  show "$out/tests.log" '(oracle|parity|exact|fp8|fused|quantize|residual|residual_norms|large|fixture|configs|counting|streams|sanitizer|host_memory): |winner|distinct' 80
  show "$out/tests.log" 'ERROR:|tests passed|tests failed|\*\*\*|skipped:' 40
  pack_entries
fi

if wanted sanitizer; then
  if command -v compute-sanitizer >/dev/null; then
    : >"$out/memcheck.log"
    : >"$out/racecheck.log"
    racecheck_kernels
    step 'sanitizer problems, plain' 60 "$out/memcheck.log" "$bin/msj_gpu_tests" --source-file='*sanitizer_test.cpp'
    step 'the same, every lane arriving' 60 "$out/racecheck.log" env MAXSIM_JIT_KERNEL_DIR="$cache/kernels" \
      "$bin/msj_gpu_tests" --source-file='*sanitizer_test.cpp'
    # Both at once: most of their time is the host's. A subshell's failures are counted below.
    (step memcheck 160 "$out/memcheck.log" bash -c 'sanitize memcheck 70') &
    memcheck=$!
    (step racecheck 260 "$out/racecheck.log" bash -c 'sanitize racecheck 110') &
    racecheck=$!
    for job in $memcheck $racecheck; do
      wait "$job" || { [ $? -eq 77 ] || failures=$((failures + 1)); }
    done
    show "$out/memcheck.log" 'problems launched|ERROR SUMMARY|RACECHECK SUMMARY|skipped:' 8
    show "$out/racecheck.log" 'problems launched|ERROR SUMMARY|RACECHECK SUMMARY|skipped:' 8
  else
    echo 'FAIL  sanitizer: compute-sanitizer is not there' | tee -a "$summary"
    failures=$((failures + 1))
  fi
fi

if wanted bench; then
  : >"$out/bench.log"
  step peers 110 "$out/bench.log" python3 tests/bench/peers.py --json "$cache/peers.json" --seconds 85 "${options[@]}"
  step bench 120 "$out/bench.log" env MAXSIM_JIT_CACHE_DIR="$cache/tuned" "$bin/msj_bench" --peers "$cache/peers.json" \
    --json "$out/bench.json" --seconds 90 "${options[@]}"
  step 'bench of the command' 75 "$out/bench.log" env MAXSIM_JIT_CACHE_DIR="$cache/tuned" bash -c bench_command
  show "$out/bench.log" 'ms|TFLOP|%|shape|skipped:' 80
  pack_entries
fi

if wanted warm; then
  : >"$cache/warm.log"
  step warm 60 "$cache/warm.log" bash -c warm
  show "$cache/warm.log" . 8
fi

if wanted start; then
  : >"$cache/start.log"
  step start 60 "$cache/start.log" bash -c start
  show "$cache/start.log" . 30
fi

echo
grep -aE '^(PASS|FAIL|SKIP)' "$summary"
exit $((failures > 0))
