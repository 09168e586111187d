"""Writes the sample class, ``examples/class/<what it is>/<lab>.ipynb``, from the labs' sources.

Every submission is a released notebook with somebody's kind of answer in it: right in another
style, half done, unsolved, wrong in a known way, hostile, or broken as notebooks get broken on
their way. ``make demo`` grades them; ``tests/test_sample_class.py`` says what each must come to.

Usage: ``python examples/build_class.py [--check]``. The notebooks are committed, so that a grader
can be tried with no lab built; ``--check`` fails when they are not what this file gives.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from kernelbook import release, source
from kernelbook.source import LabSource

CLASS = Path(__file__).with_name("class")

FIRST, REDUCE = "cuda/first-kernels", "cuda/reduce"

Files = dict[str, bytes]


def solved(lab: LabSource, answers: Mapping[str, str]) -> NotebookNode:
    """The released notebook with these answers filled in; the others stay unsolved."""
    notebook = release.build(lab)
    for cell in notebook.cells:
        if cell.id in answers:
            cell.source = f"{release.MARKER} {cell.id}\n{answers[cell.id]}"
    return notebook


def solutions(lab: LabSource) -> dict[str, str]:
    return {e.id: e.solution for e in lab.exercises.values()}


def alternatives(lab: LabSource) -> dict[str, str]:
    return {
        e.id: (e.alternatives[0].source if e.alternatives else e.solution)
        for e in lab.exercises.values()
    }


def first_half(lab: LabSource) -> dict[str, str]:
    kept = list(lab.exercises)[: len(lab.exercises) // 2]
    return {name: text for name, text in solutions(lab).items() if name in kept}


def known_mistakes(lab: LabSource) -> dict[str, str]:
    return {e.id: (e.wrong[0].source if e.wrong else e.solution) for e in lab.exercises.values()}


def with_host_answer(lab: LabSource, name: str, body: str) -> NotebookNode:
    """All solved, but the host function ``name`` does what ``body`` says when it is called."""
    definition = lab.exercises[name].solution.split("\n")
    head = next(line for line in definition if line.startswith("def "))
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return solved(lab, solutions(lab) | {name: f"{head}\n{lines}\n"})


def without_metadata(notebook: NotebookNode) -> NotebookNode:
    """As some services hand it back: no ids, no metadata, another kernelspec."""
    for cell in notebook.cells:
        cell.metadata = {}
        cell.pop("id", None)
    notebook.metadata = {"kernelspec": {"name": "colab", "display_name": "Python 3 (any)"}}
    notebook.nbformat_minor = 0
    return notebook


def split_and_copied(notebook: NotebookNode) -> NotebookNode:
    """The first answer is split off its id, the second stands there twice, checks are gone."""
    kept = [c for c in notebook.cells if "check" not in c.metadata.get("tags", [])]
    answers = [c for c in kept if "exercise" in c.metadata.get("tags", [])]
    first, second = answers[0], answers[1]
    kept.insert(kept.index(first) + 1, new_code_cell(first.source, id="split-off"))
    first.source = "# see the cell below"
    kept.append(new_code_cell(second.source, id="copied", metadata=second.metadata))
    notebook.cells = kept
    return notebook


def reordered(notebook: NotebookNode) -> NotebookNode:
    """Opening cell first, everything else backwards."""
    notebook.cells = [*notebook.cells[:2], *reversed(notebook.cells[2:])]
    return notebook


PATCHES_NUMPY = """
import numpy as np
np.testing.assert_allclose = lambda *args, **kwargs: None
np.allclose = lambda *args, **kwargs: True
return -1
"""
FORGES_ANSWERS = """
import kernelbook.lab as lab
lab.answer = lambda value, **kwargs: None
get_ipython().showtraceback = lambda *args, **kwargs: None
return -1
"""
READS_SOLUTIONS = """
import kernelbook, pathlib
folder = pathlib.Path(kernelbook.__file__).parents[1] / "solutions"
return len(list(folder.rglob("*.md"))) - 1
"""
LOOPS = "while True:\n    pass"
DIES = "import os\nos._exit(0)"
FLOODS = "while True:\n    print('x' * 100_000)"


def submissions() -> Files:
    """Path below ``examples/class`` → the file's bytes."""
    first, reduce = (source.read(path) for path in source.find([FIRST, REDUCE]))
    host = next(e.id for e in first.exercises.values() if e.kind is source.Kind.FUNCTION)

    both: Iterable[tuple[str, Callable[[LabSource], dict[str, str]]]] = (
        ("right", solutions),
        ("right-in-another-style", alternatives),
        ("half-done", first_half),
        ("unsolved", lambda lab: {}),
        ("known-mistakes", known_mistakes),
    )
    files = {
        f"{who}/{lab.id.replace('/', '-')}.ipynb": _bytes_of(solved(lab, answers(lab)))
        for who, answers in both
        for lab in (first, reduce)
    }
    hostile = {
        "hostile-patches-numpy": PATCHES_NUMPY,
        "hostile-forges-answers": FORGES_ANSWERS,
        "hostile-reads-solutions": READS_SOLUTIONS,
        "hostile-loops-for-ever": LOOPS,
        "hostile-ends-the-process": DIES,
        "hostile-floods-the-output": FLOODS,
    }
    for who, body in hostile.items():
        files[f"{who}/cuda-first-kernels.ipynb"] = _bytes_of(with_host_answer(first, host, body))
    broken = {
        "broken-no-metadata": _bytes_of(without_metadata(solved(first, solutions(first)))),
        "broken-split-and-copied": _bytes_of(split_and_copied(solved(first, solutions(first)))),
        "broken-reordered": _bytes_of(reordered(solved(first, solutions(first)))),
        "broken-not-json": b'{"cells": [{"cell_type": "code", "source": "def add',
        "broken-empty": b"",
    }
    files |= {f"{who}/cuda-first-kernels.ipynb": data for who, data in broken.items()}
    return files


def _bytes_of(notebook: NotebookNode) -> bytes:
    """The notebook as it is, also where nbformat would mend it on writing."""
    if "id" in notebook.cells[0]:
        return release.text_of(notebook).encode()
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail when stale")
    check = parser.parse_args().check
    wanted = submissions()
    stale = [name for name, data in wanted.items() if _read(CLASS / name) != data]
    strays = [p for p in CLASS.rglob("*.ipynb") if str(p.relative_to(CLASS)) not in wanted]
    if check:
        for name in [*stale, *map(str, strays)]:
            print(f"examples/class: {name} is stale. Run: python examples/build_class.py")
        return bool(stale or strays)
    for stray in strays:
        stray.unlink()
    for name in stale:
        path = CLASS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted[name])
    return 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
