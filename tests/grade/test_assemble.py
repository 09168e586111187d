"""What enters which room, and what is settled without a run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kernelbook.compilers.client import WorkerDied, WorkerTimeout
from kernelbook.errors import CompileError
from kernelbook.grade import submission
from kernelbook.grade.assemble import Assembly, assemble
from kernelbook.grade.record import Category
from kernelbook.source import Exercise, LabSource
from samples import RIGHT, TEXT, write_lab


@pytest.fixture
def lab(tmp_path: Path) -> LabSource:
    return write_lab(tmp_path)


def accepts(exercise: Exercise, source: str) -> None:
    """A compiler that refuses nothing."""


def refuses(exercise: Exercise, source: str) -> None:
    raise CompileError("line 3: dictionaries do not exist on a GPU")


def put_together(lab: LabSource, answers: dict[str, str], compiler=accepts) -> Assembly:
    matched = submission.match(submission.of_answers(lab, answers), lab)
    return assemble(matched, lab, "sim", compiler)


def sources(assembly: Assembly, room: str) -> str:
    return "\n".join(
        cell.source for r in assembly.rooms if r.name == room for cell in r.notebook.cells
    )


def lifted_texts(assembly: Assembly) -> list[str]:
    """The texts of the first answer cell of the clean room, as they are handed to the lab."""
    cells = assembly.rooms[0].notebook.cells
    source = next(c.source for c in cells if c.metadata.kernelbook.role == "answer")
    call = ast.parse(source).body[0].value
    assert call.func.attr == "_answer"
    return ast.literal_eval(call.args[1])


def settled(assembly: Assembly) -> dict[str, Category]:
    return {result.exercise: result.category for result in assembly.settled}


def test_assemble_right_answers_fill_both_rooms(lab: LabSource) -> None:
    assembly = put_together(lab, RIGHT)
    assert [room.name for room in assembly.rooms] == ["clean", "open"]
    assert not assembly.settled
    assert [t.name for _, t in assembly.rooms[0].tests] == [
        "sizes around the block",
        "more threads than elements",
    ]
    roles = [cell.metadata.kernelbook.role for cell in assembly.rooms[0].notebook.cells]
    assert roles == ["context", "answer", "test", "test"]


def test_assemble_clean_room_holds_no_host_code(lab: LabSource) -> None:
    kernel = "import os\nos.remove('x')\nprint('hello')\n" + RIGHT["double"]
    assembly = put_together(lab, RIGHT | {"double": kernel})
    clean = sources(assembly, "clean")
    assert "def double" in clean
    assert "os.remove" not in clean
    assert "hello" not in clean
    assert "def half" not in clean
    assert "os.remove" in sources(assembly, "open")


@pytest.mark.parametrize(
    "fake",
    [
        "def double(x, out):\n    out[:] = 2 * x\n",
        "class double:\n    def __class_getitem__(cls, grid):\n        return print\n",
        "double = {}\n",
        RIGHT["double"] + "\ndouble = lambda *a: None\n",
        "cuda = None\n" + RIGHT["double"],
    ],
    ids=["plain function", "class", "dict", "rebound", "cuda rebound"],
)
def test_assemble_host_code_in_disguise_is_not_a_kernel(lab: LabSource, fake: str) -> None:
    assembly = put_together(lab, RIGHT | {"double": fake})
    assert settled(assembly) == {"double": Category.NOT_A_KERNEL}
    assert all(result.points == 0 and result.message for result in assembly.settled)
    assert [room.name for room in assembly.rooms] == ["open"]


def test_assemble_refused_by_the_compiler_is_an_error_that_says_why(lab: LabSource) -> None:
    assembly = put_together(lab, RIGHT, refuses)
    assert settled(assembly) == {"double": Category.ERROR}
    assert "dictionaries do not exist" in assembly.settled[0].message


@pytest.mark.parametrize(
    "untouched",
    ["{stub}", "# exercise: double\n{stub}", "{stub}\n\n# nothing yet", "# all commented out"],
)
def test_assemble_untouched_stub_is_not_attempted(lab: LabSource, untouched: str) -> None:
    text = untouched.format(stub=lab.exercises["double"].stub)
    assembly = put_together(lab, RIGHT | {"double": text})
    assert settled(assembly) == {"double": Category.NOT_ATTEMPTED}


def test_assemble_missing_answer_is_missing(lab: LabSource) -> None:
    assembly = put_together(lab, {"half": RIGHT["half"]})
    assert settled(assembly) == {"double": Category.MISSING}


def test_assemble_gpu_only_test_counts_only_there(tmp_path: Path) -> None:
    text = TEXT.replace("points: 1\ncategory: more", "points: 1\ndevice: gpu\ncategory: more")
    lab = write_lab(tmp_path / "other", text)
    assert lab.max_points("sim") == 4
    assert lab.max_points("gpu") == 5
    names = [t.name for room in put_together(lab, RIGHT).rooms for _, t in room.tests]
    assert "more threads than elements" not in names


def test_assemble_context_that_names_an_exercise_is_left_out(tmp_path: Path) -> None:
    picture = "```{code-cell} python\nlab.show_accesses(double[1, 4], out)\n```\n\n## Halve"
    lab = write_lab(tmp_path / "other", TEXT.replace("## Halve", picture))
    assert "show_accesses" not in sources(put_together(lab, RIGHT), "clean")


def test_assemble_nbval_markers_of_a_learner_have_no_role(lab: LabSource) -> None:
    assembly = put_together(lab, RIGHT | {"half": "# NBVAL_SKIP\n" + RIGHT["half"]})
    cells = [cell for room in assembly.rooms for cell in room.notebook.cells]
    assert all(set(cell.metadata) == {"kernelbook"} for cell in cells)


def test_assemble_lifted_code_keeps_the_learners_line_numbers(lab: LabSource) -> None:
    scale = "# a constant of my own\n\nTWICE = 2; UNUSED = 3\n"
    kernel = "# exercise: double\n# my kernel\n\n" + RIGHT["double"].replace("2", "TWICE")
    answers = {"double": scale + "print('dropped')\n\n\n" + kernel, "half": RIGHT["half"]}
    text = next(t for t in lifted_texts(put_together(lab, answers)) if "def double" in t)
    wanted = answers["double"].splitlines()
    for line in ("def double(x, out):", "        out[i] = x[i] * TWICE"):
        assert text.splitlines().index(line) == wanted.index(line)
    assert "TWICE = 2" in text


def test_assemble_compilers_own_failure_costs_that_exercise_only(lab: LabSource) -> None:
    for failure, category in (
        (WorkerTimeout("no answer within 60 s"), Category.TIMEOUT),
        (WorkerDied("ended by signal 9"), Category.INFRASTRUCTURE),
    ):

        def fails(exercise: Exercise, source: str, failure: Exception = failure) -> None:
            raise failure

        assembly = put_together(lab, RIGHT, fails)
        assert settled(assembly) == {"double": category}
        assert [room.name for room in assembly.rooms] == ["open"]


def test_assemble_compilers_words_are_cut(lab: LabSource) -> None:
    def rambles(exercise: Exercise, source: str) -> None:
        raise CompileError("x" * 100_000)

    assert len(put_together(lab, RIGHT, rambles).settled[0].message) <= 600


def test_assemble_import_repeated_in_a_later_cell_still_comes_first(lab: LabSource) -> None:
    helper = "@cuda.jit(device=True)\ndef twice(v):\n    return v + v\n"
    kernel = "from numba import cuda\n\n" + RIGHT["double"].replace("x[i] * 2", "twice(x[i])")
    answers = {"double": kernel, "half": helper + RIGHT["half"]}
    texts = lifted_texts(put_together(lab, {"half": answers["half"], "double": answers["double"]}))
    assert texts[0].splitlines() == ["from numba import cuda"]
    namespace: dict[str, object] = {}
    for text in texts:
        code = text.replace("@cuda.jit(device=True)", "").replace("@cuda.jit", "")
        exec(code, namespace)
    assert {"twice", "double"} <= namespace.keys()
