#!/usr/bin/env python3
"""Matrix ceilings and torch's own MaxSim, for msj_bench to join (DESIGN section 8).

usage: peers.py --json FILE [--rounds N] [--seconds N] [--quick]

Each peer is captured as a CUDA graph, so that Python's launch time does not count against it, and its replays are timed
with events, a cold L2 and random data. Of several ways to write MaxSim in torch the fastest counts.
Exit status 77: no torch or no GPU.
"""
import argparse
import json
import statistics
import sys
import time

SHAPES = {  # name: Nq, Nd, Lq, Ld, d; those of shapes.h
    "rerank-1k": (1, 1_000, 32, 300, 128),
    "rerank-10k": (1, 10_000, 32, 300, 128),
    "rerank-100k": (1, 100_000, 32, 300, 128),
    "rerank-long": (1, 1_000, 32, 4_096, 128),
    "colpali": (1, 1_000, 1_024, 1_024, 128),
    "batch32-10k": (32, 10_000, 32, 300, 128),
    "train-128": (128, 128, 32, 300, 128),
    "train-32-1k": (32, 32, 32, 1_024, 128),
    "colpali-train": (16, 16, 1_024, 1_024, 128),
    "edge-d48": (1, 16_000, 32, 512, 48),
    "d768": (1, 4_000, 32, 300, 768),
    "colqwen-320": (1, 1_000, 32, 747, 320),
}
CASES = (
    [(name, "bf16") for name in SHAPES]
    + [(name, "f32") for name in ("rerank-10k", "colpali", "batch32-10k", "train-128")]
    + [(name, "f16") for name in ("rerank-10k", "rerank-long", "colpali")]
)
CHUNK_BYTES = 32 << 20  # of intermediate scores: they stay in the L2 cache


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError:
    skip("no torch")
if not torch.cuda.is_available():
    skip("no GPU: torch sees none")

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.set_float32_matmul_precision("highest")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Stopwatch:
    def __init__(self, rounds):
        self.rounds = rounds
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.empty(max(2 * cache, 64 << 20), dtype=torch.uint8, device="cuda")

    def time(self, run, cold=True):
        """Median and relative deviation of `run` in milliseconds."""
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                 for _ in range(self.rounds + 3)]
        for start, stop in pairs:
            if cold:
                self.flush.zero_()
            start.record()
            run()
            stop.record()
        torch.cuda.synchronize()
        times = [start.elapsed_time(stop) for start, stop in pairs[3:]]
        median = statistics.median(times)
        return median, statistics.median(abs(t - median) for t in times) / median


def captured(run):
    """A graph of `run`, after warm-up on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


def matrix_rate(stopwatch, dtype, size=8192):
    a = torch.randn(size, size, device="cuda").to(dtype)
    b = torch.randn(size, size, device="cuda").to(dtype)
    c = torch.empty(size, size, device="cuda", dtype=dtype)
    milliseconds, _ = stopwatch.time(lambda: torch.matmul(a, b, out=c), cold=False)
    return 2 * size**3 / milliseconds / 1e9


# ---- MaxSim in torch: [Nq, Lq, d] and [Nd, Ld, d] -> [Nq, Nd] ----


def tall_product(q, d):
    """One product of all document tokens with all query tokens."""
    nq, lq, width = q.shape
    nd, ld, _ = d.shape
    scores = d.reshape(nd * ld, width) @ q.reshape(nq * lq, width).T
    return scores.view(nd, ld, nq, lq).amax(1).sum(-1, dtype=torch.float32).T


def batched_product(q, d):
    """A product a document, its tokens innermost."""
    nq, lq, width = q.shape
    scores = torch.matmul(q.reshape(1, nq * lq, width), d.transpose(1, 2))
    return scores.amax(-1).view(d.shape[0], nq, lq).sum(-1, dtype=torch.float32).T


def einsum(q, d):
    return torch.einsum("isd,jtd->ijst", q, d).amax(-1).sum(-1, dtype=torch.float32)


def chunked(q, d):
    """tall_product on a few documents at a time."""
    bytes_per_document = d.shape[1] * q.shape[0] * q.shape[1] * d.element_size()
    step = max(1, CHUNK_BYTES // bytes_per_document)
    return torch.cat([tall_product(q, part) for part in d.split(step)], dim=1)


WAYS = (tall_product, batched_product, einsum, chunked)


def time_case(stopwatch, name, dtype):
    nq, nd, lq, ld, width = SHAPES[name]
    q = (torch.rand(nq, lq, width, device="cuda") * 2 - 1).to(dtype)
    d = torch.empty(nd, ld, width, device="cuda", dtype=dtype).uniform_(-1, 1)
    ways, first = {}, None
    for way in WAYS:
        try:
            graph, result = captured(lambda: way(q, d))
            median, deviation = stopwatch.time(graph.replay)
            if first is None:
                first = result.float().clone()
            apart = (result.float() - first).abs().max().item() / max(first.abs().max().item(), 1e-30)
            ways[way.__name__] = {"ms": median, "deviation": deviation, "apart": apart}
            del graph, result
        except RuntimeError as error:  # out of memory, or an op that no graph can capture
            ways[way.__name__] = {"error": str(error).splitlines()[0]}
            torch.cuda.synchronize()
        torch.cuda.empty_cache()
    timed = {way: found for way, found in ways.items() if "ms" in found}
    if not timed:
        return {"ways": ways}
    best = min(timed, key=lambda way: timed[way]["ms"])
    return {"ms": timed[best]["ms"], "how": best, "ways": ways}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no other case after this")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    begin = time.monotonic()
    stopwatch = Stopwatch(options.rounds)
    document = {"schema": "maxsim-jit/peers/1", "torch": torch.__version__,
                "device": torch.cuda.get_device_name(0), "ceilings": {}, "shapes": {}}

    def save():
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")

    for name, dtype in DTYPES.items():
        document["ceilings"][name] = matrix_rate(stopwatch, dtype)
        print(f"matrix product 8192^3 {name}: {document['ceilings'][name]:.1f} TFLOP/s", flush=True)
    save()
    for name, dtype in CASES[:2] if options.quick else CASES:
        if time.monotonic() - begin > options.seconds:
            print("stopped: out of time")
            return 1
        found = time_case(stopwatch, name, DTYPES[dtype])
        document["shapes"][f"{name} {dtype}"] = found
        print(f"torch {name} {dtype}: {found.get('ms', float('nan')):.4f} ms ({found.get('how')})", flush=True)
        save()
    return 0


if __name__ == "__main__":
    with torch.inference_mode():
        sys.exit(main())
