"""Turns a :class:`LabSource` into the notebook that a learner opens, and finds what leaks.

The release is a pure function of the source: same text, same bytes. Cell ids are derived from the
exercise's id (``block_sum``, ``block_sum-check-1``), so that a submission can be joined to its
source however a notebook service has rewritten the rest. Every answer and check cell also carries
nbgrader's metadata, schema 3, so that tools made for it open our notebooks.

Nothing of the solution or of a hidden test may reach a learner: :func:`leaks` compares a release
with the source line by line and literal by literal, and :func:`write` refuses one that leaks.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kernelbook.errors import SourceError
from kernelbook.source import Cell, Exercise, LabSource, Tag

LABS = Path("labs")
KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}
NBGRADER_SCHEMA = 3
MARKER = "# exercise:"

# Shorter solution lines ("else:", "i += 1") say nothing about a solution.
TELLING_LINE = 16
TELLING_TEXT = 8
TELLING_NUMBER = 1000
NUMBER = r"\d+(?:[_,]\d{3})*"


def path_of(lab_id: str, root: Path = LABS) -> Path:
    """``cuda/reduce`` → ``labs/cuda/reduce.ipynb``."""
    return root / f"{lab_id}.ipynb"


def build(lab: LabSource) -> NotebookNode:
    """The learner's notebook: no outputs, no solution, no hidden test."""
    return new_notebook(
        cells=list(_Release(lab).cells()),
        metadata={
            "kernelspec": dict(KERNELSPEC),
            "language_info": {"name": "python"},
            "kernelbook": {"lab": lab.id, "version": lab.version},
        },
    )


def text_of(notebook: NotebookNode) -> str:
    """The notebook file's exact text."""
    return str(nbformat.writes(notebook, version=4)).rstrip("\n") + "\n"


def write(lab: LabSource, root: Path = LABS) -> Path:
    """Write the release of ``lab`` and return its path.

    Raises SourceError when the release would show a part of a solution or of a hidden test.
    """
    notebook = build(lab)
    found = leaks(lab, notebook)
    if found:
        raise SourceError("\n".join(str(leak) for leak in found))
    path = path_of(lab.id, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(notebook), encoding="utf-8")
    return path


def is_stale(lab: LabSource, root: Path = LABS) -> bool:
    """True when the committed notebook is not what the source gives today."""
    path = path_of(lab.id, root)
    return not path.exists() or path.read_text(encoding="utf-8") != text_of(build(lab))


def orphans(labs: list[LabSource], root: Path = LABS) -> list[Path]:
    """Notebooks under ``root`` that no source gives."""
    known = {path_of(lab.id, root) for lab in labs}
    found = (p for p in root.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    return sorted(path for path in found if path not in known)


class _Release:
    """Walks the source's cells and gives each its id."""

    def __init__(self, lab: LabSource) -> None:
        self.lab = lab
        self.counts: dict[str, int] = {}
        self.unsealed = {e.id: len(e.checks) for e in lab.exercises.values()}

    def cells(self) -> Iterator[NotebookNode]:
        for cell in self.lab.cells:
            if cell.tag is None:
                yield self._plain(cell)
            elif cell.tag is Tag.HINT:
                yield self._hint(cell)
            elif cell.tag is Tag.EXERCISE:
                yield self._exercise(self.lab.exercises[str(cell.exercise)])
            elif cell.tag is Tag.CHECK:
                yield from self._check(cell, self.lab.exercises[str(cell.exercise)])

    def _id(self, stem: str) -> str:
        self.counts[stem] = self.counts.get(stem, 0) + 1
        return f"{stem}-{self.counts[stem]}"

    def _plain(self, cell: Cell) -> NotebookNode:
        if cell.cell_type == "markdown":
            return new_markdown_cell(cell.source, id=self._id("text"))
        metadata = {"tags": list(cell.view_tags)} if cell.view_tags else {}
        name = self._id("context")
        return _graded(new_code_cell(cell.source, id=name, metadata=metadata), name, locked=True)

    def _hint(self, cell: Cell) -> NotebookNode:
        name = self._id(f"{cell.exercise}-hint")
        rung = self.counts[f"{cell.exercise}-hint"]
        text = f"<details><summary>Hint {rung}</summary>\n\n{cell.source}\n\n</details>"
        return new_markdown_cell(text, id=name, metadata=_joined(Tag.HINT, cell.exercise))

    def _exercise(self, exercise: Exercise) -> NotebookNode:
        # The comment outlives a service that drops ids and metadata, and a cell that won't parse.
        text = f"{MARKER} {exercise.id}\n{exercise.stub}"
        cell = new_code_cell(text, id=exercise.id, metadata=_joined(Tag.EXERCISE, exercise.id))
        return _graded(cell, exercise.id, solution=True)

    def _check(self, cell: Cell, exercise: Exercise) -> Iterator[NotebookNode]:
        name = self._id(f"{exercise.id}-check")
        check = new_code_cell(cell.source, id=name, metadata=_joined(Tag.CHECK, exercise.id))
        first = self.counts[f"{exercise.id}-check"] == 1
        points = exercise.points("gpu") if first else 0
        yield _graded(check, name, grade=True, locked=True, points=points)
        if self.counts[f"{exercise.id}-check"] == self.unsealed[exercise.id]:
            yield new_markdown_cell(_sealed(exercise), id=f"{exercise.id}-sealed")


def _sealed(exercise: Exercise) -> str:
    total, gpu_only = len(exercise.tests), sum(t.device == "gpu" for t in exercise.tests)
    noun = "sealed test" if total == 1 else "sealed tests"
    extra = f", {gpu_only} of them only on a GPU" if gpu_only else ""
    return (
        f"*The check above is public and carries no marks. {total} {noun}{extra} "
        f"({exercise.points('gpu')} points) run on inputs you have not seen when you hand in.*"
    )


def _joined(tag: Tag, exercise: str | None) -> dict[str, Any]:
    """Metadata that joins a cell to its exercise; JupyterLab keeps checks from being edited."""
    metadata: dict[str, Any] = {"tags": [tag.value], "kernelbook": {"exercise": exercise}}
    if tag is not Tag.HINT:
        metadata["deletable"] = False
    if tag is Tag.CHECK:
        metadata["editable"] = False
    return metadata


def _graded(
    cell: NotebookNode,
    grade_id: str,
    *,
    grade: bool = False,
    solution: bool = False,
    locked: bool = False,
    points: int = 0,
) -> NotebookNode:
    """The cell with nbgrader's metadata, checksum included."""
    entry: dict[str, Any] = {
        "schema_version": NBGRADER_SCHEMA,
        "grade": grade,
        "solution": solution,
        "locked": locked,
        "task": False,
        "grade_id": grade_id,
        "cell_type": cell.cell_type,
    }
    parts = [cell.source, cell.cell_type, str(grade), str(solution), str(locked), grade_id]
    if grade:
        entry["points"] = points
        parts.append(str(float(points)))
    # The order and the digest are nbgrader's (utils.compute_checksum, 0.9); no secret hangs on it.
    entry["checksum"] = hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()
    cell.metadata["nbgrader"] = entry
    return cell


@dataclass(frozen=True)
class Leak:
    """A part of a solution or hidden test that a released cell shows."""

    path: Path
    line: int
    what: str
    secret: str
    cell_id: str

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: {self.what} {self.secret!r} would be shown to the learner "
            f"in cell {self.cell_id!r}. Change it there, or here."
        )


def leaks(lab: LabSource, notebook: NotebookNode) -> list[Leak]:
    """Every telling line or literal of a solution or hidden test that ``notebook`` shows.

    Lines that a public code cell of the source holds too (``x = lab.rng()…``) are no secret;
    literals of hidden tests are secret wherever they stand.
    """
    public = {
        line
        for cell in lab.cells
        if cell.cell_type == "code" and cell.tag in (None, Tag.CHECK)
        for line in _lines(cell.source)
    }
    for exercise in lab.exercises.values():
        public |= set(_lines(exercise.stub))
    secrets = list(_secret_lines(lab, public))
    literals = list(_secret_literals(lab))
    found = []
    for cell in notebook.cells:
        shown = [cell.source, *map(str, _outputs(cell))]
        flat = "\n".join(" ".join(line.split()) for text in shown for line in text.splitlines())
        numbers = {re.sub("[_,]", "", n) for text in shown for n in re.findall(NUMBER, text)}
        for line, what, secret in secrets:
            if secret in flat:
                found.append(Leak(lab.path, line, what, secret, cell.id))
        for line, what, value in literals:
            if (value in numbers) if what == "number" else (value in flat):
                found.append(Leak(lab.path, line, f"hidden {what}", value, cell.id))
    return found


def _secret_lines(lab: LabSource, public: set[str]) -> Iterator[tuple[int, str, str]]:
    for exercise in lab.exercises.values():
        private = [(exercise.line, "solution line", exercise.region)]
        private += [(a.line, "solution line", a.source) for a in exercise.alternatives]
        private += [(t.line, "hidden test line", t.source) for t in exercise.tests]
        for start, what, text in private:
            for secret in dict.fromkeys(_lines(text)):
                if len(secret) >= TELLING_LINE and secret not in public:
                    yield start, what, secret


def _secret_literals(lab: LabSource) -> Iterator[tuple[int, str, str]]:
    for exercise in lab.exercises.values():
        for test in exercise.tests:
            shown_anyway = {exercise.signature, exercise.entry, exercise.id}
            for node in ast.walk(ast.parse(test.source)):
                if isinstance(node, ast.Constant) and node.value not in shown_anyway:
                    yield from _telling(node.value, test.line + node.lineno - 1)


def _telling(value: object, line: int) -> Iterator[tuple[int, str, str]]:
    if isinstance(value, str) and len(value) >= TELLING_TEXT:
        yield line, "text", " ".join(value.split())
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= TELLING_NUMBER:
        round_number = value & (value - 1) == 0 or set(str(value)[1:]) <= {"0"}
        if not round_number:
            yield line, "number", str(abs(value))


def _lines(text: str) -> list[str]:
    """The text's code lines, white space evened out, comments and docstring quotes left in."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _outputs(cell: NotebookNode) -> list[Any]:
    return [*cell.get("outputs", []), cell.metadata]
