"""A lab as its learner meets it: unsolved it says "not yet", solved every check is green."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from kernelbook import release, source
from kernelbook.source import LabSource

LABS = [source.read(path) for path in source.find([])]


def executed(notebook: NotebookNode) -> NotebookNode:
    NotebookClient(notebook, allow_errors=True, timeout=120).execute()
    return notebook


def solved(lab: LabSource) -> NotebookNode:
    notebook = release.build(lab)
    for cell in notebook.cells:
        if cell.id in lab.exercises:
            cell.source = lab.exercises[cell.id].solution
    return notebook


def checks(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if "check" in cell.metadata.get("tags", [])]


def errors(cells: list[NotebookNode]) -> list[NotebookNode]:
    return [o for c in cells for o in c.get("outputs", []) if o.output_type == "error"]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_unsolved_notebook_says_not_yet_without_a_traceback(lab: LabSource) -> None:
    notebook = executed(release.build(lab))
    said = errors(checks(notebook))
    assert len(said) == len(checks(notebook))
    assert {o.ename for o in said} == {"NotYet"}
    assert all("\n" not in o.traceback[0] and len(o.traceback) == 1 for o in said)
    assert all(o.traceback[0].startswith("Not yet.") for o in said)
    assert len(errors(notebook.cells)) == len(said)  # pictures and context cells run


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_solved_notebook_passes_every_public_check(lab: LabSource) -> None:
    notebook = executed(solved(lab))
    assert errors(notebook.cells) == []
    for cell in checks(notebook):
        printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        assert "✓ Public check passed" in printed


@pytest.mark.parametrize(("answered", "code"), [(True, 0), (False, 1)])
def test_plain_nbval_is_a_self_check(tmp_path: Path, answered: bool, code: int) -> None:
    lab = LABS[0]
    path = tmp_path / "lab.ipynb"
    nbformat.write(solved(lab) if answered else release.build(lab), path)
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    if not answered:
        assert "Not yet." in done.stdout
