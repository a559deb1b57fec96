"""Writes the .npy files beside it as NumPy and ml_dtypes write them; the reader's tests read these very files.

usage: make_samples.py   (needs numpy and ml_dtypes)

Every numeric file but the masks holds 0, 1, …, 5 minus 2 in shape (2, 3).
"""
import io
import pathlib

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
VALUES = np.arange(6).reshape(2, 3) - 2
MASK = np.array([[True, False, True], [False, False, True]])


def save(name, array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=True)
    (HERE / f"{name}.npy").write_bytes(file.getvalue())


for version in ((1, 0), (2, 0), (3, 0)):
    save(f"float32_v{version[0]}", VALUES.astype("<f4"), version)
for dtype in ("float16", "float32", "float64", "int64"):
    save(f"{dtype}_little", VALUES.astype(np.dtype(dtype).newbyteorder("<")))
    save(f"{dtype}_big", VALUES.astype(np.dtype(dtype).newbyteorder(">")))
    save(f"{dtype}_fortran", np.asfortranarray(VALUES.astype(dtype)))
save("float32_fortran_big", np.asfortranarray(VALUES.astype(">f4")))
save("bfloat16", VALUES.astype(ml_dtypes.bfloat16))
save("bfloat16_fortran", np.asfortranarray(VALUES.astype(ml_dtypes.bfloat16)))
save("float8_e4m3fn", VALUES.astype(ml_dtypes.float8_e4m3fn))
save("float8_e5m2", VALUES.astype(ml_dtypes.float8_e5m2))
for dtype in ("bool", "int8", "uint8"):
    save(f"mask_{dtype}", MASK.astype(dtype))
save("scalar", np.float32(2.5))
save("empty", np.zeros((0, 3), np.float32))
save("objects", np.array([{"a": 1}, None], dtype=object))
save("structured", np.zeros(2, dtype=[("x", "<f4"), ("y", "<i4")]))
save("strings", np.array(["ab", "c"]))
save("complex64", VALUES.astype(np.complex64))
