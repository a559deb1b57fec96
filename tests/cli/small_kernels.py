"""Kernels that do nothing and a driver that launches nothing: what a test of timing commands runs on without a GPU."""
import json
import os
import re
import shutil

from command import Here


def small_kernels(test):
    """The environment for both, in the test's directory's parent; skips the test where there is no NVRTC."""
    checks = {check["name"]: check for check in json.loads(test.run_command("doctor", "--json").stdout)["checks"]}
    if checks["nvrtc"]["status"] != "ok":
        test.skipTest("no NVRTC here: " + checks["nvrtc"]["found"])
    kernels = test.directory.parent / "kernels"
    kernels.mkdir()
    shutil.copy(Here.source / "kernels/ceilings.cu", kernels)
    shutil.copytree(Here.source / "kernels/common", kernels / "common")
    for path in (Here.source / "kernels").glob("*.*.cu"):
        entries = re.findall(r"(\w+)\(const __grid_constant__ msj::Args", path.read_text())
        (kernels / path.name).write_text("".join(
            f'extern "C" __global__ void __launch_bounds__(1024) {entry}(const __grid_constant__ msj::Args args) {{}}\n'
            for entry in entries))
    return {"MAXSIM_JIT_LIBCUDA": os.environ["FAKE_LIBCUDA"], "MAXSIM_JIT_KERNEL_DIR": str(kernels)}
