"""What may stand in device code: modules, names, built-ins, decorator options, statements.

Source: the public names of numba-cuda 0.30, CPython's math and operator modules, and NumPy's
element functions and number types. Every list says what may stand; what is in none may not.
Limit: a name in these lists may still be refused by the compiler, which judges next; the lists keep
out what would act on the host if a simulator ran it.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
import re
from collections.abc import Iterable

import numpy as np


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEAR = 0.6  # of difflib: 1 is the same word
MAX_INT_BITS = 128  # Python itself refuses to print a number of 4,301 digits

MODULES = _words(
    "kernelbook kernelbook.lab math numba numba.cuda numba.cuda.cg numba.cuda.fp16 "
    "numba.cuda.libdevice numba.cuda.random numba.cuda.types numba.types numpy operator"
)
DECORATOR_OPTIONS = _words(
    "cache debug device fastmath inline launch_bounds lineinfo max_registers opt"
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
NUMBA_TYPE_MAKERS = _words("Array Optional Tuple UniTuple")  # in signatures
NUMPY_TYPES = _words(
    "bool bool_ byte cdouble complex128 complex64 csingle double float16 float32 float64 half "
    "int16 int32 int64 int8 int_ intc intp long longlong short single ubyte uint uint16 uint32 "
    "uint64 uint8 uintc uintp ulong ulonglong ushort"
)
NUMPY_FUNCTIONS = _words(
    "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 "
    "atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or "
    "bitwise_right_shift bitwise_xor conj conjugate cos cosh deg2rad degrees divide equal fmax "
    "fmin greater greater_equal hypot invert isnan left_shift less less_equal log log10 log2 "
    "logical_and logical_not logical_or logical_xor maximum minimum not_equal rad2deg radians "
    "right_shift sin sinh tan tanh true_divide"
)
NUMPY_NUMBERS = _words("e euler_gamma inf nan pi")
_INDICES = [
    f"{of}.{axis}" for of in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"
]
_ATOMICS = _words("add and_ cas compare_and_swap dec exch inc max min nanmax nanmin or_ sub xor")
_HALF = _words(
    "habs hadd hceil hcos hdiv heq hexp hexp10 hexp2 hfloor hfma hge hgt hle hlog hlog10 hlog2 hlt "
    "hmax hmin hmul hne hneg hrcp hrint hrsqrt hsin hsqrt hsub htanh htanh_approx htrunc"
)
_RANDOM = _words("jump next normal_float32 normal_float64 uniform_float32 uniform_float64")
_LIBDEVICE = _words(
    "abs acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf brev "
    "brevll byte_perm cbrt cbrtf ceil ceilf clz clzll copysign copysignf cos cosf cosh coshf cospi "
    "cospif dadd_rd dadd_rn dadd_ru dadd_rz ddiv_rd ddiv_rn ddiv_ru ddiv_rz dmul_rd dmul_rn "
    "dmul_ru dmul_rz double2float_rd double2float_rn double2float_ru double2float_rz double2hiint "
    "double2int_rd double2int_rn double2int_ru double2int_rz double2ll_rd double2ll_rn "
    "double2ll_ru double2ll_rz double2loint double2uint_rd double2uint_rn double2uint_ru "
    "double2uint_rz double2ull_rd double2ull_rn double2ull_ru double2ull_rz double_as_longlong "
    "drcp_rd drcp_rn drcp_ru drcp_rz dsqrt_rd dsqrt_rn dsqrt_ru dsqrt_rz erf erfc erfcf erfcinv "
    "erfcinvf erfcx erfcxf erff erfinv erfinvf exp exp10 exp10f exp2 exp2f expf expm1 expm1f fabs "
    "fabsf fadd_rd fadd_rn fadd_ru fadd_rz fast_cosf fast_exp10f fast_expf fast_fdividef "
    "fast_log10f fast_log2f fast_logf fast_powf fast_sincosf fast_sinf fast_tanf fdim fdimf "
    "fdiv_rd fdiv_rn fdiv_ru fdiv_rz ffs ffsll finitef float2half_rn float2int_rd float2int_rn "
    "float2int_ru float2int_rz float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2uint_rd "
    "float2uint_rn float2uint_ru float2uint_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz "
    "float_as_int floor floorf fma fma_rd fma_rn fma_ru fma_rz fmaf fmaf_rd fmaf_rn fmaf_ru "
    "fmaf_rz fmax fmaxf fmin fminf fmod fmodf fmul_rd fmul_rn fmul_ru fmul_rz frcp_rd frcp_rn "
    "frcp_ru frcp_rz frexp frexpf frsqrt_rn fsqrt_rd fsqrt_rn fsqrt_ru fsqrt_rz fsub_rd fsub_rn "
    "fsub_ru fsub_rz hadd half2float hiloint2double hypot hypotf ilogb ilogbf int2double_rn "
    "int2float_rd int2float_rn int2float_ru int2float_rz int_as_float isfinited isinfd isinff "
    "isnand isnanf j0 j0f j1 j1f jn jnf ldexp ldexpf lgamma lgammaf ll2double_rd ll2double_rn "
    "ll2double_ru ll2double_rz ll2float_rd ll2float_rn ll2float_ru ll2float_rz llabs llmax llmin "
    "llrint llrintf llround llroundf log log10 log10f log1p log1pf log2 log2f logb logbf logf "
    "longlong_as_double max min modf modff mul24 mul64hi mulhi nearbyint nearbyintf nextafter "
    "nextafterf normcdf normcdff normcdfinv normcdfinvf popc popcll pow powf powi powif rcbrt "
    "rcbrtf remainder remainderf remquo remquof rhadd rint rintf round roundf rsqrt rsqrtf sad "
    "saturatef scalbn scalbnf signbitd signbitf sin sincos sincosf sincospi sincospif sinf sinh "
    "sinhf sinpi sinpif sqrt sqrtf tan tanf tanh tanhf tgamma tgammaf trunc truncf uhadd "
    "uint2double_rn uint2float_rd uint2float_rn uint2float_ru uint2float_rz ull2double_rd "
    "ull2double_rn ull2double_ru ull2double_rz ull2float_rd ull2float_rn ull2float_ru ull2float_rz "
    "ullmax ullmin umax umin umul24 umul64hi umulhi urhadd usad y0 y0f y1 y1f yn ynf"
)
CUDA_NAMES = _words(
    "activemask all_sync any_sync atomic ballot_sync bfloat16 blockDim blockIdx brev cbrt cg clz "
    "const eq_sync ffs fma fp16 grid gridDim gridsize laneid lanemask_lt ldca ldcg ldcs ldcv ldlu "
    "libdevice local match_all_sync match_any_sync nanosleep popc random rsqrt selp shared "
    "shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync stcg stcs stwb stwt syncthreads "
    "syncthreads_and syncthreads_count syncthreads_or syncwarp threadIdx threadfence "
    "threadfence_block threadfence_system warpsize"
)
_CUDA_HOLDERS = _words("atomic cg const fp16 libdevice local random shared")  # no values themselves
CUDA_PATHS = frozenset(
    [
        *(CUDA_NAMES - _CUDA_HOLDERS),
        *_INDICES,
        *("shared.array", "local.array", "const.array_like", "cg.this_grid"),
        *(f"atomic.{name}" for name in _ATOMICS),
        *(f"fp16.{name}" for name in _HALF),
        *(f"libdevice.{name}" for name in _LIBDEVICE),
        *(f"random.xoroshiro128p_{name}" for name in _RANDOM),
    ]
)
CUDA_VECTOR = re.compile(
    r"((u?int(8|16|32|64)|float(32|64))x|u?(char|short|int|long|longlong)|float|double)[1-4]"
)
OPERATOR_REFUSED = frozenset({"attrgetter", "call", "itemgetter", "methodcaller"})

# What may be read from a value: nothing here leads from a number, an array or a type to the host.
VALUE_ATTRIBUTES = _words(
    "T conjugate dtype flat imag itemsize nbytes ndim ravel real reshape shape size strides sync "
    "transpose type view w x y z"
)

LOCAL_ARRAY = "use cuda.local.array or cuda.shared.array"
FORMATS = "computes with a string, which a kernel cannot; print values apart: print('i', i)"

FORBIDDEN: dict[type, str] = {
    ast.AsyncFor: "has an async loop",
    ast.AsyncFunctionDef: "holds an async function",
    ast.AsyncWith: "has an async with",
    ast.Await: "awaits",
    ast.ClassDef: "defines a class",
    ast.Delete: "deletes a name; leave the del out",
    ast.Dict: f"uses a dict, which a kernel cannot; {LOCAL_ARRAY}",
    ast.DictComp: f"uses a dict, which a kernel cannot; {LOCAL_ARRAY}",
    ast.GeneratorExp: "uses a generator, which a kernel cannot; write a loop",
    ast.Global: "declares a global name; a kernel returns results through its array arguments",
    ast.Import: "imports; put the import at the top of a cell",
    ast.ImportFrom: "imports; put the import at the top of a cell",
    ast.JoinedStr: FORMATS,
    ast.List: f"builds a list, which a kernel cannot; {LOCAL_ARRAY}",
    ast.ListComp: f"builds a list, which a kernel cannot; {LOCAL_ARRAY}",
    ast.Match: "uses match, which a kernel cannot; write if and elif",
    ast.NamedExpr: "sets a name inside an expression (:=); write the assignment on its own line",
    ast.Nonlocal: "declares a nonlocal name",
    ast.Set: f"builds a set, which a kernel cannot; {LOCAL_ARRAY}",
    ast.SetComp: f"builds a set, which a kernel cannot; {LOCAL_ARRAY}",
    ast.Starred: "passes or unpacks with *, which a kernel cannot; write each value",
    ast.Try: "uses try/except, which a kernel cannot; test with if",
    ast.TryStar: "uses try/except, which a kernel cannot; test with if",
    ast.With: "uses a with block, which a kernel cannot",
    ast.Yield: "yields; a kernel returns results through its array arguments",
    ast.YieldFrom: "yields; a kernel returns results through its array arguments",
}


# What a function body may be made of. Everything else is refused, in dead branches too: a compiler
# does not look there, and a simulator would run it.
BODY_NODES: tuple[type, ...] = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.Attribute, ast.AugAssign, ast.BinOp, ast.BoolOp,
    ast.Break, ast.Call, ast.Compare, ast.Constant, ast.Continue, ast.Expr, ast.For,
    ast.FunctionDef, ast.If, ast.IfExp, ast.Lambda, ast.Name, ast.Pass, ast.Raise,
    ast.Return, ast.Slice, ast.Subscript, ast.Tuple, ast.UnaryOp, ast.While, ast.arg, ast.arguments,
    ast.boolop, ast.cmpop, ast.expr_context, ast.keyword, ast.operator, ast.unaryop,
)  # fmt: skip


def is_type(path: str) -> bool:
    """Whether a full name, such as ``numba.float32``, is the type of a number."""
    module, _, leaf = path.rpartition(".")
    if module in ("numba", "numba.types", "numba.cuda.types"):
        return leaf in NUMBA_TYPES
    return module == "numpy" and leaf in NUMPY_TYPES and hasattr(np, leaf)


def is_device_name(path: str) -> bool:
    """Whether a full name, to its last step, may stand in device code. A module may not."""
    module, _, leaf = path.partition(".")
    if is_type(path):
        return True
    if module == "math":
        return leaf in vars(math) and not leaf.startswith("_")
    if module == "operator":
        return leaf in operator.__all__ and leaf not in OPERATOR_REFUSED
    if module == "numpy":
        return leaf in NUMPY_FUNCTIONS | NUMPY_NUMBERS and hasattr(np, leaf)
    if path.startswith("numba.cuda."):
        leaf = path.removeprefix("numba.cuda.")
        return leaf in CUDA_PATHS or CUDA_VECTOR.fullmatch(leaf) is not None
    return False


def may_be_imported(path: str) -> bool:
    """Whether the import of a full name may stand above device code."""
    inner = path.removeprefix("numba.cuda.")
    return (
        path in MODULES
        or path == "numba.cuda.jit"
        or is_device_name(path)
        or (inner != path and inner in _CUDA_HOLDERS)
    )


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """``; did you mean threadIdx?`` when a name in ``known`` is near to ``name``, else "".

    before: what stands in front of the name proposed, such as "cuda.".
    """
    choices = {choice.lower(): choice for choice in sorted(known) if choice != name}
    near = NEAR if len(name) > 2 else 0.75  # to one or two letters anything is near
    close = difflib.get_close_matches(name.lower(), choices, n=1, cutoff=near)
    return f"; did you mean {before}{choices[close[0]]}?" if close else ""


def known_names(path: str) -> list[str]:
    """Full names beside ``path`` that device code may use: what may have been meant."""
    module = path.rpartition(".")[0]
    if module == "numpy":
        return [f"numpy.{name}" for name in NUMPY_FUNCTIONS | NUMPY_TYPES]
    if module == "math":
        return [f"math.{name}" for name in vars(math)]
    return [
        name
        for name in (f"numba.cuda.{leaf}" for leaf in CUDA_PATHS)
        if name.rpartition(".")[0] == module
    ]
