"""What every program in docs/examples must print, with a GPU or without."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SCORES = ["document 0: 1.00", "document 1: 2.00", "document 2: 0.25"]
NO_GPU = re.compile(r"No GPU, so the CPU scores: .+\.")


def run(command, cache, **environment):
    """Runs a program with this cache, tuning off: on a GPU it compiles one kernel, and does not sweep."""
    settings = {"MAXSIM_JIT_CACHE_DIR": str(cache), "MAXSIM_JIT_TUNE": "off"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAXSIM_JIT_")}
    return subprocess.run(command, env=inherited | settings | environment, capture_output=True, text=True)


def check(test, command, scratch, fake_driver, **environment):
    """Right scores on what is here, and on the CPU without a driver; the device's way against a driver that launches
    nothing, for machines without a GPU. Each of them with a cache of its own in `scratch`: none finds what another
    compiled."""
    place = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    here = run(command, place / "here", **environment)
    test.assertEqual((here.returncode, here.stderr), (0, ""))
    test.assertEqual(here.stdout.splitlines()[-3:], SCORES)

    on_cpu = run(command, place / "cpu", MAXSIM_JIT_LIBCUDA="/nowhere/libcuda.so.1", **environment)
    test.assertEqual((on_cpu.returncode, on_cpu.stderr), (0, ""))
    test.assertRegex(on_cpu.stdout.splitlines()[0], NO_GPU)
    test.assertEqual(on_cpu.stdout.splitlines()[1:], SCORES)

    on_device = run(command, place / "device", MAXSIM_JIT_LIBCUDA=fake_driver, **environment)
    if "libnvrtc" in on_device.stderr:
        raise unittest.SkipTest(f"the device's way needs NVRTC: {on_device.stderr.strip()}")
    test.assertEqual((on_device.returncode, on_device.stderr), (0, ""))
    lines = on_device.stdout.splitlines()
    test.assertEqual([line.rpartition(" ")[0] for line in lines], [line.rpartition(" ")[0] for line in SCORES])
    test.assertTrue(list((place / "device").rglob("*.cubin")), "nothing was compiled: the device's way was not taken")
