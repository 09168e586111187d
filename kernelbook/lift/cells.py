"""Notebook cells as syntax trees, and what each name is bound to at module level.

Limit: IPython's magic lines are passed over, not run; a cell that still does not parse is passed
over with a note, unless it is the one that defines the name in question.
"""

from __future__ import annotations

import ast
import bisect
import re
import textwrap
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kernelbook.lift.lifted import NotAKernel, shortened

MAX_CELL_CHARS = 100_000
MAX_NOTEBOOK_CHARS = 500_000  # a syntax tree takes some 400 bytes a character
MAX_REMEMBERED_CHARS = 600_000

CELL_MAGICS_KEPT = frozenset({"%%capture", "%%prun", "%%time"})  # they run the cell as it is
MAGIC_LINE = re.compile(r"[%!?]|[\w.]+\?{1,2}$|[\w, ]+=\s*[%!]")  # on a line without its margins
_IN_CODE = re.compile(r"#|\"\"\"|'''|[\"'()\[\]{}]|\\$")
_IN_STRING = {q: re.compile(rf"\\.|\\$|{q}") for q in ('"', "'", '"""', "'''")}

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
        if sum(len(cell) for cell in cells if len(cell) <= MAX_CELL_CHARS) > MAX_NOTEBOOK_CHARS:
            limit = f"{MAX_NOTEBOOK_CHARS:,} characters"
            raise NotAKernel(name, f"cannot be looked for: the code cells hold more than {limit}")
        for index, source in enumerate(cells):
            cell = _read(source)
            self.texts.append(cell.text)
            self.star_modules += cell.star_modules
            if cell.problem:
                broken.append((index, cell.problem, cell.line))
                head = next((row.strip() for row in source.split("\n") if row.strip()), "")
                begins = shortened(head, 60)
                self.notes.append(f"the cell `{begins}` was passed over: {cell.problem}")
            for binding in cell.bindings:
                placed = replace(binding, position=(index, binding.position[1]))
                self.bindings.setdefault(binding.name, []).append(placed)
        last = self.bindings[name][-1].cell if name in self.bindings else -1
        defines = re.compile(rf"^[ \t]*(def\s+{name}\b|{name}\s*=[^=])", re.MULTILINE)
        for index, problem, line in broken:
            if index > last and defines.search(cells[index]):
                raise NotAKernel(name, problem, index, line)

    def resolve(self, name: str, position: Position) -> Binding | None:
        """What ``name`` is bound to at ``position``, else what it is bound to first after it."""
        found = self.bindings.get(name, [])
        after = bisect.bisect_right(found, position, key=lambda binding: binding.position)
        return found[max(after - 1, 0)] if found else None

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
        """How the line of a binding reads: a reader finds it by its text."""
        text = self.texts[binding.cell].split("\n")[binding.node.lineno - 1].strip()[:80]
        return f"`{text}`"


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
    text = "\n".join(lines)
    tree, problem, line = _parse(text)
    if tree is None:
        plain = "\n".join(_without_magics(lines))
        if plain != text:
            text = plain
            tree, problem, line = _parse(text)
    return text, tree, problem, line


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


@dataclass(frozen=True)
class Cell:
    """One cell as read: its text as parsed, what it binds, or why nothing was read of it."""

    text: str
    bindings: tuple[Binding, ...] = ()
    star_modules: tuple[str, ...] = ()
    problem: str = ""
    line: int | None = None  # of the problem


class _Memory:
    """Cells as read, by their source, the last used up to `MAX_REMEMBERED_CHARS` of it."""

    def __init__(self) -> None:
        self.cells: OrderedDict[str, Cell] = OrderedDict()
        self.chars = 0
        self.lock = threading.Lock()

    def get(self, source: str) -> Cell | None:
        with self.lock:
            if source in self.cells:
                self.cells.move_to_end(source)
            return self.cells.get(source)

    def keep(self, source: str, cell: Cell) -> None:
        with self.lock:
            if source in self.cells or len(source) > MAX_CELL_CHARS:
                return
            self.cells[source] = cell
            self.chars += len(source)
            while self.chars > MAX_REMEMBERED_CHARS:
                oldest, _ = self.cells.popitem(last=False)
                self.chars -= len(oldest)


_memory = _Memory()


def _read(source: str) -> Cell:
    """A cell as read, from memory where it was read before: each exercise lifts the same cells."""
    cell = _memory.get(source)
    if cell is None:
        text, tree, problem, line = parse_cell(source)
        bindings: list[Binding] = []
        stars: list[str] = []
        for number, statement in enumerate(tree.body if tree else []):
            _bind(statement, number, bindings, stars)
        cell = Cell(text, tuple(bindings), tuple(stars), problem, line)
        _memory.keep(source, cell)
    return cell


def _bind(node: ast.stmt, number: int, bindings: list[Binding], stars: list[str]) -> None:
    """Add what the statement binds, in a cell that stands nowhere yet."""

    def add(name: str, what: Any, **more: Any) -> None:
        bindings.append(Binding(name, what, node, (0, number), **more))

    for name in _walrus_names(node):
        add(name, "other", described="set inside an expression by :=")
    if isinstance(node, ast.FunctionDef):
        add(node.name, "function")
    elif isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            add(bound, "import", path=alias.name if alias.asname else bound)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                stars.append(node.module or ".")
                continue
            path = f"{'.' * node.level}{node.module or ''}.{alias.name}"
            add(alias.asname or alias.name, "import", path=path)
    elif pairs := constant_pairs(node):
        for name, value in pairs:
            add(name, "constant", value=value)
    else:
        for name, described in _names_bound_in(node):
            add(name, "other", described=described)


def _without_magics(lines: list[str]) -> list[str]:
    """The lines with ``pass`` in place of each magic where a statement could begin.

    A magic lookalike inside a string or a bracket stays: ``%0`` in assembler, ``ok =!done`` in C++.
    """
    kept: list[str] = []
    quote, depth, joined = "", 0, False
    for line in lines:
        bare = line.strip()
        if not (quote or depth or joined) and MAGIC_LINE.match(bare):
            kept.append(line[: len(line) - len(line.lstrip())] + "pass")
            continue
        kept.append(line)
        quote, depth, joined = _state_after(line, quote, depth)
    return kept


def _state_after(line: str, quote: str, depth: int) -> tuple[str, int, bool]:
    """(open quote, open brackets, whether a backslash goes on) at a line's end."""
    at, joined = 0, False
    while found := (_IN_STRING[quote] if quote else _IN_CODE).search(line, at):
        mark, at = found[0], found.end()
        joined = mark == "\\"
        if joined or mark == "#":
            break
        if quote:
            quote = "" if mark == quote else quote
        elif mark in _IN_STRING:
            quote = mark
        else:
            depth = max(depth + (1 if mark in "([{" else -1), 0)
    if len(quote) == 1 and not joined:
        quote = ""  # a plain string ends with its line
    return quote, depth, joined


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
        ast.AnnAssign: "named with a type but given no value",
        ast.AsyncFor: "set by a loop",
        ast.AsyncWith: "set inside a with block",
        ast.For: "set by a loop",
        ast.If: "set inside an if",
        ast.Match: "set inside a match",
        ast.Try: "set inside a try block",
        ast.TryStar: "set inside a try block",
        ast.While: "set inside a while loop",
        ast.With: "set inside a with block",
    }.get(type(statement), "set inside a larger statement")
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
