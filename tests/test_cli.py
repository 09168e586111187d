"""The commands: exit codes, messages, and nothing lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelbook import release
from kernelbook.cli import app
from samples import TEXT, write_lab

runner = CliRunner()


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_lab(tmp_path / "solutions")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_release_writes_and_check_then_agrees(course: Path) -> None:
    assert runner.invoke(app, ["release", "--check"]).exit_code == 1
    assert runner.invoke(app, ["release"]).exit_code == 0
    assert (course / "labs" / "tiny" / "double.ipynb").exists()
    assert runner.invoke(app, ["release", "--check"]).exit_code == 0


def test_release_check_stale_or_stray_fails_and_names_it(course: Path) -> None:
    runner.invoke(app, ["release"])
    stray = course / "labs" / "tiny" / "stray.ipynb"
    stray.write_text("{}")
    write_lab(course / "solutions", TEXT + "\nmore\n")
    done = runner.invoke(app, ["release", "--check"])
    assert done.exit_code == 1
    assert "double.ipynb is not what its source gives" in done.output
    assert "stray.ipynb has no source" in done.output


def test_release_malformed_source_is_one_sentence_not_a_traceback(course: Path) -> None:
    path = course / "solutions" / "tiny" / "double.md"
    path.write_text(TEXT.replace("tags: [hidden]", "tags: [hiden]"))
    done = runner.invoke(app, ["release"])
    assert done.exit_code == 2
    assert "did you mean 'hidden'" in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_release_leak_is_refused(course: Path) -> None:
    write_lab(course / "solutions", TEXT.replace("Two exercises", "out[i] = x[i] + x[i]"))
    done = runner.invoke(app, ["release"])
    assert done.exit_code == 2
    assert "would be shown to the learner" in " ".join(done.output.split())


def test_verify_unknown_lab_suggests_one(course: Path) -> None:
    done = runner.invoke(app, ["verify", "tiny/duoble"])
    assert done.exit_code == 2
    assert "tiny/double" in done.output


def test_verify_short_lab_fails_with_a_table(course: Path) -> None:
    done = runner.invoke(app, ["verify", "--jobs", "1"])
    assert done.exit_code == 1
    assert "alternatives" in done.output


def test_verify_short_name_is_enough_where_it_is_unique(course: Path) -> None:
    done = runner.invoke(app, ["release", "double"])
    assert done.exit_code == 0
    assert "tiny/double.ipynb" in done.output


def test_release_to_a_folder_writes_notebooks_alone(course: Path) -> None:
    assert runner.invoke(app, ["release", "--to", "handout"]).exit_code == 0
    assert [p.name for p in (course / "handout").rglob("*") if p.is_file()] == ["double.ipynb"]
    assert runner.invoke(app, ["release", "--check", "--to", "handout"]).exit_code == 0


def test_report_folder_without_records_is_refused_and_left_alone(course: Path) -> None:
    done = runner.invoke(app, ["report", "solutions"])
    assert done.exit_code == 2
    assert "no records here" in done.output
    assert [p.name for p in (course / "solutions").iterdir()] == ["tiny"]


def test_version_is_told() -> None:
    assert "kernelbook 0." in runner.invoke(app, ["--version"]).output


def test_grade_missing_path_is_a_usage_error(course: Path) -> None:
    done = runner.invoke(app, ["grade", "no-such-folder", "--out", "out"])
    assert done.exit_code == 2
    assert "does not exist" in " ".join(done.output.split())


def test_grade_and_report_one_submission(course: Path) -> None:
    lab = write_lab(course / "solutions")
    (course / "class" / "learner-1").mkdir(parents=True)
    path = course / "class" / "learner-1" / "double.ipynb"
    path.write_text(release.text_of(release.build(lab)))
    done = runner.invoke(app, ["grade", "class", "--out", "out", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "1 submissions, 0 of them" in done.output
    done = runner.invoke(app, ["report", "out"])
    assert done.exit_code == 0, done.output
    assert "learner-1" in done.output
    for name in ("gradebook.sqlite", "gradebook.csv", "report.html"):
        assert (course / "out" / name).exists()


def test_grade_gpu_without_one_says_what_to_do(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (course / "a.ipynb").write_text("{}")
    done = runner.invoke(app, ["grade", "a.ipynb", "--out", "out", "--device", "gpu"])
    assert done.exit_code == 2
    assert "sim" in done.output
