"""Reading what was handed in: every way in which a notebook gets broken on its way."""

from __future__ import annotations

import ast
import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelbook import release
from kernelbook.errors import SubmissionError
from kernelbook.grade import submission
from kernelbook.grade.submission import Matched
from kernelbook.source import LabSource
from samples import LAB_ID, RIGHT, write_lab

Notebook = dict[str, Any]


@pytest.fixture
def lab(tmp_path: Path) -> LabSource:
    return write_lab(tmp_path / "solutions")


@pytest.fixture
def solved(lab: LabSource) -> Notebook:
    notebook: Notebook = json.loads(release.text_of(release.build(lab)))
    for cell in notebook["cells"]:
        if cell["id"] in RIGHT:
            cell["source"] = RIGHT[cell["id"]]
    return notebook


@pytest.fixture
def matching(tmp_path: Path, lab: LabSource) -> Callable[[Notebook], Matched]:
    def match(notebook: Notebook) -> Matched:
        path = tmp_path / "handed-in.ipynb"
        path.write_text(json.dumps(notebook))
        return submission.match(submission.read(path, "someone"), lab)

    return match


def rules(matched: Matched) -> dict[str, str]:
    return {name: found.rule for name, found in matched.answers.items()}


def answer(matched: Matched, name: str) -> str:
    cell = matched.answers[name].cell
    return cell.source if cell else ""


def cell_of(notebook: Notebook, cell_id: str) -> dict[str, Any]:
    return next(c for c in notebook["cells"] if c.get("id") == cell_id)


def test_match_untouched_notebook_goes_by_id(matching: Any, solved: Notebook) -> None:
    matched = matching(solved)
    assert rules(matched) == {"double": "id", "half": "id"}
    assert [c.source for c in matched.cells] == list(RIGHT.values())
    assert matched.notes == ()


def test_match_lost_ids_goes_by_tag(matching: Any, solved: Notebook) -> None:
    for cell in solved["cells"]:
        del cell["id"]
    assert rules(matching(solved)) == {"double": "tag", "half": "tag"}


def test_match_only_nbgrader_metadata_goes_by_tag(matching: Any, solved: Notebook) -> None:
    for cell in solved["cells"]:
        del cell["id"]
        cell["metadata"] = {"nbgrader": cell["metadata"].get("nbgrader", {})}
    assert rules(matching(solved)) == {"double": "tag", "half": "tag"}


def test_match_lost_metadata_goes_by_marker_then_name(matching: Any, solved: Notebook) -> None:
    cell_of(solved, "half")["source"] = f"{release.MARKER} half\n{RIGHT['half']}"
    for cell in solved["cells"]:
        del cell["id"]
        cell["metadata"] = {}
    del solved["metadata"]
    matched = matching(solved)
    assert rules(matched) == {"double": "name", "half": "marker"}
    assert len(matched.cells) == 2  # our own check and context cells were recognised by their text


def test_match_lost_metadata_and_syntax_error_goes_by_marker(
    matching: Any, solved: Notebook
) -> None:
    broken = f"{release.MARKER} half\ndef half(number)\n    return 1"
    cell_of(solved, "half")["source"] = broken
    for cell in solved["cells"]:
        del cell["id"]
        cell["metadata"] = {}
    matched = matching(solved)
    assert rules(matched)["half"] == "marker"
    assert answer(matched, "half") == broken


def test_match_duplicated_cell_last_counts_with_a_note(matching: Any, solved: Notebook) -> None:
    copy = cell_of(solved, "half") | {"source": "def half(number):\n    return 7\n"}
    solved["cells"].append(copy)
    matched = matching(solved)
    assert answer(matched, "half") == copy["source"]
    assert "half: found in cells" in matched.notes[0]


def test_match_split_cell_is_found_in_its_second_half(matching: Any, solved: Notebook) -> None:
    first = cell_of(solved, "half")
    place = solved["cells"].index(first) + 1
    solved["cells"].insert(place, {"cell_type": "code", "metadata": {}, "source": first["source"]})
    first["source"] = "# see below"
    matched = matching(solved)
    assert (rules(matched)["half"], answer(matched, "half")) == ("name", RIGHT["half"])


def test_match_stub_left_behind_does_not_hide_the_answer(
    matching: Any, solved: Notebook, lab: LabSource
) -> None:
    cell_of(solved, "half")["source"] = lab.exercises["half"].stub
    solved["cells"].append({"cell_type": "code", "metadata": {}, "source": RIGHT["half"]})
    matched = matching(solved)
    assert (rules(matched)["half"], answer(matched, "half")) == ("name", RIGHT["half"])


def test_match_deleted_cell_is_none_with_a_note(matching: Any, solved: Notebook) -> None:
    solved["cells"].remove(cell_of(solved, "half"))
    matched = matching(solved)
    assert rules(matched) == {"double": "id", "half": "none"}
    assert "half: no cell answers it" in matched.notes


def test_match_retyped_cell_is_read_as_code(matching: Any, solved: Notebook) -> None:
    cell_of(solved, "half")["cell_type"] = "markdown"
    matched = matching(solved)
    assert answer(matched, "half") == RIGHT["half"]
    assert any("no code cell" in note for note in matched.notes)


def test_match_edited_check_is_never_the_learners_code(matching: Any, solved: Notebook) -> None:
    cell_of(solved, "half-check-1")["source"] = "raise SystemExit"
    assert all("SystemExit" not in cell.source for cell in matching(solved).cells)


def test_match_extra_cells_are_kept_in_order(matching: Any, solved: Notebook) -> None:
    solved["cells"].insert(3, {"cell_type": "code", "metadata": {}, "source": ["a = 1\n", "b = 2"]})
    sources = [cell.source for cell in matching(solved).cells]
    assert sources == ["a = 1\nb = 2", *RIGHT.values()]


def test_match_windows_line_ends_are_evened(matching: Any, solved: Notebook) -> None:
    cell_of(solved, "half")["source"] = RIGHT["half"].replace("\n", "\r\n")
    assert answer(matching(solved), "half") == RIGHT["half"]


def test_match_other_version_is_noted(matching: Any, solved: Notebook) -> None:
    solved["metadata"]["kernelbook"]["version"] = "0ld"
    assert any("version 0ld" in note for note in matching(solved).notes)


def test_match_foreign_notebook_is_refused(matching: Any, solved: Notebook) -> None:
    solved["cells"] = [{"cell_type": "code", "metadata": {}, "source": "print('hello')"}]
    with pytest.raises(SubmissionError, match="none of the exercises"):
        matching(solved)


def test_read_lost_metadata_takes_lab_from_its_opening_line(
    tmp_path: Path, solved: Notebook
) -> None:
    solved["metadata"] = {}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(solved))
    assert submission.read(path, "someone").lab == LAB_ID


def test_read_nbformat_3_and_byte_order_mark_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    cells = [{"cell_type": "code", "input": ["def half(x):\n", "    return x / 2"]}]
    path.write_text("\ufeff" + json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}))
    assert submission.read(path, "someone").cells[0].source.startswith("def half(x):\n")


BAD_FILES = {
    "empty": (b"", "empty"),
    "blank": (b" \n", "empty"),
    "not json": (b"%PDF-1.7", "not valid JSON"),
    "cut short": (b'{"cells": [{"source": "x', "not valid JSON"),
    "latin-1": ('{"cells": ["é"]}'.encode("latin-1"), "not UTF-8"),
    "utf-16": ('{"cells": []}'.encode("utf-16"), "not UTF-8"),
    "a list": (b"[]", "no object"),
    "no cells": (b'{"metadata": {}}', "no list of cells"),
    "cells of text": (b'{"cells": "all"}', "no list of cells"),
    "deep nesting": (b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not valid JSON"),
    "number of 5000 digits": (b'{"nbformat": ' + b"9" * 5000 + b', "cells": []}', "not valid JSON"),
    "a megabyte of code": (
        json.dumps({"cells": [{"cell_type": "code", "source": "x = 1\n" * 200_000}]}).encode(),
        "more than 400000",
    ),
    "too many cells": (json.dumps({"cells": [{}] * 3000}).encode(), "3000 cells"),
}


@pytest.mark.parametrize(("data", "reason"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_read_bad_file_is_refused_with_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(data)
    with pytest.raises(SubmissionError, match=reason):
        submission.read(path, "someone")


def test_read_directory_huge_and_missing_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder.ipynb"
    folder.mkdir()
    huge = tmp_path / "huge.ipynb"
    with huge.open("wb") as file:
        file.truncate(50 << 20)
    for path, reason in (
        (folder, "directory"),
        (huge, "50 MiB"),
        (tmp_path / "no", "No such file"),
    ):
        with pytest.raises(SubmissionError, match=reason):
            submission.read(path, "someone")


@pytest.mark.parametrize(
    "cell",
    [
        None,
        7,
        {},
        {"cell_type": "code"},
        {"cell_type": ["code"], "source": {"a": 1}, "metadata": "x", "id": 5},
        {"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"tags": "check"}},
        {"cell_type": "code", "source": "\ud800", "metadata": {"kernelbook": [1]}},
    ],
)
def test_match_malformed_cell_harms_nothing(matching: Any, solved: Notebook, cell: object) -> None:
    solved["cells"].insert(2, cell)
    assert rules(matching(solved)) == {"double": "id", "half": "id"}


def test_read_worksheets_of_something_else_hold_no_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"worksheets": [{"cells": 5}, {"cells": {"a": 1}}, 7]}')
    assert submission.read(path, "someone").cells == ()


def test_read_link_and_fifo_are_refused_at_once(tmp_path: Path) -> None:
    real = tmp_path / "real.ipynb"
    real.write_text('{"cells": []}')
    link = tmp_path / "link.ipynb"
    link.symlink_to(real)
    fifo = tmp_path / "fifo.ipynb"
    os.mkfifo(fifo)
    for path, reason in ((link, "a link"), (fifo, "not a regular file")):
        with pytest.raises(SubmissionError, match=reason):
            submission.read(path, "someone")
    assert len(submission.fingerprint(fifo)[0]) == 64


def test_fingerprint_impossible_time_and_name_are_harmless(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.ipynb"))
    path.write_bytes(b"")
    with contextlib.suppress(OSError, OverflowError):
        os.utime(path, (2**40, 2**40))
    digest, time = submission.fingerprint(path)
    assert len(digest) == 64
    assert time


def test_match_enormous_cell_is_not_parsed(matching: Any, solved: Notebook) -> None:
    text = RIGHT["half"] + "# " + "x" * 200_000
    cell_of(solved, "half")["source"] = text
    parsed: list[int] = []
    real = ast.parse

    def counting(source: str, *args: Any, **options: Any) -> ast.AST:
        parsed.append(len(source))
        return real(source, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission.ast, "parse", counting)
        assert rules(matching(solved))["half"] == "id"
    assert max(parsed) <= submission.MAX_PARSED_CHARS
