"""MaxSim scores from Python, with ctypes and NumPy alone: one query against three documents of different lengths, on
the first GPU, or on the CPU where there is none.

    /usr/bin/python3 docs/examples/score.py build/release/src/libmaxsim_jit.so.0

Any python3 with NumPy will do; without an argument the library is looked for where the system looks.
"""
import ctypes
import sys

import numpy

MSJ_ERROR_NO_DRIVER = 4
MSJ_DENSE_FORWARD, MSJ_DEVICE_CPU = 1, -1
Q, D, Q_MASK, D_MASK, D_LENGTHS, SCORES, ARGMAX = OPERANDS = range(7)  # MSJ_DENSE_FORWARD_*
DTYPES = {"float32": 1, "float16": 2, "int8": 6, "uint8": 7, "bool": 8, "int32": 9, "int64": 10}
TO_DEVICE, TO_HOST = 0, 1


class Tensor(ctypes.Structure):  # msj_tensor
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 6), ("strides", ctypes.c_int64 * 6)]


class Call(ctypes.Structure):  # msj_call
    _fields_ = [("struct_size", ctypes.c_size_t), ("op", ctypes.c_int32), ("device", ctypes.c_int32),
                ("operands", ctypes.POINTER(ctypes.POINTER(Tensor))), ("operand_count", ctypes.c_size_t),
                ("params", ctypes.c_void_p), ("param_count", ctypes.c_size_t), ("flags", ctypes.c_uint64),
                ("stream", ctypes.c_void_p), ("workspace", ctypes.c_void_p), ("workspace_size", ctypes.c_size_t),
                ("plan", ctypes.c_void_p)]


library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libmaxsim_jit.so.0")
library.msj_last_error.restype = ctypes.c_char_p


def check(status):
    if status != 0:
        sys.exit(f"score: {library.msj_last_error().decode()}")


def choose_device(context):
    memory = ctypes.c_void_p()
    status = library.msj_device_alloc(context, 0, ctypes.c_size_t(1), ctypes.byref(memory))
    if status == MSJ_ERROR_NO_DRIVER:
        print(f"No GPU, so the CPU scores: {library.msj_last_error().decode()}.")
        return MSJ_DEVICE_CPU
    check(status)
    check(library.msj_device_free(context, 0, memory))
    return 0


def copy(context, device, to, source, array, direction):
    check(library.msj_device_copy(context, device, to, source, ctypes.c_size_t(array.nbytes), direction))


def place(context, device, array):
    """Where the device reads the array: a copy in its memory, or on the CPU the array's own. With torch: data_ptr()."""
    host = ctypes.c_void_p(array.ctypes.data)
    if device == MSJ_DEVICE_CPU:
        return host
    memory = ctypes.c_void_p()
    check(library.msj_device_alloc(context, device, ctypes.c_size_t(array.nbytes), ctypes.byref(memory)))
    copy(context, device, memory, host, array, TO_DEVICE)
    return memory


def view(array, memory):
    shape = (ctypes.c_int64 * 6)(*array.shape)
    strides = (ctypes.c_int64 * 6)(*(stride // array.itemsize for stride in array.strides))
    return Tensor(ctypes.sizeof(Tensor), memory, DTYPES[array.dtype.name], array.ndim, shape, strides)


def dense_forward(context, device, arrays):
    """Scores the arrays, results included, by operand: {Q: …, D: …, SCORES: …}. Results are written in place."""
    for operand, array in arrays.items():
        if not array.flags.c_contiguous:  # what lies between its elements would be copied to the device as well
            raise ValueError(f"operand {operand} is not contiguous; numpy.ascontiguousarray makes it so")
    memory = {operand: place(context, device, array) for operand, array in arrays.items()}
    views = {operand: ctypes.pointer(view(array, memory[operand])) for operand, array in arrays.items()}
    operands = (ctypes.POINTER(Tensor) * len(OPERANDS))(*(views.get(operand) for operand in OPERANDS))
    call = Call(ctypes.sizeof(Call), MSJ_DENSE_FORWARD, device, operands, len(operands))
    check(library.msj_run(context, ctypes.byref(call)))  # asynchronous on a GPU: the copy below waits
    for operand, array in arrays.items():
        if device != MSJ_DEVICE_CPU:
            if operand in (SCORES, ARGMAX):
                copy(context, device, ctypes.c_void_p(array.ctypes.data), memory[operand], array, TO_HOST)
            check(library.msj_device_free(context, device, memory[operand]))


def main():
    context = ctypes.c_void_p()
    check(library.msj_context_create(None, ctypes.byref(context)))
    device = choose_device(context)  # 0, or MSJ_DEVICE_CPU

    q = numpy.array([[[1, 0, 0, 0], [0, 1, 0, 0]]], dtype=numpy.float32)
    d = numpy.array([[[0.5, 0.5, 0, 0], [0, 0, 1, 0]], [[0, 1, 0, 0], [1, 0, 0, 0]], [[0, 0.25, 0, 1], [9, 9, 9, 9]]],
                    dtype=numpy.float32)
    d_mask = numpy.array([[True, True], [True, True], [True, False]])  # document 2: the second token is padding
    scores = numpy.empty((1, 3), dtype=numpy.float32)
    dense_forward(context, device, {Q: q, D: d, D_MASK: d_mask, SCORES: scores})
    for document, score in enumerate(scores[0]):
        print(f"document {document}: {score:.2f}")

    check(library.msj_context_destroy(context))


if __name__ == "__main__":
    main()
