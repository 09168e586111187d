"""Reads a lab's single source, ``solutions/<part>/<lab>.md``, into a :class:`LabSource`.

A source is a MyST notebook whose cells carry one tag of one vocabulary. Everything downstream
(the learner's notebook, the proof of the tests, the grading) is derived from what this module
returns. A malformed source raises one :class:`SourceError` that lists every fault found, each as
``file:line: what is wrong``.

Limit: the reader judges the form of a source; that its tests are *good* is for ``verify`` to prove.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import yaml
from jupytext.myst import MystMetadataParsingError, myst_to_notebook

from kernelbook.errors import SourceError

SOLUTIONS = Path("solutions")


class Tag(StrEnum):
    """The one vocabulary of cell tags; an untagged cell is shown to the learner as it is."""

    EXERCISE = "exercise"
    CHECK = "check"
    HIDDEN = "hidden"
    HINT = "hint"
    ALTERNATIVE = "alternative"
    WRONG = "wrong"
    BENCHMARK = "benchmark"


class Kind(StrEnum):
    """What an answer is: device code, host code, or the text of a CUDA C++ kernel."""

    KERNEL = "kernel"
    FUNCTION = "function"
    SOURCE = "source"


# Presentation tags that Jupyter Book knows; they change nothing here.
VIEW_TAGS = frozenset({"hide-input", "hide-output", "hide-cell", "remove-input"})

KEYS: Mapping[Tag, frozenset[str]] = {
    Tag.EXERCISE: frozenset({"exercise", "kind", "signature", "out", "entry"}),
    Tag.CHECK: frozenset({"exercise"}),
    Tag.HIDDEN: frozenset({"exercise", "points", "category", "message", "device"}),
    Tag.HINT: frozenset({"exercise"}),
    Tag.ALTERNATIVE: frozenset({"exercise"}),
    Tag.WRONG: frozenset({"exercise", "fails", "because", "device"}),
    Tag.BENCHMARK: frozenset({"exercise", "peers", "bytes", "flops"}),
}

BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
MARKER = re.compile(r"^\s*(?:###|//)\s*(BEGIN|END) SOLUTION\s*$")


@dataclass(frozen=True)
class Cell:
    """One cell as it stands in the source. ``line`` is 1-based: where its text begins."""

    cell_type: str
    source: str
    line: int
    tag: Tag | None
    exercise: str | None
    view_tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class HiddenTest:
    """A hidden test cell. ``name`` is its ``category``: what it covers; it names the test."""

    exercise: str
    name: str
    points: int
    message: str
    source: str
    line: int
    device: str = "any"  # "gpu": counted and run only where there is one

    def runs_on(self, device: str) -> bool:
        return self.device in ("any", device)


@dataclass(frozen=True)
class Answer:
    """Code that stands in for an exercise cell: an alternative, or a wrong answer."""

    exercise: str
    source: str
    line: int
    fails: str = ""  # the hidden test that must catch it; "" for an answer that must pass
    because: str = ""
    device: str = "any"  # where it must fail: a race may come out right on a GPU

    def runs_on(self, device: str) -> bool:
        return self.device in ("any", device)


@dataclass(frozen=True)
class Exercise:
    """One exercise: its reference solution and everything that belongs to it."""

    id: str
    kind: Kind
    signature: str  # numba types of a kernel's arguments, "" otherwise
    out: str  # the argument that a kernel writes
    entry: str  # the extern "C" name inside a CUDA C++ source, "" otherwise
    solution: str  # with the solution markers taken out
    stub: str  # what the learner gets
    line: int
    tests: tuple[HiddenTest, ...] = ()
    alternatives: tuple[Answer, ...] = ()
    wrong: tuple[Answer, ...] = ()
    checks: tuple[Cell, ...] = ()
    hints: tuple[Cell, ...] = ()
    region: str = ""  # the solution's own lines, which may appear nowhere in a release

    def points(self, device: str) -> int:
        return sum(test.points for test in self.tests if test.runs_on(device))


@dataclass(frozen=True)
class LabSource:
    """A lab as its author wrote it. ``version`` hashes the text: any edit is a new version."""

    id: str
    title: str
    path: Path
    version: str
    cells: tuple[Cell, ...]
    exercises: Mapping[str, Exercise]

    def tests(self, device: str) -> list[HiddenTest]:
        """The hidden tests that count on ``device`` ("sim" or "gpu"), in the source's order."""
        return [t for e in self.exercises.values() for t in e.tests if t.runs_on(device)]

    def max_points(self, device: str) -> int:
        return sum(test.points for test in self.tests(device))


def find(labs: list[str], root: Path = SOLUTIONS) -> list[Path]:
    """Paths of the named labs' sources, or of every lab when none is named.

    Raises SourceError for a name that has no source, with the nearest name that has.
    """
    known = {path_to_id(path, root): path for path in sorted(root.glob("*/*.md"))}
    labs = [_whole_name(lab, known) for lab in labs]
    missing = [lab for lab in labs if lab not in known]
    if missing:
        near = difflib.get_close_matches(missing[0], known, n=1, cutoff=0.7)
        hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(known) or 'none'}."
        raise SourceError(f"{root}: no lab is called {missing[0]!r}.{hint}")
    return [known[lab] for lab in labs] if labs else list(known.values())


def _whole_name(lab: str, known: Iterable[str]) -> str:
    """``reduce`` → ``cuda/reduce`` where only one part has such a lab."""
    whole = [name for name in known if name.split("/")[-1] == lab]
    return whole[0] if len(whole) == 1 else lab


def path_to_id(path: Path, root: Path = SOLUTIONS) -> str:
    """``solutions/cuda/reduce.md`` → ``cuda/reduce``."""
    return path.relative_to(root).with_suffix("").as_posix()


def read(path: Path, root: Path = SOLUTIONS) -> LabSource:
    """The lab at ``path``.

    Raises SourceError listing every fault found, each with file and line.
    """
    text = path.read_text(encoding="utf-8")
    return _Reader(path, text).lab(path_to_id(path, root))


def split_solution(source: str, comment: str = "#") -> tuple[str, str, str]:
    """``(solution, stub, region)`` of an exercise cell.

    The solution is the cell without its markers, the stub has every region replaced by
    "YOUR CODE HERE" (and, in Python, ``pass``), the region is the hidden lines alone.
    Raises ValueError where the markers do not pair.
    """
    solution: list[str] = []
    stub: list[str] = []
    region: list[str] = []
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        marker = MARKER.match(line)
        if marker is None:
            solution.append(line)
            (region if inside else stub).append(line)
            continue
        if (marker[1] == "BEGIN") == inside:
            raise ValueError(f"line {number} of the cell: {line.strip()!r} has no partner")
        inside = not inside
        if inside:
            indent = line[: len(line) - len(line.lstrip())]
            stub.append(f"{indent}{comment} YOUR CODE HERE")
            if comment == "#":
                stub.append(f"{indent}pass")
    if inside:
        raise ValueError(f"{BEGIN!r} is never closed by {END!r}")
    if not region:
        raise ValueError(f"no lines between '### {BEGIN}' and '### {END}'")
    return "\n".join(solution), "\n".join(stub), "\n".join(region)


def bound_names(tree: ast.Module) -> set[str]:
    """Names that a cell's own statements define or assign, at its top level."""
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign):
            bound |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return bound


class _Reader:
    """Collects the faults of one file, so that an author sees them all at once."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.faults: list[str] = []

    def fault(self, line: int, what: str) -> None:
        self.faults.append(f"{self.path}:{line}: {what}")

    def lab(self, lab_id: str) -> LabSource:
        cells = list(self._cells(lab_id))
        exercises = self._exercises([c for c, _ in cells], [m for _, m in cells])
        if self.faults:
            raise SourceError("\n".join(self.faults))
        title = next((c.source for c, _ in cells if c.cell_type == "markdown"), lab_id)
        return LabSource(
            id=lab_id,
            title=title.splitlines()[0].lstrip("# ").strip(),
            path=self.path,
            version=hashlib.sha256(self.text.encode()).hexdigest()[:12],
            cells=tuple(cell for cell, _ in cells),
            exercises=exercises,
        )

    def _cells(self, lab_id: str) -> Iterator[tuple[Cell, dict[str, Any]]]:
        try:
            notebook = myst_to_notebook(self.text, add_source_map=True)
        except (MystMetadataParsingError, yaml.YAMLError, ValueError) as error:
            raise SourceError(f"{self.path}:1: the file cannot be read as MyST: {error}") from error
        declared = (notebook.metadata.get("kernelbook") or {}).get("lab")
        if declared != lab_id:
            self.fault(
                1, f"front matter says kernelbook.lab: {declared!r}, the path says {lab_id!r}"
            )
        lines = self.text.splitlines()
        for cell, start in zip(notebook.cells, notebook.metadata["source_map"], strict=True):
            line = _first_line(cell, lines, start)
            metadata = dict(cell.metadata)
            tag, view = self._tag(metadata.pop("tags", []), line)
            exercise = metadata.get("exercise")
            if tag is None and metadata:
                self.fault(line, f"metadata {sorted(metadata)} on a cell without a tag")
            if tag is not None:
                self._keys(tag, metadata, line)
                if (cell.cell_type == "markdown") != (tag is Tag.HINT):
                    self.fault(line, f"a {cell.cell_type} cell cannot be tagged {tag!s}")
            yield (
                Cell(cell.cell_type, cell.source, line, tag, cast("str | None", exercise), view),
                metadata,
            )

    def _tag(self, tags: object, line: int) -> tuple[Tag | None, tuple[str, ...]]:
        if isinstance(tags, str):
            tags = [tags]
        if not isinstance(tags, list):
            self.fault(line, f"tags must be a list, found {tags!r}")
            return None, ()
        ours = [t for t in tags if t in Tag.__members__.values()]
        unknown = [t for t in tags if t not in ours and t not in VIEW_TAGS]
        for tag in unknown:
            near = difflib.get_close_matches(str(tag), [t.value for t in Tag], n=1)
            wanted = f"; did you mean {near[0]!r}?" if near else f"; wanted one of {', '.join(Tag)}"
            self.fault(line, f"unknown tag {tag!r}{wanted}")
        if len(ours) > 1:
            self.fault(line, f"a cell carries one tag, found {ours}")
        return (Tag(ours[0]) if ours else None), tuple(t for t in tags if t in VIEW_TAGS)

    def _keys(self, tag: Tag, metadata: dict[str, Any], line: int) -> None:
        for key in metadata.keys() - KEYS[tag]:
            near = difflib.get_close_matches(key, KEYS[tag], n=1)
            wanted = f"did you mean {near[0]!r}?" if near else f"known: {sorted(KEYS[tag])}"
            self.fault(line, f"unknown key {key!r} on a cell tagged {tag!s}; {wanted}")
        exercise = metadata.get("exercise")
        if not isinstance(exercise, str) or not exercise.isidentifier() or len(exercise) > 48:
            self.fault(
                line, f"'exercise' must name the exercise (an identifier), found {exercise!r}"
            )

    def _exercises(self, cells: list[Cell], metadata: list[dict[str, Any]]) -> dict[str, Exercise]:
        owned: dict[str, list[tuple[Cell, dict[str, Any]]]] = {}
        heads: dict[str, tuple[Cell, dict[str, Any]]] = {}
        for cell, meta in zip(cells, metadata, strict=True):
            if cell.tag is Tag.EXERCISE and cell.exercise:
                if cell.exercise in heads:
                    first = heads[cell.exercise][0].line
                    self.fault(
                        cell.line,
                        f"exercise {cell.exercise!r} has two answer cells; first at line {first}",
                    )
                heads.setdefault(cell.exercise, (cell, meta))
            elif cell.tag is not None and cell.exercise:
                owned.setdefault(cell.exercise, []).append((cell, meta))
        for name in owned.keys() - heads.keys():
            near = difflib.get_close_matches(name, heads, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.fault(owned[name][0][0].line, f"no cell tagged exercise defines {name!r}{hint}")
        if not heads:
            self.fault(1, "a lab needs at least one cell tagged exercise")
        return {
            name: self._exercise(cell, meta, owned.get(name, []))
            for name, (cell, meta) in heads.items()
        }

    def _exercise(
        self, head: Cell, meta: dict[str, Any], owned: list[tuple[Cell, dict[str, Any]]]
    ) -> Exercise:
        name = str(head.exercise)
        kind = self._kind(meta, head.line)
        solution, stub, region = self._solution(head, kind)
        self._defines(name, kind, solution, head.line, "the solution")
        self._defines(name, kind, stub, head.line, "what is left for the learner")
        answers = [
            (cell, self._answer(name, kind, cell, m))
            for cell, m in owned
            if cell.tag in (Tag.ALTERNATIVE, Tag.WRONG)
        ]
        tests = [self._test(name, cell, m) for cell, m in owned if cell.tag is Tag.HIDDEN]
        self._proofs(name, tests, [a for cell, a in answers if cell.tag is Tag.WRONG])
        by_tag = {tag: tuple(c for c, _ in owned if c.tag is tag) for tag in Tag}
        if not by_tag[Tag.CHECK]:
            self.fault(head.line, f"exercise {name!r} has no check cell")
        if not tests:
            self.fault(head.line, f"exercise {name!r} has no hidden test")
        return Exercise(
            id=name,
            kind=kind,
            signature=str(meta.get("signature", "")),
            out=str(meta.get("out", "")),
            entry=str(meta.get("entry", "")),
            solution=solution,
            stub=stub,
            region=region,
            line=head.line,
            tests=tuple(tests),
            alternatives=tuple(a for cell, a in answers if cell.tag is Tag.ALTERNATIVE),
            wrong=tuple(a for cell, a in answers if cell.tag is Tag.WRONG),
            checks=by_tag[Tag.CHECK],
            hints=by_tag[Tag.HINT],
        )

    def _kind(self, meta: dict[str, Any], line: int) -> Kind:
        try:
            kind = Kind(meta.get("kind", ""))
        except ValueError:
            self.fault(line, f"kind: wanted one of {', '.join(Kind)}, found {meta.get('kind')!r}")
            return Kind.FUNCTION
        wanted = {Kind.KERNEL: "signature", Kind.SOURCE: "entry"}.get(kind)
        if wanted and not meta.get(wanted):
            self.fault(line, f"an exercise of kind {kind!s} needs '{wanted}'")
        return kind

    def _solution(self, head: Cell, kind: Kind) -> tuple[str, str, str]:
        try:
            return split_solution(head.source, "//" if kind is Kind.SOURCE else "#")
        except ValueError as error:
            self.fault(head.line, str(error))
            return head.source, head.source, ""

    def _answer(self, name: str, kind: Kind, cell: Cell, meta: dict[str, Any]) -> Answer:
        self._defines(name, kind, cell.source, cell.line, f"this {cell.tag!s} answer")
        return Answer(
            exercise=name,
            source=cell.source,
            line=cell.line,
            fails=str(meta.get("fails", "")),
            because=str(meta.get("because", "")),
            device=self._device(meta, cell.line, ("gpu", "sim")),
        )

    def _test(self, name: str, cell: Cell, meta: dict[str, Any]) -> HiddenTest:
        points = meta.get("points")
        if not isinstance(points, int) or isinstance(points, bool) or points < 0:
            self.fault(cell.line, f"points must be a whole number ≥ 0, found {points!r}")
            points = 0
        for key in ("category", "message"):
            if not isinstance(meta.get(key), str) or not meta[key].strip():
                self.fault(cell.line, f"a hidden test needs '{key}', found {meta.get(key)!r}")
        if "lab.answer(" not in cell.source:
            self.fault(cell.line, "a hidden test answers: it never calls lab.answer(...)")
        return HiddenTest(
            exercise=name,
            name=str(meta.get("category", "")).strip(),
            points=points,
            message=str(meta.get("message", "")).strip(),
            source=cell.source,
            line=cell.line,
            device=self._device(meta, cell.line),
        )

    def _device(self, meta: dict[str, Any], line: int, known: tuple[str, ...] = ("gpu",)) -> str:
        device = meta.get("device", "any")
        if device not in ("any", *known):
            wanted = " or ".join(map(repr, known))
            self.fault(line, f"device: wanted {wanted} or nothing, found {device!r}")
        return str(device)

    def _proofs(self, name: str, tests: list[HiddenTest], wrong: list[Answer]) -> None:
        names = [test.name for test in tests]
        for test in tests:
            if names.count(test.name) > 1:
                self.fault(test.line, f"two hidden tests of {name!r} are called {test.name!r}")
        for answer in wrong:
            if answer.fails not in names:
                near = difflib.get_close_matches(answer.fails, names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {names}"
                self.fault(answer.line, f"fails: no hidden test is called {answer.fails!r}{hint}")
            if not answer.because:
                self.fault(answer.line, "a wrong answer says what is wrong: 'because' is missing")

    def _defines(self, name: str, kind: Kind, code: str, line: int, what: str) -> None:
        try:
            tree = ast.parse(code)
        except SyntaxError as error:
            self.fault(line + (error.lineno or 1) - 1, f"{what} is not valid Python: {error.msg}")
            return
        if name not in bound_names(tree):
            noun = "assign the source to" if kind is Kind.SOURCE else "define"
            self.fault(line, f"{what} does not {noun} {name!r}")


def _first_line(cell: Any, lines: list[str], start: int) -> int:
    """1-based line where the cell's own text begins: past its fence, metadata and blank lines."""
    first = cell.source.splitlines()[0] if cell.source else ""
    for number in range(start, min(start + 40, len(lines))):
        if lines[number] == first and not (cell.cell_type == "code" and number < start):
            return number + 1
    return start + 1
