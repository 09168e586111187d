"""The walk from a kernel to everything that it needs, and the text that comes of it."""

from __future__ import annotations

import ast
import builtins
import keyword
import symtable
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn

from kernelbook.lift.cells import Binding, Notebook, Position, constant_pairs
from kernelbook.lift.lifted import Lifted, NotAKernel
from kernelbook.lift.literals import TYPE, Constants, NotLiteral
from kernelbook.lift.source import lift_source
from kernelbook.lift.text import cut, first_line
from kernelbook.lift.vocabulary import (
    BUILTINS,
    DECORATOR_OPTIONS,
    FORBIDDEN,
    MODULES,
    is_device_name,
    is_type,
)

MAX_DEFINITIONS = 200

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


class _Lifter:
    def __init__(self, notebook: Notebook, name: str) -> None:
        self.notebook = notebook
        self.name = name
        self.constants = Constants(notebook)
        self.end: Position = (0, 0)  # as of where names in function bodies are looked up
        self.needed: dict[Position, Binding] = {}
        self.texts: dict[Position, list[str]] = {}
        self.imports: dict[str, Binding] = {}
        self.looked_up: dict[str, Position] = {}

    def lift(self) -> Lifted:
        found = self.notebook.bindings.get(self.name, [])
        if not found:
            raise NotAKernel(self.name, f"no cell defines it{self._hint(self.name)}")
        kernel = found[-1]
        self.end = (kernel.cell, 10**9)
        if kernel.what != "function":
            described = kernel.described or WHAT[kernel.what]
            self._refuse(
                kernel,
                f"is {described}; write it as a function under @cuda.jit, at the top level of a "
                "cell",
            )
        if self._need_function(kernel).get("device"):
            self._refuse(kernel, "is a device function; leave device=True out to make it a kernel")
        self._check_one_value_each()
        return self._emit()

    def _need_function(self, binding: Binding) -> dict[str, Any]:
        """Check a function, take it and all that it refers to; returns its decorator's options."""
        node = binding.node
        assert isinstance(node, ast.FunctionDef)
        options = self._check_decorator(binding, node)
        if binding.position in self.needed:
            return options
        self._check_arguments(binding, node)
        self._take(binding)
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
            self._refuse(binding, f"uses {name!r}, which no cell defines{self._hint(name)}", user)
        if found.what == "import":
            self._need_import(binding, found, user)
            return
        self.looked_up[name] = found.position
        if found.what == "constant":
            self._need_constant(binding, found, user)
        elif found.what == "other":
            self._refuse(
                binding,
                f"uses {name!r}, which is {found.described} ({self.notebook.quote(found)})",
                user,
            )
        else:
            assert isinstance(found.node, ast.FunctionDef)
            if not found.node.decorator_list:
                self._refuse(
                    binding,
                    f"calls {name!r}, a plain Python function; put @cuda.jit(device=True) above it",
                    user,
                )
            self._need_function(found)

    def _need_import(self, binding: Binding, found: Binding, user: ast.AST) -> None:
        module = found.path if found.path in MODULES else found.path.rpartition(".")[0]
        if module not in MODULES:
            self._refuse(
                binding,
                f"uses {found.name!r} from {found.path}; device code may use math, numpy, "
                "operator, numba and numba.cuda",
                user,
            )
        for other in self.notebook.bindings[found.name]:
            if other.what != "import":
                self._refuse(
                    binding,
                    f"uses {found.name!r}, an import whose name is given to something else "
                    f"({self.notebook.quote(other)})",
                    user,
                )
        taken = self.imports.setdefault(found.name, found)
        if taken.path != found.path:
            self._refuse(
                binding, f"uses {found.name!r} for both {taken.path} and {found.path}", user
            )

    def _need_constant(self, binding: Binding, found: Binding, user: ast.AST) -> Any:
        try:
            value = self.constants.value(found)
        except NotLiteral as problem:
            self._refuse(
                binding,
                f"uses {found.name!r}, which is {problem} ({self.notebook.quote(found)}). A kernel "
                "can use numbers, strings, tuples and types written out at the top level of a "
                "cell; pass anything else as an argument",
                user,
            )
        for used in self.constants.used.values():
            self._take(used)
        for used in self.constants.imports:
            self._need_import(binding, used, user)
        return value

    def _take(self, binding: Binding) -> None:
        if binding.position in self.needed:
            return
        self.needed[binding.position] = binding
        if len(self.needed) > MAX_DEFINITIONS:
            self._refuse(binding, f"needs more than {MAX_DEFINITIONS} definitions")
        lines = cut(self.notebook.texts[binding.cell], binding.node)
        if lines is None:
            self._refuse(
                binding,
                "is laid out so that it cannot be taken out of its cell; leave out annotations "
                "and write @cuda.jit on one line",
            )
        self.texts[binding.position] = lines

    def _check_decorator(self, binding: Binding, node: ast.FunctionDef) -> dict[str, Any]:
        if not node.decorator_list:
            self._refuse(binding, "is a plain Python function; put @cuda.jit above its def")
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
            if not isinstance(option.value, ast.Constant):
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
                self._refuse(binding, f"uses {found[1]}, which is not device code", node)

    def _global_names(self, binding: Binding) -> set[str]:
        """Names that the function, or one nested in it, looks up at module level."""
        text = "\n".join(self.texts[binding.position])
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
            return self._is_signature(binding, node.value) and all(map(_is_plain_slice, inner))
        if isinstance(node, ast.Name):
            found = self.notebook.resolve(node.id, binding.position)
            if found is not None and found.what == "constant" and found.position < binding.position:
                value = self._need_constant(binding, found, node)
                return value is TYPE or isinstance(value, str)
        path = self._imported(binding, node)
        return path is not None and is_type(path)

    def _check_one_value_each(self) -> None:
        """In source order, the last value that each name gets must be the one looked up."""
        last: dict[str, Position] = {}
        for position in sorted(self.needed):
            last.update(dict.fromkeys(_defines(self.needed[position]), position))
        for name, position in self.looked_up.items():
            if last[name] != position:
                self._refuse(self.needed[position], f"needs {name!r} with two different values")

    def _emit(self) -> Lifted:
        lines: list[str] = []
        origin: dict[int, tuple[int, int]] = {}
        names: list[str] = []
        for name, binding in sorted(self.imports.items()):
            lines.append(_import_line(name, binding.path))
            origin[len(lines)] = (binding.cell, binding.node.lineno)
        for position in sorted(self.needed):
            binding = self.needed[position]
            names += _defines(binding)
            if isinstance(binding.node, ast.FunctionDef):
                lines += ["", ""]
            for line, text in enumerate(self.texts[position], first_line(binding.node)):
                lines.append(text)
                origin[len(lines)] = (binding.cell, line)
        source = "\n".join(lines) + "\n"
        return Lifted(source, tuple(dict.fromkeys(names)), origin, tuple(self.notebook.notes))

    def _hint(self, name: str) -> str:
        if not name.isascii():
            return "; it holds a letter that only looks like a plain one"
        if self.notebook.star_modules:
            module = self.notebook.star_modules[-1]
            return f"; `from {module} import *` does not say what it brings, import by name"
        return ""

    def _refuse(self, binding: Binding, reason: str, node: ast.AST | None = None) -> NoReturn:
        line = getattr(node, "lineno", binding.node.lineno)
        who = "" if binding.name == self.name else f"it needs {binding.name!r}, which "
        raise NotAKernel(self.name, who + reason, binding.cell, line)


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


def _is_plain_slice(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Slice)
        and node.lower is None
        and node.upper is None
        and (node.step is None or isinstance(node.step, ast.Constant))
    )


def _defines(binding: Binding) -> list[str]:
    if isinstance(binding.node, ast.FunctionDef):
        return [binding.node.name]
    return [name for name, _ in constant_pairs(binding.node)]


def _import_line(name: str, path: str) -> str:
    if path == "numba":
        return "import numba, numba.cuda" if name == "numba" else f"import numba as {name}"
    module, _, leaf = path.rpartition(".")
    renamed = "" if name == leaf else f" as {name}"
    return f"from {module} import {leaf}{renamed}" if module else f"import {path}{renamed}"
