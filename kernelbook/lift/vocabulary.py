"""What may stand in device code: modules, names, built-ins, decorator options, statements.

Source: the public names of numba-cuda 0.30, CPython's math and operator modules, and NumPy's ufuncs
and scalar types. Limit: a name in these lists may still be refused by the compiler, which judges
next; the lists keep out what would act on the host if a simulator ran it.
"""

from __future__ import annotations

import ast
import math
import operator
import re

import numpy as np


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES = _words(
    "kernelbook kernelbook.lab math numba numba.cuda numba.cuda.cg numba.cuda.fp16 "
    "numba.cuda.libdevice numba.cuda.random numba.cuda.types numba.types numpy operator"
)
DECORATOR_OPTIONS = frozenset(
    {"cache", "debug", "device", "fastmath", "inline", "lineinfo", "max_registers", "opt"}
)
# isinstance, hasattr and type are left out on purpose: a compiler drops the branch that they rule
# out for compiled types without reading it, and a simulator's types differ.
BUILTINS = _words(
    "abs bool complex divmod enumerate float int len max min pow print range round slice sum tuple "
    "zip AssertionError Exception IndexError RuntimeError TypeError ValueError "
    "ZeroDivisionError"
)
NUMBA_TYPES = _words(
    "b1 bool bool_ boolean byte c16 c8 char complex128 complex64 double f4 f8 float16 float32 "
    "float64 float_ i1 i2 i4 i8 int16 int32 int64 int8 int_ intc intp long_ longlong none short "
    "size_t ssize_t u1 u2 u4 u8 uchar uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong "
    "ushort void"
)
NUMBA_TYPE_MAKERS = frozenset({"Array", "Optional", "Tuple", "UniTuple", "bfloat16"})
CUDA_NAMES = _words(
    "activemask all_sync any_sync atomic ballot_sync bfloat16 blockDim blockIdx brev cbrt cg clz "
    "const eq_sync ffs fma fp16 grid gridDim gridsize laneid lanemask_lt ldca ldcg ldcs ldcv ldlu "
    "libdevice local match_all_sync match_any_sync nanosleep popc random rsqrt selp shared "
    "shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync stcg stcs stwb stwt syncthreads "
    "syncthreads_and syncthreads_count syncthreads_or syncwarp threadIdx threadfence "
    "threadfence_block threadfence_system warpsize"
)
CUDA_VECTOR = re.compile(
    r"((u?int(8|16|32|64)|float(32|64))x|u?(char|short|int|long|longlong)|float|double)[1-4]"
)
OPERATOR_REFUSED = frozenset({"attrgetter", "call", "itemgetter", "methodcaller"})

FORBIDDEN: dict[type, str] = {
    ast.AsyncFor: "has an async loop",
    ast.AsyncFunctionDef: "holds an async function",
    ast.AsyncWith: "has an async with",
    ast.Await: "awaits",
    ast.ClassDef: "defines a class",
    ast.Global: "declares a global name; a kernel returns results through its array arguments",
    ast.Import: "imports; put the import at the top of a cell",
    ast.ImportFrom: "imports; put the import at the top of a cell",
    ast.Nonlocal: "declares a nonlocal name",
    ast.Yield: "yields; a kernel returns results through its array arguments",
    ast.YieldFrom: "yields; a kernel returns results through its array arguments",
}


def is_type(path: str) -> bool:
    """Whether a full name, such as ``numba.float32``, is a data type."""
    module, _, leaf = path.rpartition(".")
    if module == "numba":
        return leaf in NUMBA_TYPES
    if module in ("numba.types", "numba.cuda.types"):
        return leaf in NUMBA_TYPES | NUMBA_TYPE_MAKERS
    value = vars(np).get(leaf) if module == "numpy" else None
    return isinstance(value, type) and issubclass(value, np.generic)


def is_device_name(path: str) -> bool:
    """Whether a full name may stand in device code. A module by itself may not."""
    module, _, leaf = path.partition(".")
    if is_type(path):
        return True
    if module == "math":
        return leaf in vars(math)
    if module == "operator":
        return leaf in operator.__all__ and leaf not in OPERATOR_REFUSED
    if module == "numpy":
        return isinstance(vars(np).get(leaf), np.ufunc | float)
    if path.startswith("numba.cuda."):
        head = path.split(".")[2]
        return head in CUDA_NAMES or CUDA_VECTOR.fullmatch(head) is not None
    return False
