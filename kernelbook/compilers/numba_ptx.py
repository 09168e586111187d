"""Numba kernels to PTX, in the helper process, with no GPU.

numba-cuda asks for the current device's compute capability when a kernel calls a device function
or synchronises the grid; a stand-in answers for the architecture that is compiled for
(numba-cuda 0.30.4).
"""

from __future__ import annotations

import ast
import linecache
import re
import types
import warnings
from typing import Any

from kernelbook.compilers import ptxas
from kernelbook.compilers.explain import explain
from kernelbook.compilers.nvrtc import Refused, too_much_shared
from kernelbook.lift.signature import require_types

FILE = "<kernel>"
JIT_OPTIONS = ("device", "fastmath", "inline", "launch_bounds", "max_registers", "opt")
PLACE_NAMES = ("constraint", "inst", "stmt", "expr", "loc", "self")
_NAMED_LINE = re.compile(rf'{FILE}", line (\d+)|{FILE} \((\d+)\)|{FILE}:(\d+)')
STATEMENTS: dict[str, Any] = {
    "get_function_type'": (ast.Yield, ast.YieldFrom),
    "IMPORT_NAME": (ast.Import, ast.ImportFrom),
    "LOAD_BUILD_CLASS": ast.ClassDef,
    "STORE_GLOBAL": ast.Global,
    "exception_match": ast.Try,
    "set_try_status": ast.Try,
    "terminator_types": ast.With,
    "void return type": ast.Return,
    "with (context manager)": ast.With,
}


def compile_function(
    source: str, name: str, signature: str, arch: tuple[int, int]
) -> dict[str, Any]:
    """PTX and resources of the kernel ``name`` in lifted ``source``, for ``signature``.

    signature: Numba types in order, such as "float32[::1], int32". Raises: Refused.
    """
    import numba.cuda
    from numba.cuda.compiler import compile as compile_ptx

    _stand_in(arch)
    numba.cuda.jit = _jit
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    module = types.ModuleType("kernel")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
            kernel = module.__dict__[name]
            arguments = _argument_types(signature, kernel.py_func)
            options = kernel.targetoptions
            ptx, _ = compile_ptx(
                kernel.py_func,
                arguments,
                device=False,
                abi="numba",
                cc=arch,
                fastmath=options.get("fastmath") or False,
                opt=options.get("opt"),
                launch_bounds=options.get("launch_bounds"),
            )
        except Refused:
            raise
        except Exception as error:
            line = _line_of_statement(source, name, str(error)) or _line_of(error)
            raise Refused(explain(error, source), line, _shortened(str(error))) from None
        finally:
            numba.cuda.jit = _real_jit()
    ptx = ptxas.without_comments(ptx)
    entry = ptxas.entries(ptx)[0]
    limit = options.get("max_registers")
    try:
        found = ptxas.resources(ptx, entry, f"sm_{arch[0]}{arch[1]}", limit)
    except ptxas.AssemblerError as error:
        raise Refused(too_much_shared(str(error)), None, str(error)) from None
    return {"ptx": ptx, "entry": entry, **found}


def _stand_in(arch: tuple[int, int]) -> None:
    from numba.cuda import compiler, dispatcher
    from numba.cuda.memory_management import nrt

    device = types.SimpleNamespace(compute_capability=arch)
    modules: tuple[Any, ...] = (compiler, dispatcher, nrt)
    for module in modules:
        module.get_current_device = lambda: device


def _real_jit() -> Any:
    from numba.cuda import decorators

    return decorators.jit


def _jit(func_or_sig: Any = None, *_: Any, **options: Any) -> Any:
    """``cuda.jit`` without what would compile at once, touch the disk or change the output."""
    kept = {key: value for key, value in options.items() if key in JIT_OPTIONS}

    def decorate(function: Any) -> Any:
        return _real_jit()(function, **kept)

    return decorate(func_or_sig) if isinstance(func_or_sig, types.FunctionType) else decorate


def _argument_types(signature: str, function: types.FunctionType) -> tuple[Any, ...]:
    from numba.cuda.core import sigutils

    try:
        require_types(signature)
        whole = isinstance(ast.parse(signature.strip(), mode="eval").body, ast.Call)
        arguments, returned = sigutils.normalize_signature(
            signature if whole else f"({signature.strip().rstrip(',')},)"
        )
    except Exception as error:
        raise Refused(
            f"the signature {signature!r} cannot be read ({error}); write one Numba type for each "
            'argument, such as "float32[::1], int32"'
        ) from None
    if returned is not None and str(returned) not in ("void", "none"):
        raise Refused(f"the signature {signature!r} returns {returned}; a kernel returns nothing")
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if len(names) != len(arguments):
        raise Refused(
            f"takes {len(names)} argument{'s' * (len(names) != 1)} ({', '.join(names)}), but is "
            f"called with {len(arguments)} ({signature})",
            function.__code__.co_firstlineno,
        )
    return tuple(arguments)


def _line_of(error: BaseException) -> int | None:
    """The learner's line, from the frames that the error passed through or else from its text.

    For many type errors numba-cuda's text names no line, but the innermost frame that holds a
    statement of the learner's does (seen with numba-cuda 0.30.4).
    """
    line = None
    walk = error.__traceback__
    while walk is not None:
        for name in PLACE_NAMES:
            value = walk.tb_frame.f_locals.get(name)
            place: Any = value if name == "loc" else getattr(value, "loc", None)
            if getattr(place, "filename", None) == FILE:
                line = place.line
                break
        walk = walk.tb_next
    if line is None and (named := _NAMED_LINE.search(str(error))):
        line = int(next(filter(None, named.groups())))
    return line


def _line_of_statement(source: str, name: str, message: str) -> int | None:
    """The line of a statement that no kernel may hold, where the message implies its kind."""
    kinds = next((kind for words, kind in STATEMENTS.items() if words in message), None)
    if kinds is None:
        return None
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef) and function.name == name:
            for node in ast.walk(function):
                if isinstance(node, kinds) and getattr(node, "value", node) is not None:
                    return int(node.lineno)
    return None


def _shortened(message: str, limit: int = 4000) -> str:
    return message if len(message) <= limit else message[:limit] + " …"
