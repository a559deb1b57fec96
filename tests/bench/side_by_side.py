#!/usr/bin/env python3
"""Every feature set once in one shape, from an empty cache: this library beside late-interaction-kernels.

usage: side_by_side.py --tool MAXSIM_JIT --json FILE [--ops A,B] [--ours-only]

For each op: sweeps, compiles and seconds over the feature sets that both libraries have, again in a second process; this
library also over all of its sets. Then the scores of both on identical inputs against float64.
Exit status 77: no torch, no GPU or no late-interaction-kernels.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# Shape of each op, the features that both have, and those of ours alone. In buckets for which no entry is shipped.
OPS = {
    "dense_forward": {"sizes": {"Nq": 1, "Nd": 1000, "Lq": 32, "Ld": 300, "d": 128}, "dtype": "fp16",
                      "both": ["q_mask", "d_mask", "normalize", "save_argmax"]},
    "fp8_forward": {"sizes": {"Nq": 2, "Nd": 1000, "Lq": 32, "Ld": 300, "d": 128}, "dtype": "fp8_e4m3",
                    "both": ["q_mask", "d_mask", "scale_q_per_token", "scale_d_per_token"]},
    "fused_head_forward": {"sizes": {"Nq": 1, "Nd": 256, "Lq": 32, "Ld": 1024, "d_out": 128, "d_model": 768},
                           "dtype": "fp16", "both": ["bias", "d_mask", "normalize", "save_argmax"]},
    "residual_forward": {"sizes": {"Nq": 2, "Nd": 1000, "Lq": 32, "Ld": 300, "N": 300000, "K": 65536, "d": 128,
                                   "nbits": 2},
                         "dtype": "fp16", "both": ["normalize", "save_argmax"]},
}


def subsets(features):
    return [list(chosen) for n in range(len(features) + 1) for chosen in itertools.combinations(features, n)]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


# ---- this library: the command's warm, twice


def warm(tool, cache, arguments):
    began = time.monotonic()
    run = subprocess.run([tool, "warm", *arguments, "--json"], capture_output=True, text=True, check=True,
                         env=os.environ | {"MAXSIM_JIT_CACHE_DIR": cache})
    report = json.loads(run.stdout)
    counters = report.get("counters", report)
    return {"seconds": time.monotonic() - began, "sweeps": counters["sweeps"],
            "compiles": counters["nvrtc_invocations"], "entries": report.get("entries")}


def ours(tool, op, features):
    row = OPS[op]
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o700)
        manifest = pathlib.Path(scratch) / "manifest.json"
        manifest.write_text(json.dumps([{"op": op, "sizes": row["sizes"], "dtype": row["dtype"], "features": chosen}
                                        for chosen in subsets(features)]))
        sizes = ",".join(f"{name}={value}" for name, value in row["sizes"].items())
        every = ["--op", op, "--sizes", sizes, "--dtype", row["dtype"], "--features", "all"]
        for name, arguments in {"both": ["--manifest", str(manifest)], "all": every}.items():
            cache = f"{scratch}/{name}"
            result[name] = [warm(tool, cache, arguments), warm(tool, cache, arguments)]
    return result


# ---- late-interaction-kernels: a process for each pass over its sets


def inputs(op, torch):
    torch.manual_seed(7)
    sizes = OPS[op]["sizes"]
    normalized = lambda *shape: torch.nn.functional.normalize(torch.randn(*shape, device="cuda"), dim=-1)
    keep = lambda *shape: torch.rand(*shape, device="cuda") < 0.9
    tensors = {"q_mask": keep(sizes["Nq"], sizes["Lq"]), "d_mask": keep(sizes["Nd"], sizes["Ld"])}
    if op == "fused_head_forward":
        tensors["q"] = normalized(sizes["Nq"], sizes["Lq"], sizes["d_out"]).half()
        tensors["h"] = torch.randn(sizes["Nd"], sizes["Ld"], sizes["d_model"], device="cuda").half()
        tensors["w"] = (torch.randn(sizes["d_out"], sizes["d_model"], device="cuda") / 28).half()
        tensors["bias"] = torch.randn(sizes["d_out"], device="cuda").half()
        return tensors
    if op == "residual_forward":
        documents = (sizes["Nd"], sizes["Ld"])
        row_bytes = sizes["d"] * sizes["nbits"] // 8
        return {"q": normalized(sizes["Nq"], sizes["Lq"], sizes["d"]).half(),
                "codes": torch.randint(sizes["K"], documents, device="cuda", dtype=torch.int32),
                "residuals": torch.randint(256, (*documents, row_bytes), device="cuda", dtype=torch.uint8),
                "d_lengths": torch.full(documents[:1], sizes["Ld"], device="cuda", dtype=torch.int32),
                "d_starts": torch.arange(sizes["Nd"], device="cuda") * sizes["Ld"],
                "centroids": normalized(sizes["K"], sizes["d"]).half(),
                "bucket_weights": torch.linspace(-0.05, 0.05, 2**sizes["nbits"], device="cuda").half()}
    q, d = normalized(sizes["Nq"], sizes["Lq"], sizes["d"]), normalized(sizes["Nd"], sizes["Ld"], sizes["d"])
    if op == "dense_forward":
        return tensors | {"q": q.half(), "d": d.half()}
    from late_interaction_kernels.fp8 import quantize_fp8_per_tensor, quantize_fp8_per_token
    for name, x in (("q", q), ("d", d)):
        tensors[name], tensors[f"scale_{name}"] = quantize_fp8_per_token(x)
        _, tensors[f"single_{name}"] = quantize_fp8_per_tensor(x)
    return tensors


def lik_call(op, t, chosen):
    has = lambda feature: feature in chosen
    if op == "dense_forward":
        from late_interaction_kernels.forward import maxsim_forward
        return maxsim_forward(t["q"], t["d"], t["q_mask"] if has("q_mask") else None,
                              t["d_mask"] if has("d_mask") else None, save_argmax=has("save_argmax"),
                              normalize=has("normalize"))[0]
    if op == "fp8_forward":
        from late_interaction_kernels.fp8 import maxsim_inference_fp8
        scale = lambda name: t[f"scale_{name}"] if has(f"scale_{name}_per_token") else t[f"single_{name}"]
        return maxsim_inference_fp8(t["q"], t["d"], scale_Q=scale("q"), scale_D=scale("d"),
                                    q_mask=t["q_mask"] if has("q_mask") else None,
                                    d_mask=t["d_mask"] if has("d_mask") else None)
    if op == "residual_forward":
        from late_interaction_kernels.plaid import _maxsim_residual_forward
        return _maxsim_residual_forward(t["q"], t["codes"], t["residuals"], t["d_lengths"], t["centroids"],
                                        t["bucket_weights"], OPS[op]["sizes"]["nbits"], has("normalize"),
                                        has("save_argmax"))[0]
    import torch
    from late_interaction_kernels.fused_head import _fused_head_forward
    return _fused_head_forward(t["q"], t["h"], t["w"], t["bias"] if has("bias") else None,
                               t["d_mask"].to(torch.int8) if has("d_mask") else None, has("normalize"),
                               save_argmax=has("save_argmax"))[0]


def lik_pass(op):
    """In a process of its own: all sets once; prints one JSON object."""
    import torch
    from late_interaction_kernels import forward, fp8, fused_head, plaid
    kernel = {"dense_forward": forward._maxsim_fwd_kernel, "fp8_forward": fp8._maxsim_fp8_fwd_kernel,
              "fused_head_forward": fused_head._fused_head_fwd_kernel,
              "residual_forward": plaid._maxsim_residual_kernel}[op]
    tensors = inputs(op, torch)
    torch.cuda.synchronize()
    began = time.monotonic()
    for chosen in subsets(OPS[op]["both"]):
        lik_call(op, tensors, chosen)
    torch.cuda.synchronize()
    print(json.dumps({"seconds": time.monotonic() - began, "entries": len(kernel.cache),
                      "winners": len({str(config) for config in kernel.cache.values()})}))


def lik(op):
    with tempfile.TemporaryDirectory() as cache:
        rows = []
        for _ in range(2):
            began = time.monotonic()
            run = subprocess.run([sys.executable, __file__, "--lik-pass", op], capture_output=True, text=True,
                                 env=os.environ | {"TRITON_CACHE_DIR": cache})
            if run.returncode != 0:
                return {"error": run.stderr.strip().splitlines()[-1]}
            rows.append(json.loads(run.stdout.splitlines()[-1]) | {"process_seconds": time.monotonic() - began})
        return rows


# ---- scores of both on identical inputs


def float64_scores(op, t, chosen):
    import torch
    if op == "fused_head_forward":
        d = t["h"].double() @ t["w"].double().T
        if "bias" in chosen:
            d = d + t["bias"].double()
        if "normalize" in chosen:
            d = torch.nn.functional.normalize(d, dim=-1, eps=1e-12)
        d, q = d.half().double(), t["q"].double()
    elif op == "residual_forward":
        nbits = OPS[op]["sizes"]["nbits"]
        shifts = torch.arange(0, 8, nbits, device="cuda")
        indices = (t["residuals"].long()[..., None] >> shifts & 2**nbits - 1).flatten(2)
        q, d = t["q"].double(), t["centroids"].double()[t["codes"].long()] + t["bucket_weights"].double()[indices]
        if "normalize" in chosen:  # Q has length 1 to its rounding; lik normalizes it again, we take it as it is
            d = torch.nn.functional.normalize(d, dim=-1, eps=1e-12)
    elif op == "fp8_forward":
        q, d = t["q"].double() * t["scale_q"].double()[..., None], t["d"].double() * t["scale_d"].double()[..., None]
    else:
        q, d = t["q"].double(), t["d"].double()
        if "normalize" in chosen:
            q, d = (torch.nn.functional.normalize(x, dim=-1, eps=1e-12) for x in (q, d))
    similarities = torch.einsum("isd,jtd->ijst", q, d)
    if "d_mask" in chosen:
        similarities = similarities.masked_fill(~t["d_mask"][None, :, None, :], -torch.inf)
    best = similarities.amax(-1)
    if "q_mask" in chosen:
        best = best * t["q_mask"][:, None, :]
    return best.sum(-1)


def our_scores(tool, op, t, chosen, scratch):
    import numpy
    import torch
    files = {}
    wanted = {"fused_head_forward": {"q", "h", "w"}, "residual_forward": set(t)}.get(op, {"q", "d"})
    wanted |= {feature for feature in chosen if feature in ("q_mask", "d_mask", "bias")}
    if op == "fp8_forward":
        wanted |= {"scale_q", "scale_d"}
    for name in wanted:
        tensor = t[name].view(torch.uint8) if t[name].dtype == torch.float8_e4m3fn else t[name]
        if op == "residual_forward" and name in ("codes", "residuals"):
            tensor = tensor.flatten(0, 1)  # an index has no padding
        numpy.save(f"{scratch}/{name}.npy", tensor.cpu().numpy())
        files[name] = f"{scratch}/{name}.npy"
    command = [tool, "score", "--op", op, "--device", "cuda", "--out", f"{scratch}/scores.npy"]
    for name, file in files.items():
        command += [f"--{name.replace('_', '-')}", file]
    if op == "fp8_forward":
        command += ["--dtype", "fp8_e4m3"]
    if op == "residual_forward":
        command.append("--lsb-first")  # the order of lik's bits
    if "normalize" in chosen:
        command.append("--normalize")
    if "save_argmax" in chosen:
        command += ["--argmax", f"{scratch}/argmax.npy"]
    subprocess.run(command, check=True, capture_output=True, text=True,
                   env=os.environ | {"MAXSIM_JIT_CACHE_DIR": f"{scratch}/cache", "MAXSIM_JIT_TUNE": "off"})
    return torch.from_numpy(numpy.load(f"{scratch}/scores.npy")).cuda().double()


def compare(tool, op):
    import torch
    t = inputs(op, torch)
    rows = []
    for chosen in ([f for f in OPS[op]["both"] if "scale" in f], OPS[op]["both"]):
        right = float64_scores(op, t, chosen)
        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o700)
            mine = our_scores(tool, op, t, chosen, scratch)
        theirs = lik_call(op, t, chosen).double()
        size = right.abs().max()
        rows.append({"features": chosen, "ours_from_float64": ((mine - right).abs().max() / size).item(),
                     "lik_from_float64": ((theirs - right).abs().max() / size).item(),
                     "apart": ((mine - theirs).abs().max() / size).item()})
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--json")
    parser.add_argument("--ops", type=lambda text: text.split(","), default=list(OPS))
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--lik-pass")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        skip("no torch")
    if not torch.cuda.is_available():
        skip("no GPU: torch sees none")
    if not options.ours_only:
        try:
            import late_interaction_kernels  # noqa: F401
        except ImportError:
            skip("no late-interaction-kernels")
    if options.lik_pass:
        return lik_pass(options.lik_pass)
    document = {"schema": "maxsim-jit/side-by-side/1", "ops": {}}
    for op in options.ops:
        row = {"ours": ours(options.tool, op, OPS[op]["both"])}
        if not options.ours_only:
            row["lik"] = lik(op)
            row["scores"] = compare(options.tool, op)
        document["ops"][op] = row
        print(op, json.dumps(row), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
