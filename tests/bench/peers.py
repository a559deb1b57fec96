#!/usr/bin/env python3
"""Matrix ceilings and other libraries' MaxSim, for `maxsim-jit bench --peers`.

usage: peers.py --json FILE [--rounds N] [--seconds N] [--quick] [--ops A,B] [--shapes A,B] [--peers torch,lik,fm]

The cases are those of src/cli/bench_shapes.json. Each peer is captured as a CUDA graph, so that Python's launch time does not count
against it, and its replays are timed with events, a cold L2 and random data. Of several ways to write MaxSim in torch
the fastest counts. lik is late-interaction-kernels, fm is flash-maxsim; one that cannot be imported is left out. A peer
that breaks the process's CUDA context is recorded as failed, and the rest goes on in a fresh process.
Exit status 77: no torch or no GPU.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

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
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "fp8_e4m3": torch.float8_e4m3fn}


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
    if dtype == torch.float8_e4m3fn:
        one = torch.ones((), device="cuda")
        run = lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    else:
        c = torch.empty(size, size, device="cuda", dtype=dtype)
        run = lambda: torch.matmul(a, b, out=c)
    milliseconds, _ = stopwatch.time(run, cold=False)
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


# ---- cases: name of a peer -> ways of it, each a function without arguments


def uniform(shape, dtype):
    values = torch.empty(shape, device="cuda", dtype=torch.bfloat16 if dtype.itemsize < 4 else dtype)
    return values.uniform_(-1, 1).to(dtype)


def dense_forward(sizes, dtype, features, libraries):
    q = uniform((sizes["Nq"], sizes["Lq"], sizes["d"]), dtype)
    d = uniform((sizes["Nd"], sizes["Ld"], sizes["d"]), dtype)
    peers = {"torch": {way.__name__: (lambda way=way: way(q, d)) for way in WAYS}}
    if "lik" in libraries:
        peers["lik"] = {"maxsim": lambda: libraries["lik"].maxsim(q, d)}
    if "fm" in libraries and dtype != torch.float32:
        peers["fm"] = {"flash_maxsim_batched": lambda: libraries["fm"].flash_maxsim_batched(q, d, shared_docs=True)}
    return peers


def fp8_forward(sizes, dtype, features, libraries):
    q = uniform((sizes["Nq"], sizes["Lq"], sizes["d"]), dtype)
    d = uniform((sizes["Nd"], sizes["Ld"], sizes["d"]), dtype)
    scale_q = torch.rand(q.shape[:2], device="cuda") + 0.5
    scale_d = torch.rand(d.shape[:2], device="cuda") + 0.5
    if "lik" not in libraries:
        return {}
    from late_interaction_kernels.fp8 import maxsim_inference_fp8
    return {"lik": {"maxsim_inference_fp8": lambda: maxsim_inference_fp8(q, d, scale_Q=scale_q, scale_D=scale_d)}}


def fused_head_forward(sizes, dtype, features, libraries):
    q = uniform((sizes["Nq"], sizes["Lq"], sizes["d_out"]), dtype)
    h = uniform((sizes["Nd"], sizes["Ld"], sizes["d_model"]), dtype)
    w = uniform((sizes["d_out"], sizes["d_model"]), dtype)

    def project():
        return torch.nn.functional.normalize(h @ w.T, dim=-1)

    peers = {"torch": {way.__name__: (lambda way=way: way(q, project())) for way in WAYS}}
    if "lik" in libraries:
        from late_interaction_kernels.fused_head import maxsim_from_hidden
        peers["lik"] = {"maxsim_from_hidden": lambda: maxsim_from_hidden(q, h, w, normalize=True)}
    return peers


def residual_forward(sizes, dtype, features, libraries):
    """Padded codes and residuals of the documents alone: no peer reads scattered ones of a larger index."""
    nd, ld, d, nbits = (sizes[name] for name in ("Nd", "Ld", "d", "nbits"))
    normalize = "normalize" in features
    q = uniform((sizes["Nq"], sizes["Lq"], d), dtype)
    codes = torch.randint(sizes["K"], (nd, ld), device="cuda", dtype=torch.int32)
    residuals = torch.randint(256, (nd, ld, (d * nbits + 7) // 8), device="cuda", dtype=torch.uint8)
    lengths = torch.full((nd,), ld, device="cuda", dtype=torch.int64)
    centroids = uniform((sizes["K"], d), dtype)
    weights = torch.linspace(-0.1, 0.1, 2**nbits, device="cuda")
    # Of every byte the weights of its features, the lowest bits first, as late-interaction-kernels reads them.
    shifts = torch.arange(0, 8, nbits, device="cuda")
    of_byte = weights.to(dtype)[torch.arange(256, device="cuda")[:, None] >> shifts & 2**nbits - 1]

    def decode():
        rows = centroids[codes.long()] + of_byte[residuals.long()].flatten(2)[..., :d]
        return torch.nn.functional.normalize(rows, dim=-1) if normalize else rows

    query = torch.nn.functional.normalize(q, dim=-1) if normalize else q  # lik normalizes it too
    peers = {"torch": {way.__name__: (lambda way=way: way(query, decode())) for way in WAYS}}
    if "lik" in libraries:
        from late_interaction_kernels.plaid import maxsim_residual
        peers["lik"] = {"maxsim_residual": lambda: maxsim_residual(q, codes, residuals, lengths, centroids, weights,
                                                                   nbits, normalize=normalize)}
    return peers


OPS = {"dense_forward": dense_forward, "fp8_forward": fp8_forward, "fused_head_forward": fused_head_forward,
       "residual_forward": residual_forward}


def imported(wanted):
    libraries = {}
    for name, module in {"lik": "late_interaction_kernels", "fm": "flash_maxsim"}.items():
        if name in wanted:
            try:
                libraries[name] = __import__(module)
            except ImportError:
                print(f"left out: {module} cannot be imported")
    return libraries


class ContextLost(Exception):
    """No call of this process can succeed any more."""


def one_line(error):
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def time_peer(stopwatch, ways, first, lost):
    """{"ms", "how", "ways"} of the fastest way; `first` holds the scores that all are compared with.

    Ways in `lost` are known to break the context; one that does so now is added and ends it all."""
    timed, failed = {}, {}
    for name, way in ways.items():
        if name in lost:
            failed[name] = {"error": lost[name]}
            continue
        try:
            began = time.monotonic()
            graph, result = captured(way)
            ready = time.monotonic() - began
            median, deviation = stopwatch.time(graph.replay)
            first.setdefault("scores", result.float().clone())
            apart = (result.float() - first["scores"]).abs().max().item() / max(first["scores"].abs().max().item(), 1e-30)
            timed[name] = {"ms": median, "deviation": deviation, "apart": apart, "first_call_seconds": ready}
            del graph, result
        except Exception as error:  # out of memory, what no graph can capture, what another library throws
            failed[name] = {"error": one_line(error)}
            try:
                torch.cuda.synchronize()
            except Exception:
                lost[name] = one_line(error)
                raise ContextLost from error
        torch.cuda.empty_cache()
    if not timed:
        return {"ways": failed}
    best = min(timed, key=lambda name: timed[name]["ms"])
    return {"ms": timed[best]["ms"], "how": best, "ways": timed | failed}


def cases(document, ops, shapes, quick):
    for case in document["cases"]:
        if case["features"] == "all" or (ops and case["op"] not in ops):
            continue
        for shape, sizes in document["groups"][case["group"]].items():
            if "only" in case and shape not in case["only"]:
                continue
            if (shapes and shape not in shapes) or (quick and shape not in document["quick"]):
                continue
            yield case, shape, sizes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no other case after this")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--go-on", action="store_true", help="with the cases that FILE does not have yet")
    for name in ("--ops", "--shapes"):
        parser.add_argument(name, type=lambda text: text.split(","), default=[])
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["torch", "lik", "fm"])
    options = parser.parse_args()
    begin = time.monotonic()
    stopwatch = Stopwatch(options.rounds)
    libraries = imported(options.peers)
    document = {"schema": "maxsim-jit/peers/2", "torch": torch.__version__,
                "device": torch.cuda.get_device_name(0), "ceilings": {}, "cases": {}, "lost": {}}

    def save():
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")

    if options.go_on:
        document = json.loads(pathlib.Path(options.json).read_text())
    for name, dtype in DTYPES.items():
        if name in document["ceilings"]:
            continue
        document["ceilings"][name] = matrix_rate(stopwatch, dtype)
        print(f"matrix product 8192^3 {name}: {document['ceilings'][name]:.1f} TFLOP/s", flush=True)
    save()
    shapes = json.loads((pathlib.Path(__file__).parents[2] / "src/cli/bench_shapes.json").read_text())
    for case, shape, sizes in cases(shapes, options.ops, options.shapes, options.quick):
        if time.monotonic() - begin > options.seconds:
            print("stopped: out of time")
            return 1
        key = f"{case['op']} {shape} {case['dtype']}"
        if key in document["cases"]:
            continue
        first = {}
        lost = document["lost"].setdefault(key, {})
        found = {"features": " ".join(case["features"])}
        peers = OPS[case["op"]](sizes, DTYPES[case["dtype"]], case["features"], libraries)
        for peer, ways in peers.items():
            if peer in options.peers:
                try:
                    found[peer] = time_peer(stopwatch, ways, first, lost.setdefault(peer, {}))
                except ContextLost as error:
                    print(f"{key}: {peer} broke the CUDA context: {one_line(error.__cause__)}", flush=True)
                    save()
                    left = max(0.0, options.seconds - (time.monotonic() - begin))
                    os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:], "--seconds", str(left), "--go-on"])
        del peers
        torch.cuda.empty_cache()
        document["cases"][key] = found
        print(key, {peer: (f"{row['ms']:.4f}" if "ms" in row else row) for peer, row in found.items()
                    if peer != "features"}, flush=True)
        save()
    return 0


if __name__ == "__main__":
    with torch.inference_mode():
        sys.exit(main())
