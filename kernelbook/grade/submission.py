"""Reads whatever was handed in, and finds the learner's answer to each exercise.

Notebook services drop ids, metadata and order, and learners split, copy, retype and delete cells.
An answer is therefore looked for by cell id, then by tag, then by the marker comment that a release
carries, then by the name that it must define; the rule that matched is kept for the record. Only
the learner's own code cells are taken: checks and context always come from our source.

Limit: which of two answers a learner *meant* cannot be known; the last one counts, with a note.
"""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernelbook.errors import SubmissionError
from kernelbook.release import MARKER
from kernelbook.source import Exercise, LabSource, Tag, bound_names

MAX_BYTES = 20 * 2**20  # a solved lab has about 50 KiB; pictures in outputs rarely reach 5 MiB
MAX_CELLS = 2000
MAX_CODE_CHARS = 400_000  # of all code cells; a solved lab has about 20,000
MAX_PARSED_CHARS = 100_000  # of one cell: Python's parser takes 500 times its length in memory


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as handed in. ``position`` is 1-based among all cells of the notebook."""

    position: int
    cell_type: str
    source: str
    id: str
    exercise: str  # what its metadata claims: kernelbook's exercise or nbgrader's grade_id
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Submission:
    """A notebook that could be read. ``lab`` and ``version`` are what it says of itself."""

    path: str
    learner: str
    sha256: str
    submitted_at: str
    lab: str
    version: str
    cells: tuple[SubmittedCell, ...]


@dataclass(frozen=True)
class Found:
    """Where the answer to one exercise was found: ``rule`` is id, tag, marker, name or none."""

    rule: str
    cell: SubmittedCell | None


@dataclass(frozen=True)
class Matched:
    """The learner's code cells in their order, the answer to each exercise, and remarks."""

    cells: tuple[SubmittedCell, ...]
    answers: Mapping[str, Found]
    notes: tuple[str, ...]


def read(path: Path, learner: str) -> Submission:
    """The submission at ``path``.

    Raises SubmissionError with a sentence that the learner can act on.
    """
    data = _bytes(path)
    notebook = _notebook(data)
    cells = tuple(_cells(notebook))
    meta = _mapping(_mapping(notebook.get("metadata")).get("kernelbook"))
    return Submission(
        path=str(path),
        learner=learner,
        sha256=hashlib.sha256(data).hexdigest(),
        submitted_at=_time_of(path),
        lab=_text(meta.get("lab")) or _begun(cells),
        version=_text(meta.get("version")),
        cells=cells,
    )


def of_answers(lab: LabSource, answers: Mapping[str, str]) -> Submission:
    """A submission that holds exactly these answers: exercise id → the cell's source."""
    return Submission(
        path="",
        learner="",
        sha256="",
        submitted_at="",
        lab=lab.id,
        version=lab.version,
        cells=tuple(
            SubmittedCell(position, "code", source, name, name, ("exercise",))
            for position, (name, source) in enumerate(answers.items(), 1)
        ),
    )


def fingerprint(path: Path) -> tuple[str, str]:
    """``(sha256, time)`` of anything, for the record of a submission that cannot be read."""
    data = b""
    with suppress(SubmissionError):
        data = _bytes(path)
    return hashlib.sha256(data or os.fsencode(path)).hexdigest(), _time_of(path)


def match(submission: Submission, lab: LabSource) -> Matched:
    """Find the learner's answer to each exercise of ``lab``.

    Raises SubmissionError when the notebook holds none of the lab's exercises.
    """
    notes: list[str] = []
    ours = _our_cells(lab)
    own = [c for c in submission.cells if c.source.strip() and not _is_ours(c, ours, lab.exercises)]
    answers = {e.id: _find(e, own, notes) for e in lab.exercises.values()}
    if all(found.cell is None for found in answers.values()):
        raise SubmissionError(
            f"none of the exercises of {lab.id} is in this notebook. Wanted: a notebook made from "
            f"labs/{lab.id}.ipynb with its answer cells kept."
        )
    if submission.version and submission.version != lab.version:
        notes.append(
            f"made from version {submission.version} of the lab, graded by version {lab.version}"
        )
    taken = {found.cell.position for found in answers.values() if found.cell}
    code = [c for c in own if c.cell_type == "code" or c.position in taken]
    return Matched(cells=tuple(code), answers=answers, notes=tuple(notes))


def untouched(source: str, exercise: Exercise) -> bool:
    """True for the stub as released, or for nothing but comments; white space does not count."""
    try:
        tree = ast.parse(source if len(source) <= MAX_PARSED_CHARS else "(")
        return not tree.body or ast.dump(tree) == ast.dump(ast.parse(exercise.stub))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _find(exercise: Exercise, cells: list[SubmittedCell], notes: list[str]) -> Found:
    """The first rule that finds an answer; a stub left behind does not hide one written elsewhere.

    Where no rule finds more than the stub, or a cell that does not define the name, that cell is
    what was found.
    """
    rules: dict[str, Callable[[SubmittedCell], bool]] = {
        "id": lambda c: c.id == exercise.id,
        "tag": lambda c: c.exercise == exercise.id,
        "marker": lambda c: _marker(c.source) == exercise.id,
        "name": lambda c: c.cell_type == "code" and _defines(c.source, exercise.id),
    }
    found = {rule: [c for c in cells if holds(c)] for rule, holds in rules.items()}
    answers = {rule: [c for c in there if _answers(c, exercise)] for rule, there in found.items()}
    for rule, there in [*answers.items(), *found.items()]:
        if not there:
            continue
        if len(there) > 1:
            places = ", ".join(str(c.position) for c in there)
            notes.append(f"{exercise.id}: found in cells {places}; the last one counts")
        if there[-1].cell_type != "code":
            notes.append(f"{exercise.id}: cell {there[-1].position} is no code cell; read as code")
        return Found(rule, there[-1])
    notes.append(f"{exercise.id}: no cell answers it")
    return Found("none", None)


def _answers(cell: SubmittedCell, exercise: Exercise) -> bool:
    return _defines(cell.source, exercise.id) and not untouched(cell.source, exercise)


def _our_cells(lab: LabSource) -> set[str]:
    """Text of every cell that the release shows besides the answers."""
    return {
        _even(cell.source)
        for cell in lab.cells
        if cell.cell_type == "code" and cell.tag in (None, Tag.CHECK)
    }


def _is_ours(cell: SubmittedCell, ours: set[str], exercises: Mapping[str, Exercise]) -> bool:
    """A check or context cell of the release, also when the learner has edited it."""
    generated = re.fullmatch(r"(text|context)-\d+|(\w+)-(check-\d+|hint-\d+|sealed)", cell.id)
    if generated and (generated[2] is None or generated[2] in exercises):
        return True
    return "check" in cell.tags or "hint" in cell.tags or _even(cell.source) in ours


def _even(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _marker(source: str) -> str:
    found = re.search(rf"^{re.escape(MARKER)}\s*(\w+)\s*$", source, re.M)
    return found[1] if found else ""


def _defines(source: str, name: str) -> bool:
    bound = _bound(source)
    if bound is not None:
        return name in bound
    return re.search(rf"^(?:def\s+{name}\s*\(|{name}\s*=)", source, re.M) is not None


@lru_cache(maxsize=1024)
def _bound(source: str) -> set[str] | None:
    """What a cell defines, read once for all exercises; None where it cannot be parsed."""
    try:
        return bound_names(ast.parse(source if len(source) <= MAX_PARSED_CHARS else "("))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _begun(cells: tuple[SubmittedCell, ...]) -> str:
    """The lab that the notebook opens by ``lab.begin("…")``, when its metadata is gone."""
    for cell in cells:
        found = re.search(r"""lab\.begin\(\s*["']([\w/-]{1,100})["']\s*\)""", cell.source)
        if found:
            return found[1]
    return ""


def _bytes(path: Path) -> bytes:
    """The file's bytes, read once and at most MAX_BYTES of them; never through a link or a FIFO."""
    try:
        if not path.is_symlink() and path.is_dir():
            raise SubmissionError("this is a directory without a notebook that can be read")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SubmissionError("this is a link; hand in the notebook itself") from None
        raise SubmissionError(f"the file cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise SubmissionError("this is not a regular file")
        if about.st_size > MAX_BYTES:
            found, most = about.st_size >> 20, MAX_BYTES >> 20
            raise SubmissionError(
                f"the file has {found} MiB, more than {most}. Clear the outputs and hand in again."
            )
        data = file.read(MAX_BYTES)
    if not data.strip():
        raise SubmissionError("the file is empty")
    return data


def _notebook(data: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SubmissionError(
            f"the file is not UTF-8 text (byte {error.start}); save it as a notebook again"
        ) from None
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SubmissionError(f"the file is not a notebook: not valid JSON{where}") from None
    if not isinstance(notebook, dict):
        raise SubmissionError("the file is not a notebook: no object at its top")
    if isinstance(notebook.get("worksheets"), list):  # nbformat 3
        sheets = [s for s in notebook["worksheets"] if isinstance(s, dict)]
        parts = [s.get("cells") for s in sheets]
        notebook["cells"] = [c for part in parts if isinstance(part, list) for c in part]
    if not isinstance(notebook.get("cells"), list):
        raise SubmissionError("the file is not a notebook: it has no list of cells")
    if len(notebook["cells"]) > MAX_CELLS:
        raise SubmissionError(
            f"the notebook has {len(notebook['cells'])} cells, more than {MAX_CELLS}"
        )
    return notebook


def _cells(notebook: dict[str, Any]) -> list[SubmittedCell]:
    """The cells, whatever their metadata holds. Raises SubmissionError for too much code."""
    cells = []
    for position, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict):
            continue
        meta = _mapping(cell.get("metadata"))
        claimed = _mapping(meta.get("kernelbook")).get("exercise")
        claimed = claimed or _mapping(meta.get("nbgrader")).get("grade_id")
        tags = meta.get("tags")
        cells.append(
            SubmittedCell(
                position=position,
                cell_type=_text(cell.get("cell_type")),
                source=_source(cell.get("source", cell.get("input", ""))),
                id=_text(cell.get("id")),
                exercise=_text(claimed),
                tags=tuple(t for t in tags if isinstance(t, str)) if isinstance(tags, list) else (),
            )
        )
    code = sum(len(cell.source) for cell in cells if cell.cell_type == "code")
    if code > MAX_CODE_CHARS:
        raise SubmissionError(
            f"the code cells hold {code} characters, more than {MAX_CODE_CHARS}. "
            "Keep data out of the code."
        )
    return cells


def _source(value: Any) -> str:
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    # A lone surrogate is legal JSON and illegal everywhere else.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _time_of(path: Path) -> str:
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC).isoformat()
    except (OSError, ValueError, OverflowError):  # gone, or a year that no calendar has
        return datetime.fromtimestamp(0, UTC).isoformat()
