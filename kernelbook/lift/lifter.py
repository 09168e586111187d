"""The walk from a kernel to everything that it needs, and the text that comes of it."""

from __future__ import annotations

import ast
import builtins
import keyword
import math
import symtable
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from kernelbook.lift.audit import Fault, audit
from kernelbook.lift.cells import Binding, Notebook, Position
from kernelbook.lift.lifted import AS_DEF, Lifted, NotAKernel
from kernelbook.lift.literals import ALLOWED, Constants, DataType, NotLiteral, written
from kernelbook.lift.signature import is_plain_slice
from kernelbook.lift.source import lift_source
from kernelbook.lift.text import cut, first_line
from kernelbook.lift.vocabulary import (
    BUILTINS,
    CUDA_NAMES,
    DECORATOR_OPTIONS,
    FORBIDDEN,
    MAX_INT_BITS,
    MODULES,
    NUMBA_TYPE_MAKERS,
    did_you_mean,
    is_device_name,
    is_type,
    known_names,
)

MAX_DEFINITIONS = 200

SIZES = frozenset({"n", "N", "m", "M", "size", "length", "count", "total", "num"})
HOST_NAMES = frozenset({
    "as_cuda_array", "device_array", "device_array_like", "get_current_device", "is_available",
    "jit", "managed_array", "mapped_array", "pinned_array", "reduce", "select_device", "stream",
    "synchronize", "to_device",
})  # fmt: skip
WHAT = {"constant": "set by an assignment", "import": "an import", "function": "a function"}


def lift(cells: Sequence[str], name: str, kind: Literal["kernel", "source"] = "kernel") -> Lifted:
    """The last definition of ``name`` in ``cells``, with all that it needs; nothing is run.

    cells: sources of the code cells in notebook order. kind "kernel": a function under
    ``@cuda.jit``; kind "source": a string of CUDA C++, whose text becomes ``Lifted.source``.

    Raises: NotAKernel, with cell and line, for what is not device code that can be lifted.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name that a cell could define")
    try:
        notebook = Notebook(cells, name)
        if kind == "source":
            return lift_source(notebook, name)
        return _Lifter(notebook, name).lift()
    except (RecursionError, MemoryError):
        raise NotAKernel(name, "is nested too deeply to be read") from None
    except (ArithmeticError, SyntaxError, SystemError, ValueError) as error:
        raise NotAKernel(name, f"cannot be read ({type(error).__name__}: {error})") from None


class _Lifter:
    def __init__(self, notebook: Notebook, name: str) -> None:
        self.notebook = notebook
        self.name = name
        self.constants = Constants(notebook)
        self.end: Position = (0, 0)  # as of where names in function bodies are looked up
        self.functions: dict[Position, tuple[Binding, list[str]]] = {}
        self.values: dict[str, tuple[Binding, str]] = {}  # constants, and how each is written
        self.types: dict[str, str] = {}  # full names of data types in them → names here
        self.imports: dict[str, Binding] = {}
        self.checked: set[tuple[str, str]] = set()  # names of imports that mean one thing only

    def lift(self) -> Lifted:
        found = self.notebook.bindings.get(self.name, [])
        if not found:
            raise NotAKernel(self.name, f"no cell defines it{self._hint(self.name)}")
        kernel = found[-1]
        self.end = (kernel.cell, 10**9)
        if kernel.what != "function":
            self._refuse(kernel, f"is {kernel.described or WHAT[kernel.what]}; {AS_DEF}")
        if self._need_function(kernel).get("device"):
            self._refuse(kernel, "is a device function; leave device=True out to make it a kernel")
        return self._emit()

    def _need_function(self, binding: Binding) -> dict[str, Any]:
        """Check a function, take it and all that it refers to; returns its decorator's options."""
        node = binding.node
        assert isinstance(node, ast.FunctionDef)
        self._check_numbers(binding, node)
        options = self._check_decorator(binding, node)
        if binding.position in self.functions:
            return options
        self._check_arguments(binding, node)
        self._take(binding, node, options)
        names = self._global_names(binding)
        self._check_body(binding, node, names)
        for name, user in _first_uses(node, names):
            self._need_name(binding, name, user)
        return options

    def _need_name(self, binding: Binding, name: str, user: ast.AST) -> None:
        found = self.notebook.resolve(name, self.end)
        if found is None:
            if name in BUILTINS:
                return
            if hasattr(builtins, name):
                self._refuse(binding, f"uses {name}, which runs only on the host", user)
            hint = self._hint(name) or ("" if name in SIZES else self._nearest(binding, name))
            hint = hint or f". {_pass_in(binding, name)}, or give it a value"
            self._refuse(binding, f"uses {name}, which no cell defines{hint}", user)
        if found.what == "import":
            self._need_import(binding, found, user)
            return
        if found.what == "constant":
            self._need_constant(binding, found, user)
        elif found.what == "other":
            self._refuse(
                binding,
                f"uses {name}, which is neither a parameter nor a constant of yours: it is "
                f"{found.described} ({self.notebook.quote(found)}). {_pass_in(binding, name)}",
                user,
            )
        else:
            assert isinstance(found.node, ast.FunctionDef)
            if not found.node.decorator_list:
                self._refuse(
                    binding,
                    f"calls {name}, a plain Python function; put @cuda.jit(device=True) above it",
                    user,
                )
            self._need_function(found)

    def _need_import(self, binding: Binding, found: Binding, user: ast.AST) -> None:
        self._check_import(binding, found, user)
        taken = self.imports.setdefault(found.name, found)
        if taken.path != found.path:
            self._refuse(binding, f"uses {found.name} for both {taken.path} and {found.path}", user)

    def _check_import(self, binding: Binding, found: Binding, user: ast.AST) -> None:
        if (found.name, found.path) in self.checked:
            return
        module = found.path if found.path in MODULES else found.path.rpartition(".")[0]
        if module not in MODULES:
            self._refuse(
                binding,
                f"uses {found.name} from {found.path}; device code may use math, numpy, "
                "operator, numba and numba.cuda",
                user,
            )
        for other in self.notebook.bindings[found.name]:
            if other.what != "import":
                self._refuse(
                    binding,
                    f"uses {found.name}, an import whose name is given to something else "
                    f"({self.notebook.quote(other)})",
                    user,
                )
        self.checked.add((found.name, found.path))

    def _need_constant(self, binding: Binding, found: Binding, user: ast.AST) -> Any:
        try:
            value = self.constants.value(found)
            self.values[found.name] = (found, written(value, self.types))
        except NotLiteral as problem:
            self._refuse(
                binding,
                f"uses {found.name}, which is {problem} ({self.notebook.quote(found)}). {ALLOWED}",
                user,
            )
        for used in self.constants.imports:
            self._check_import(binding, used, user)
        self._check_count(binding)
        return value

    def _take(self, binding: Binding, node: ast.FunctionDef, options: dict[str, Any]) -> None:
        lines = cut(self.notebook.texts[binding.cell], node, _decorator(node, options))
        if lines is None:
            self._refuse(
                binding,
                "is laid out so that it cannot be taken out of its cell; leave out annotations "
                "and write @cuda.jit on one line",
            )
        self.functions[binding.position] = (binding, lines)
        self._check_count(binding)

    def _check_count(self, binding: Binding) -> None:
        if len(self.functions) + len(self.values) > MAX_DEFINITIONS:
            self._refuse(binding, f"needs more than {MAX_DEFINITIONS} definitions")

    def _check_numbers(self, binding: Binding, node: ast.FunctionDef) -> None:
        """First of all: Python fails to print a number of many digits."""
        for part in ast.walk(node):
            number = getattr(part, "value", None)
            if isinstance(number, int) and number.bit_length() > MAX_INT_BITS:
                self._refuse(binding, "uses a number that is too large", part)

    def _check_decorator(self, binding: Binding, node: ast.FunctionDef) -> dict[str, Any]:
        if not node.decorator_list:
            self._refuse(binding, f"is a plain Python function; {AS_DEF}")
        if len(node.decorator_list) > 1:
            second = node.decorator_list[1]
            self._refuse(binding, "has more decorators than @cuda.jit alone", second)
        decorator = node.decorator_list[0]
        call = decorator if isinstance(decorator, ast.Call) else None
        path = self._imported(binding, call.func if call else decorator)
        if path in ("numba.jit", "numba.njit"):
            self._refuse(
                binding, f"is under {path}, which compiles for the CPU; use @cuda.jit", decorator
            )
        if path != "numba.cuda.jit":
            written = ast.unparse(decorator)[:60]
            hint = "" if path else "; import it by `from numba import cuda`"
            self._refuse(
                binding, f"is under @{written}, which is not Numba's @cuda.jit{hint}", decorator
            )
        if call is None:
            return {}
        for argument in call.args:
            if not self._is_signature(binding, argument):
                self._refuse(
                    binding,
                    "gives @cuda.jit an argument that is not a signature written out in types",
                    argument,
                )
        options: dict[str, Any] = {}
        for option in call.keywords:
            if option.arg not in DECORATOR_OPTIONS:
                allowed = ", ".join(sorted(DECORATOR_OPTIONS))
                self._refuse(
                    binding,
                    f"gives @cuda.jit the option {option.arg or '**'}; allowed are {allowed}",
                    option.value,
                )
            if not isinstance(option.value, ast.Constant) or not (
                isinstance(option.value.value, bool | int | None)
                or option.value.value in ("always", "never")
            ):
                self._refuse(
                    binding, f"gives the option {option.arg} as something other than a literal",
                    option.value,
                )  # fmt: skip
            options[option.arg] = option.value.value
        return options

    def _check_arguments(self, binding: Binding, node: ast.FunctionDef) -> None:
        args = node.args
        if args.vararg or args.kwarg:
            self._refuse(binding, "takes *args or **kwargs; name each argument")
        if args.kwonlyargs:
            self._refuse(binding, "has keyword-only arguments; a kernel takes them in order")
        if args.defaults:
            self._refuse(binding, "has default arguments; pass every argument")
        if getattr(node, "type_params", None):
            self._refuse(binding, "has type parameters")

    def _check_body(self, binding: Binding, function: ast.FunctionDef, names: set[str]) -> None:
        for node in _walk(function):
            if reason := FORBIDDEN.get(type(node)):
                self._refuse(binding, reason, node)
            if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.args.defaults):
                self._refuse(binding, "holds a function with a decorator or defaults", node)
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                self._refuse(binding, f"reads .{node.attr}, which is not device code", node)
            if isinstance(node, ast.Name) and node.id.startswith("__"):
                self._refuse(binding, f"uses {node.id}, which is not device code", node)
        judged: set[int] = set()  # parts of a dotted name that was judged as a whole
        for node in _walk(function):
            if id(node) in judged or not isinstance(node, ast.Attribute | ast.Name):
                continue
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
                judged.add(id(root))
            found = self.notebook.path(node, self.end)
            if found is None or found[0].name not in names:
                continue
            self._need_import(binding, found[0], node)
            if not is_device_name(found[1]):
                self._refuse(binding, _not_device(ast.unparse(node), found[1]), node)

    def _global_names(self, binding: Binding) -> set[str]:
        """Names that the function, or one nested in it, looks up at module level."""
        text = "\n".join(self.functions[binding.position][1])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text, "<cell>", "exec", dont_inherit=True)
                tables = symtable.symtable(text, "<cell>", "exec").get_children()
        except (SyntaxError, ValueError) as error:
            self._refuse(binding, f"Python cannot compile it: {getattr(error, 'msg', error)}")
        names: set[str] = set()
        while tables:
            table = tables.pop()
            names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
            tables.extend(table.get_children())
        return names

    def _imported(self, binding: Binding, node: ast.expr) -> str | None:
        """Full name behind a dotted expression outside a body, whose import is thereby needed."""
        found = self.notebook.path(node, binding.position)
        if found is None:
            root = node
            while isinstance(root, ast.Attribute):
                root = root.value
            name = root.id if isinstance(root, ast.Name) else ""
            for other in self.notebook.bindings.get(name, []):
                if other.what == "import":
                    self._need_import(binding, other, node)  # refuses: it is rebound
            return None
        self._need_import(binding, found[0], node)
        return found[1]

    def _is_signature(self, binding: Binding, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str | int | None)
        if isinstance(node, ast.Tuple | ast.List):
            return all(self._is_signature(binding, item) for item in node.elts)
        if isinstance(node, ast.Call):
            parts = (node.func, *node.args)
            named = isinstance(node.func, ast.Name | ast.Attribute)
            return (
                named
                and not node.keywords
                and all(self._is_signature(binding, part) for part in parts)
            )
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self._is_signature(binding, node.value) and all(map(is_plain_slice, inner))
        if isinstance(node, ast.Name):
            found = self.notebook.resolve(node.id, binding.position)
            if found is not None and found.what == "constant" and found.position < binding.position:
                value = self._need_constant(binding, found, node)
                return isinstance(value, DataType | str)
        path = self._imported(binding, node) or ""
        return is_type(path) or path.rpartition(".")[2] in NUMBA_TYPE_MAKERS

    def _emit(self) -> Lifted:
        lines: list[str] = []
        origin: dict[int, tuple[int, int]] = {}
        found = list(self.values.values())
        for name, binding in sorted(self.imports.items()):
            lines.append(_import_line(name, binding.path))
            origin[len(lines)] = (binding.cell, binding.node.lineno)
        for path, name in sorted(self.types.items()):
            lines.append(_import_line(name, path))
            origin[len(lines)] = min((binding.cell, binding.node.lineno) for binding, _ in found)
        made = [(b, [f"{b.name} = {text}"], b.node.lineno) for b, text in found]
        made += [(b, texts, first_line(b.node)) for b, texts in self.functions.values()]
        names: list[str] = []
        for binding, texts, first in sorted(made, key=lambda one: one[0].position):
            names.append(binding.name)
            if binding.what == "function":
                lines += ["", ""]
            for line, text in enumerate(texts, first):
                lines.append(text)
                origin[len(lines)] = (binding.cell, line)
        source = "\n".join(lines) + "\n"
        try:
            audit(source)
        except Fault as fault:
            at = [(b, line) for b, texts, first in made
                  for line, _ in enumerate(texts, first)
                  if (b.cell, line) == origin.get(fault.line)]  # fmt: skip
            if at:
                self._refuse(at[0][0], fault.reason, line=at[0][1])
            raise NotAKernel(self.name, fault.reason, *origin.get(fault.line, ())) from None
        return Lifted(source, tuple(names), origin, tuple(self.notebook.notes))

    def _hint(self, name: str) -> str:
        if not name.isascii():
            return "; it holds a letter that only looks like a plain one"
        if self.notebook.star_modules:
            module = self.notebook.star_modules[-1]
            return f"; `from {module} import *` does not say what it brings, import by name"
        return ""

    def _nearest(self, binding: Binding, name: str) -> str:
        assert isinstance(binding.node, ast.FunctionDef)
        parts = list(ast.walk(binding.node))
        own = {part.arg for part in parts if isinstance(part, ast.arg)}
        own |= {
            part.id
            for part in parts
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        return did_you_mean(name, [*BUILTINS, *self.notebook.bindings, *own])

    def _refuse(
        self, binding: Binding, reason: str, node: ast.AST | None = None, line: int = 0
    ) -> NoReturn:
        own = self.notebook.bindings[self.name][-1].cell
        raise NotAKernel(
            self.name,
            reason,
            binding.cell,
            line or getattr(node, "lineno", binding.node.lineno),
            inside=binding.name,
            elsewhere=binding.cell != own,
        )


def _walk(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """All nodes of a function's body in source order."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _first_uses(function: ast.FunctionDef, names: set[str]) -> Iterator[tuple[str, ast.AST]]:
    seen: set[str] = set()
    for node in _walk(function):
        if isinstance(node, ast.Name) and node.id in names and node.id not in seen:
            seen.add(node.id)
            yield node.id, node


def _pass_in(binding: Binding, name: str) -> str:
    """What to do about a name that only the host has."""
    assert isinstance(binding.node, ast.FunctionDef)
    parameters = binding.node.args.args
    size = f", or use {parameters[0].arg}.size" if parameters and name in SIZES else ""
    return f"Pass it in as an argument{size}"


def _not_device(as_written: str, path: str) -> str:
    """What is wrong with a name such as ``cuda.threadidx.x``: misspelt, or of the host."""
    module = next((m for m in ("numba.cuda", "numpy", "math") if path.startswith(f"{m}.")), "")
    steps = path.removeprefix(f"{module}.").split(".") if module else []
    if not steps:
        return f"uses {as_written}, which is not device code"
    on_host = {"math": math, "numpy": np}.get(module)
    if steps[0] in HOST_NAMES or hasattr(on_host, steps[0]):
        instead = f"; use math.{steps[0]}" if module == "numpy" and hasattr(math, steps[0]) else ""
        return f"uses {as_written}, which runs only on the host{instead}"
    first_known = module != "numba.cuda" or steps[0] in CUDA_NAMES
    known = {name.rpartition(".")[2] for name in known_names(path)} if first_known else CUDA_NAMES
    wrong = steps[-1] if first_known else steps[0]
    front = as_written.removesuffix(".".join(steps if not first_known else steps[-1:]))
    meant = did_you_mean(wrong, known, front) if front != as_written else ""
    return f"uses {as_written}, which {'does not exist' if meant else 'is not device code'}{meant}"


def _decorator(node: ast.FunctionDef, options: dict[str, Any]) -> str:
    """The decorator as it is handed out: without signatures, which Numba would run as Python."""
    written_as = node.decorator_list[0]
    call = isinstance(written_as, ast.Call)
    jit = ast.unparse(written_as.func if isinstance(written_as, ast.Call) else written_as)
    kept = ", ".join(f"{key}={value!r}" for key, value in options.items() if key != "cache")
    return f"@{jit}({kept})" if call else f"@{jit}"


def _import_line(name: str, path: str) -> str:
    if path == "numba":
        return "import numba, numba.cuda" if name == "numba" else f"import numba as {name}"
    module, _, leaf = path.rpartition(".")
    renamed = "" if name == leaf else f" as {name}"
    return f"from {module} import {leaf}{renamed}" if module else f"import {path}{renamed}"
