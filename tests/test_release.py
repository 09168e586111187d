"""The release: deterministic, complete, and free of anything that the learner must not see."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum

from kernelbook import release
from kernelbook.errors import SourceError
from samples import TEXT, write_lab


def test_build_same_source_gives_same_bytes(tmp_path: Path) -> None:
    lab = write_lab(tmp_path)
    assert release.text_of(release.build(lab)) == release.text_of(release.build(lab))


def test_build_is_a_valid_notebook_without_outputs(tmp_path: Path) -> None:
    notebook = release.build(write_lab(tmp_path))
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_build_ids_join_cells_to_exercises(tmp_path: Path) -> None:
    ids = [cell.id for cell in release.build(write_lab(tmp_path)).cells]
    assert len(ids) == len(set(ids))
    assert {"double", "double-check-1", "double-hint-1", "double-sealed", "half"} <= set(ids)


def test_build_hides_solution_tests_and_answers(tmp_path: Path) -> None:
    text = release.text_of(release.build(write_lab(tmp_path)))
    for secret in (
        "halved",
        "x[i] + x[i]",
        "1_000_003",
        "integers(1, 99",
        "np.float32(2)",
        "guard",
    ):
        assert secret not in text
    assert "YOUR CODE HERE" in text
    assert "sealed tests" in text


def test_build_carries_valid_nbgrader_metadata(tmp_path: Path) -> None:
    notebook = release.build(write_lab(tmp_path))
    MetadataValidator().validate_nb(notebook)
    graded = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert {cell.id: cell.metadata.nbgrader.get("points") for cell in graded} == {
        "context-1": None,
        "double": None,
        "double-check-1": 3,
        "half": None,
        "half-check-1": 2,
    }
    for cell in graded:
        assert cell.metadata.nbgrader.checksum == compute_checksum(cell)


def test_leaks_clean_release_finds_none(tmp_path: Path) -> None:
    lab = write_lab(tmp_path)
    assert release.leaks(lab, release.build(lab)) == []


@pytest.mark.parametrize(
    ("planted", "secret"),
    [
        ("out[i] = x[i] + x[i]", "out[i] = x[i] + x[i]"),
        ("`double[3, 64](x, out)` is tested", "double[3, 64](x, out)"),
        ("We test n = 1000003.", "1000003"),
        ("We test n = 1_000_003.", "1000003"),
        ("out[i] = np.float32(2) * x[i]", "out[i] = np.float32(2) * x[i]"),
    ],
    ids=["solution line", "hidden line", "plain number", "grouped number", "alternative"],
)
def test_write_planted_leak_is_refused_with_its_line(
    tmp_path: Path, planted: str, secret: str
) -> None:
    text = TEXT.replace("Two exercises that take a minute.", planted)
    lab = write_lab(tmp_path / "solutions", text)
    with pytest.raises(SourceError) as caught:
        release.write(lab, tmp_path / "labs")
    assert secret in str(caught.value)
    assert "'text-1'" in str(caught.value)
    assert not (tmp_path / "labs").exists()


def test_leaks_planted_in_output_or_metadata_is_found(tmp_path: Path) -> None:
    lab = write_lab(tmp_path)
    notebook = release.build(lab)
    notebook.cells[1].metadata["note"] = "out[i] = x[i] + x[i]"
    assert release.leaks(lab, notebook)


def test_is_stale_follows_the_source(tmp_path: Path) -> None:
    lab = write_lab(tmp_path / "solutions")
    assert release.is_stale(lab, tmp_path / "labs")
    release.write(lab, tmp_path / "labs")
    assert not release.is_stale(lab, tmp_path / "labs")
    assert release.is_stale(write_lab(tmp_path / "solutions", TEXT + "\nmore"), tmp_path / "labs")


def test_orphans_notebook_without_source_is_named(tmp_path: Path) -> None:
    lab = write_lab(tmp_path / "solutions")
    release.write(lab, tmp_path / "labs")
    stray = tmp_path / "labs" / "tiny" / "old.ipynb"
    stray.write_text("{}")
    assert release.orphans([lab], tmp_path / "labs") == [stray]
