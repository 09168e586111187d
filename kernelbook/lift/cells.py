"""Notebook cells as syntax trees, and what each name is bound to at module level.

Limit: IPython's magic lines are passed over, not run; a cell that still does not parse is passed
over with a note, unless it is the one that defines the name in question.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernelbook.lift.lifted import NotAKernel

MAX_CELL_CHARS = 100_000
MAX_MAGIC_LINES = 40

CELL_MAGICS_KEPT = frozenset({"%%capture", "%%prun", "%%time"})  # they run the cell as it is
MAGIC_LINE = re.compile(r"\s*([%!?]|[\w.]+\?{1,2}\s*$|[\w, ]+=\s*[%!])")

Position = tuple[int, int]  # (cell, statement in that cell)


@dataclass(frozen=True)
class Binding:
    """One statement that gives a name its value at module level."""

    name: str
    what: Literal["function", "constant", "import", "other"]
    node: ast.stmt
    position: Position
    value: ast.expr | None = None  # of a constant
    path: str = ""  # of an import: the full name, such as numba.cuda.jit
    described: str = ""  # of another: "a class", …

    @property
    def cell(self) -> int:
        return self.position[0]


class Notebook:
    """The cells, parsed, and the bindings of each name in notebook order.

    Raises: NotAKernel when the last cell that defines ``name`` is not Python.
    """

    def __init__(self, cells: Sequence[str], name: str) -> None:
        self.texts: list[str] = []
        self.notes: list[str] = []
        self.bindings: dict[str, list[Binding]] = {}
        self.star_modules: list[str] = []
        broken: list[tuple[int, str, int | None]] = []
        for index, cell in enumerate(cells):
            text, tree, problem, line = parse_cell(cell)
            self.texts.append(text)
            if tree is None:
                broken.append((index, problem, line))
                self.notes.append(f"code cell {index + 1} was passed over: {problem}")
                continue
            for number, statement in enumerate(tree.body):
                self._bind(statement, (index, number))
        last = self.bindings[name][-1].cell if name in self.bindings else -1
        defines = re.compile(rf"^[ \t]*(def\s+{name}\b|{name}\s*=[^=])", re.MULTILINE)
        for index, problem, line in broken:
            if index > last and defines.search(cells[index]):
                raise NotAKernel(name, problem, index, line)

    def resolve(self, name: str, position: Position) -> Binding | None:
        """What ``name`` is bound to at ``position``, else what it is bound to first after it."""
        found = self.bindings.get(name, [])
        before = [binding for binding in found if binding.position <= position]
        return before[-1] if before else (found[0] if found else None)

    def path(self, node: ast.expr, position: Position) -> tuple[Binding, str] | None:
        """(import, full name) behind a dotted expression such as ``np.float32``, else None."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        found = self.resolve(node.id, position) if isinstance(node, ast.Name) else None
        if found is None or found.what != "import":
            return None
        return found, ".".join([found.path, *reversed(attributes)])

    def quote(self, binding: Binding) -> str:
        """Where a binding stands and how its line reads."""
        line = binding.node.lineno
        text = self.texts[binding.cell].split("\n")[line - 1].strip()[:80]
        return f"code cell {binding.cell + 1}, line {line}: `{text}`"

    def _bind(self, node: ast.stmt, position: Position) -> None:
        def add(name: str, what: Any, **more: Any) -> None:
            self.bindings.setdefault(name, []).append(Binding(name, what, node, position, **more))

        for name in _walrus_names(node):
            add(name, "other", described="set by a walrus expression")
        if isinstance(node, ast.FunctionDef):
            add(node.name, "function")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                add(bound, "import", path=alias.name if alias.asname else bound)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "*":
                    self.star_modules.append(node.module or ".")
                    continue
                path = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                add(alias.asname or alias.name, "import", path=path)
        elif pairs := constant_pairs(node):
            for name, value in pairs:
                add(name, "constant", value=value)
        else:
            for name, described in _names_bound_in(node):
                add(name, "other", described=described)


def parse_cell(text: str) -> tuple[str, ast.Module | None, str, int | None]:
    """(text as parsed, tree or None, why there is none, line). Lines keep their numbers."""
    if len(text) > MAX_CELL_CHARS:
        return "", None, f"it is longer than {MAX_CELL_CHARS:,} characters", None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    head = next((line.strip() for line in lines if line.strip()), "")
    if head.startswith("%%"):
        if head.split()[0] not in CELL_MAGICS_KEPT:
            return text, None, f"a {head.split()[0]} cell does not define names here", None
        lines[next(i for i, line in enumerate(lines) if line.strip())] = ""
    elif head and lines[0][:1] in " \t":
        lines = textwrap.dedent(text).split("\n")  # as IPython does
    first_problem: tuple[str, int | None] = ("", None)
    for _ in range(MAX_MAGIC_LINES):
        text = "\n".join(lines)
        tree, problem, line = _parse(text)
        if tree is not None:
            return text, tree, "", None
        first_problem = first_problem if first_problem[0] else (problem, line)
        if line is None or line > len(lines) or not MAGIC_LINE.match(lines[line - 1]):
            break
        magic = lines[line - 1]
        lines[line - 1] = magic[: len(magic) - len(magic.lstrip())] + "pass"
    return text, None, *first_problem


def constant_pairs(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    """(name, value) for each name of a plain assignment, [] for any other statement."""
    if isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
        return [(node.target.id, node.value)]
    if not isinstance(node, ast.Assign):
        return []
    pairs: list[tuple[str, ast.expr]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            pairs.append((target.id, node.value))
            continue
        names = target.elts if isinstance(target, ast.Tuple) else []
        values = node.value.elts if isinstance(node.value, ast.Tuple) else []
        if not names or len(names) != len(values):
            return []
        for name, value in zip(names, values, strict=True):
            if not isinstance(name, ast.Name):
                return []
            pairs.append((name.id, value))
    return pairs


def _parse(text: str) -> tuple[ast.Module | None, str, int | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), "", None
    except SyntaxError as error:
        quoted = f": `{error.text.strip()[:80]}`" if error.text and error.text.strip() else ""
        return None, f"Python cannot read it: {error.msg}{quoted}", error.lineno
    except ValueError as error:
        return None, f"it is not text that Python can read ({error})", None
    except (RecursionError, MemoryError):
        return None, "it is nested too deeply to be read", None


def _walrus_names(statement: ast.stmt) -> Iterator[str]:
    """Names that ``:=`` binds at module level, in decorators and comprehensions too."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            stack += [*node.decorator_list, node.args]
            continue
        if isinstance(node, ast.NamedExpr):
            yield node.target.id
        stack.extend(ast.iter_child_nodes(node))


def _names_bound_in(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, how) for every other way in which a statement binds module-level names."""
    how = {
        ast.ClassDef: "a class",
        ast.AsyncFunctionDef: "an async function",
        ast.AugAssign: "changed in place",
        ast.Delete: "deleted",
        ast.Assign: "set by an assignment that cannot be read without running it",
    }.get(type(statement), f"bound inside a larger statement ({type(statement).__name__})")
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, how
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.comprehension):
            stack += [node.iter, *node.ifs]
            continue
        if isinstance(node, ast.NamedExpr):
            stack.append(node.value)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, how
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name.partition(".")[0]), how
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, how
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, how
        stack.extend(ast.iter_child_nodes(node))
