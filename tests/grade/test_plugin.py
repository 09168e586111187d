"""Whole notebooks through the graded run: what earns a pass, and what everything else comes to.

The notebooks bring a stand-in for ``kernelbook.lab`` with the same wire format, so that a kernel is
ready in 0.3 s; one test uses the real module.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kernelbook.grade import plugin as module
from kernelbook.grade.kernel import Limits, Reply
from kernelbook.grade.outcome import Key, Outcome, RunOutcome, message_of_test
from kernelbook.grade.plugin import GradePlugin, RunLimits, run
from kernelbook.grade.record import Category
from kernelbook.grade.sandbox import Sandbox

LAB = """
import base64, sys, types
import numpy as np
lab = types.ModuleType("kernelbook.lab")
class Answers:
    def __init__(self, items): self.items = items
    def _repr_mimebundle_(self, **_): return {"application/vnd.kernelbook.answers+json": self.items}
def _begin_test(seed, device): lab.generator, lab.items = np.random.default_rng(seed), []
def _take_answers():
    items, lab.items = lab.items, []
    return Answers(items)
def answer(value, rtol=1e-5):
    a = np.asarray(value)
    lab.items.append(dict(dtype=a.dtype.str, shape=list(a.shape), rtol=rtol, atol=None,
        equal_nan=False, data=base64.b64encode(a.tobytes()).decode()))
lab._begin_test, lab._take_answers, lab.answer = _begin_test, _take_answers, answer
lab.rng = lambda: lab.generator
sys.modules["kernelbook.lab"] = lab
"""
RIGHT = "def double(x):\n    return 2 * x"
TEST = "secret_shape = 5\nx = lab.rng().standard_normal(secret_shape)\nlab.answer(double(x))"
MESSAGE = "double every element"
LIMITS = RunLimits(kernel=Limits(memory_bytes=500 << 20), cell_seconds=5, test_seconds=5)


def cell(source: str, role: str, **about: Any) -> nbformat.NotebookNode:
    return new_code_cell(source, metadata={"kernelbook": {"role": role, **about}})


def context(source: str) -> nbformat.NotebookNode:
    return cell(source, "context")


def answer(source: str, exercise: str = "double") -> nbformat.NotebookNode:
    return cell(source, "answer", exercise=exercise)


def hidden(source: str = TEST, test: str = "first", exercise: str = "double") -> Any:
    return cell(source, "test", exercise=exercise, test=test, points=1, message=MESSAGE)


class Grader:
    """Runs the same tests once with a right answer, for references, and once with the learner's."""

    known: ClassVar[dict[str, dict[Key, Any]]] = {}

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox

    def notebook(self, cells: Sequence[Any]) -> Path:
        path = self.folder / "assembled.ipynb"
        nbformat.write(new_notebook(cells=list(cells)), path)
        return path

    def run(self, *cells: Any, references: Any = None, **options: Any) -> RunOutcome:
        options.setdefault("limits", LIMITS)
        options.setdefault("seeds", lambda exercise, test: len(test) + (7 << 100))
        return run(
            self.notebook([context(LAB), *cells]),
            sandbox=options.pop("sandbox", self.sandbox),
            device=options.pop("device", "sim"),
            references=references,
            **options,
        )

    def references(self, *tests: Any) -> dict[Key, Any]:
        wanted = str([(test.source, test.metadata) for test in tests])
        if wanted not in self.known:
            outcome = self.run(answer(RIGHT), *tests)
            assert {o.category for o in outcome.tests} == {Category.PASS}, outcome
            self.known[wanted] = {(o.exercise, o.test): o.answers for o in outcome.tests}
        return self.known[wanted]

    def grade(self, learner: Sequence[Any], *tests: Any, **options: Any) -> RunOutcome:
        return self.run(*learner, *tests, references=self.references(*tests), **options)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox.detect()


@pytest.fixture
def grader(tmp_path: Path, sandbox: Sandbox) -> Grader:
    return Grader(tmp_path, sandbox)


def categories(outcome: RunOutcome) -> list[str]:
    return [str(o.category) for o in outcome.tests]


def only(outcome: RunOutcome) -> Outcome:
    assert len(outcome.tests) == 1
    return outcome.tests[0]


THREE = (hidden(test="first"), hidden(test="second"), hidden(test="third"))


def fatal_in_second(action: str) -> Any:
    """An answer that is right, but does `action` in the second test: its inputs give it away."""
    return answer(
        "seen = 0\ndef double(x):\n    import os\n"
        f"    if abs(x[0] - {second_input()!r}) < 1e-12:\n        {action}\n    return 2 * x"
    )


def second_input() -> float:
    import numpy as np

    return float(np.random.default_rng(len("second") + (7 << 100)).standard_normal(5)[0])


def test_run_right_answer_passes_and_wrong_one_shows_authored_message(grader: Grader) -> None:
    tests = (hidden(), hidden("lab.answer(np.arange(3.0) * len(double(np.ones(2))))", "second"))
    outcome = grader.grade([answer("def double(x):\n    return x")], *tests)
    assert categories(outcome) == ["wrong", "pass"]
    wrong, right = outcome.tests
    assert wrong.message == MESSAGE
    assert "expected" in wrong.note
    assert (right.message, right.answers) == ("", ())


def test_run_each_cell_is_an_item_exactly_once(
    grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "runs = globals().get('runs', 0) + 1"
    cells = [answer(RIGHT), context(count), hidden(f"{count}\nlab.answer(runs)")]
    outcome = grader.run(*cells[:1], new_markdown_cell("text"), *cells[1:])
    assert only(outcome).answers[0].value == 2
    assert (outcome.items, outcome.kernel_starts) == (4, 1)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYTEST_ADDOPTS", "--nbval"),
        ("PYTEST_ADDOPTS", "-k nothing"),
        ("PYTEST_PLUGINS", "no_such_plugin"),
    ],
)
def test_run_is_not_steered_by_pytest_variables(
    grader: Grader, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    outcome = grader.run(answer(RIGHT), hidden())
    assert (categories(outcome), outcome.items) == (["pass"], 3)


def test_run_is_not_steered_by_files_beside_the_notebook(grader: Grader) -> None:
    for name in ("conftest.py", "__init__.py"):
        (grader.folder / name).write_text("raise SystemExit('loaded')")
    (grader.folder / "pytest.ini").write_text("[pytest]\naddopts = --nbval -k nothing\n")
    outcome = grader.run(answer(RIGHT), hidden())
    assert (categories(outcome), outcome.items) == (["pass"], 3)


def test_plugin_refuses_nbval_flags(grader: Grader, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = module._arguments()
    monkeypatch.setattr(module, "_arguments", lambda: [*arguments, "--nbval"])
    outcome = grader.run(answer(RIGHT), hidden())
    assert (categories(outcome), outcome.items) == (["missing"], 0)


def test_run_test_that_pytest_never_ran_is_missing(
    grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = grader.references(hidden())
    arguments = module._arguments()
    monkeypatch.setattr(module, "_arguments", lambda: [*arguments, "-k", "nothing"])
    outcome = grader.run(answer(RIGHT), hidden(), references=references)
    assert (categories(outcome), outcome.items) == (["missing"], 0)


def test_run_nbval_markers_and_tags_have_no_effect(grader: Grader) -> None:
    references = grader.references(hidden())
    skipped = hidden("# NBVAL_SKIP\n" + TEST)
    skipped.metadata["tags"] = ["nbval-skip", "raises-exception"]
    outcome = grader.run(answer("def double(x):\n    return x"), skipped, references=references)
    assert categories(outcome) == ["wrong"]


def test_run_prints_nothing_and_again_in_one_process_works(
    grader: Grader, capfd: pytest.CaptureFixture[str]
) -> None:
    cells = (answer("print('loud')\n" + RIGHT), hidden())
    assert [categories(grader.run(*cells)) for _ in range(2)] == [["pass"], ["pass"]]
    assert categories(grader.run(answer("loud"), hidden())) == ["error"]
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.parametrize(
    ("action", "category"),
    [
        ("os._exit(0)", "died"),
        ("while True: pass", "timeout"),
        ("while True: print('x' * 1000)", "output limit"),
        ("y = bytearray(900 << 20); import time; time.sleep(9)", "out of memory"),
    ],
    ids=["exit", "loop", "print", "memory"],
)
def test_run_kernel_lost_in_one_test_costs_that_test_only(
    grader: Grader, action: str, category: str
) -> None:
    outcome = grader.grade([fatal_in_second(action)], *THREE, budgets={("double", "second"): 2.0})
    assert categories(outcome) == ["pass", category, "pass"]
    assert outcome.kernel_starts == 2
    assert outcome.tests[1].message


def test_run_answer_cell_that_fails_costs_its_exercise_only(grader: Grader) -> None:
    other = hidden("lab.answer(1)", "other", exercise="other")
    broken = answer("x = 1\n\nundefined + x")
    outcome = grader.grade([answer("pass", "other"), broken], *THREE[:2], other)
    assert categories(outcome) == ["error", "error", "pass"]
    assert "NameError on its line 3" in outcome.tests[0].message
    assert "name 'undefined' is not defined" in outcome.tests[0].message


def test_run_answer_cell_that_kills_is_left_out_of_the_replay(grader: Grader) -> None:
    other = hidden("lab.answer(kept)", "other", exercise="other")
    tests = (hidden(), other)
    references = grader.run(context("kept = 3"), answer(RIGHT), *tests)
    outcome = grader.run(
        context("kept = 3"),
        answer("import os; os._exit(1)"),
        *tests,
        references={(o.exercise, o.test): o.answers for o in references.tests},
    )
    assert categories(outcome) == ["died", "pass"]
    assert outcome.kernel_starts == 2


def test_run_answer_cell_that_kills_only_when_replayed_costs_its_exercise(grader: Grader) -> None:
    tests = (
        hidden("lab.answer(f(1))", "dies", "other"),
        hidden(),
        hidden("lab.answer(f(2))", "lives", "other"),
    )
    reference = grader.run(answer("f = abs", "other"), answer(RIGHT), *tests)
    then = time.time() + 1.0
    outcome = grader.run(
        answer(f"import os, time\nif time.time() > {then}: os._exit(1)\n{RIGHT}"),
        answer(
            "import os, time\ndef f(x):\n    if x == 1:\n"
            f"        time.sleep(max(0, {then} + 0.1 - time.time())); os._exit(0)\n    return x",
            "other",
        ),
        *tests,
        references={(o.exercise, o.test): o.answers for o in reference.tests},
    )
    assert categories(outcome) == ["died", "died", "pass"]
    assert outcome.kernel_starts == 3


def test_run_interrupted_by_the_keyboard_raises_and_leaves_no_kernel(
    grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.GradedCell, "_test", interrupted)
    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        grader.run(answer(RIGHT), hidden())
    assert set(psutil.Process().children()) <= before


def test_run_extra_cell_that_fails_or_kills_costs_nothing(grader: Grader) -> None:
    learner = [cell("1 / 0", "extra"), cell("import os; os._exit(1)", "extra"), answer(RIGHT)]
    outcome = grader.grade(learner, hidden())
    assert categories(outcome) == ["pass"]
    assert len(outcome.notes) == 2


@pytest.mark.parametrize(
    ("cheat", "category"),
    [
        ("get_ipython().showtraceback = lambda *a, **k: None\ndouble = None", "error"),
        ("get_ipython().input_transformers_cleanup.append(lambda lines: ['pass'])", "missing"),
        ("lab.answer = lambda *a, **k: None\n" + RIGHT, "missing"),
        ("real = lab.answer\nlab.answer = lambda v: (real(v), real(v))\n" + RIGHT, "wrong"),
        ("lab._take_answers = lambda: 1/0\n" + RIGHT, "missing"),
        ("lab._take_answers = lambda: Answers([{'dtype': 'O'}])\n" + RIGHT, "missing"),
        ("lab._take_answers = lambda: Answers([[[]]])\n" + RIGHT, "missing"),
        ("lab._begin_test = lambda *a: 1/0\n" + RIGHT, "error"),
        (
            "def double(x):\n"
            "    k = get_ipython().kernel\n"
            "    parent = k.get_parent('shell')\n"
            "    data = {'application/vnd.kernelbook.answers+json': [{'dtype': '<f8'}]}\n"
            "    for kind in ('display_data', 'execute_result', 'execute_reply'):\n"
            "        k.session.send(k.iopub_socket, kind, {'status': 'ok', 'data': data,\n"
            "            'user_expressions': {'answers': {'data': data}}}, parent=parent)\n"
            "    k.session.send(k.iopub_socket, 'status', {'execution_state': 'idle'},\n"
            "        parent=parent)\n"
            "    return x",
            "wrong",
        ),
    ],
    ids=[
        "showtraceback",
        "blanked cells",
        "answer dropped",
        "answer twice",
        "take_answers raises",
        "malformed",
        "not an answer",
        "begin_test raises",
        "forged on IOPub",
    ],
)
def test_run_cheat_earns_nothing(grader: Grader, cheat: str, category: str) -> None:
    outcome = grader.grade([answer(cheat)], hidden())
    assert categories(outcome) == [category]


def test_run_messages_never_hold_the_hidden_source(grader: Grader) -> None:
    tests = (
        hidden("secret_name = double(1)\nraise ValueError('secret_text')", "own"),
        hidden("secret_name = double(None)\nlab.answer(1)", "theirs"),
    )
    outcome = grader.run(
        answer("def double(x):\n    if x is None: raise TypeError('\\x1b[31mtheir words')"), *tests
    )
    assert categories(outcome) == ["error", "error"]
    own, theirs = outcome.tests
    assert own.message == "Your code raised ValueError."
    assert theirs.message == "Your code raised TypeError. It says: “their words”"


def test_message_of_a_race_keeps_its_advice_and_both_source_lines() -> None:
    said = "kernel, block 0, thread 0, line 14: " + "reads what another writes. " * 14
    lines = (said.rstrip(), "    9 | partial[tid] = x[i]", "   14 | partial[tid] += 1")
    reply = Reply("error", ename="RaceError", evalue="\n".join(lines))
    message = message_of_test(reply, quote=True)
    assert [line.strip(" ”") for line in message.splitlines()[1:]] == [
        "9 | partial[tid] = x[i]",
        "14 | partial[tid] += 1",
    ]
    assert "…" not in message
    flood = Reply("error", ename="RaceError", evalue="\x1b[31mx\n" * 99)
    assert message_of_test(flood, quote=True).count("\n") < 4


def test_repr_failure_shows_the_category_alone(
    grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []

    def keep(self: GradePlugin, report: pytest.TestReport) -> None:
        reports.append(str(report.longrepr))

    monkeypatch.setattr(GradePlugin, "pytest_runtest_logreport", keep, raising=False)
    grader.run(answer("def double(x):\n    raise ValueError"), hidden())
    assert "error" in reports
    assert not any("secret_shape" in report or "Traceback" in report for report in reports)


def test_run_context_that_fails_is_ours_until_learner_code_has_run(grader: Grader) -> None:
    references = grader.references(hidden())
    first = grader.run(context("1 / 0"), answer(RIGHT), hidden(), references=references)
    assert categories(first) == ["infrastructure"]
    assert "ZeroDivisionError" in only(first).note
    assert "ZeroDivision" not in only(first).message
    after = grader.run(answer("np = None"), context("np.sum"), hidden(), references=references)
    assert categories(after) == ["error"]


def test_run_reference_that_answers_nothing_is_missing(grader: Grader) -> None:
    assert categories(grader.run(answer(RIGHT), hidden("double(1)"))) == ["missing"]


def test_run_test_without_reference_is_infrastructure(grader: Grader) -> None:
    outcome = grader.run(answer(RIGHT), hidden(), references={})
    assert categories(outcome) == ["infrastructure"]


def test_run_seed_decides_the_inputs(grader: Grader) -> None:
    seeds = [{("double", "first"): seed} for seed in (2**128 - 1, 2**128 - 1, 2**128 - 2)]
    a, b, c = (
        only(grader.run(answer(RIGHT), hidden(), seeds=seed)).answers[0].value.tolist()
        for seed in seeds
    )
    assert a == b != c


BROKEN_CONTEXT = """
lab.living = True
def begin(seed, device, _begin=lab._begin_test):
    if not lab.living:
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
    _begin(seed, device)
lab._begin_test = begin
"""


def test_run_broken_cuda_context_is_not_inherited_by_the_next_test(grader: Grader) -> None:
    """An illegal access leaves a CUDA context unusable for the rest of the process."""
    tests = [
        hidden("lab.answer(double(np.arange(3.0)))", "breaks"),
        hidden("lab.answer(double(np.arange(5.0)))", "comes after"),
    ]
    learner = answer(
        "def double(x):\n    if len(x) == 3:\n        lab.living = False\n"
        "        raise RuntimeError('CUDA_ERROR_ILLEGAL_ADDRESS')\n    return 2 * x"
    )
    outcome = grader.grade([context(BROKEN_CONTEXT), learner], *tests, device="gpu")
    assert [o.category for o in outcome.tests] == [Category.ERROR, Category.PASS]
    assert outcome.kernel_starts == 2


def test_run_restarts_are_bounded(grader: Grader) -> None:
    limits = RunLimits(cell_seconds=5, test_seconds=5, restarts=1)
    outcome = grader.grade(
        [answer("import os\ndef double(x):\n    os._exit(0)")], *THREE, limits=limits
    )
    assert categories(outcome) == ["died", "died", "died"]
    assert outcome.kernel_starts == 2
    assert "no more were started" in outcome.tests[2].message


def test_run_total_time_is_bounded(grader: Grader) -> None:
    limits = RunLimits(cell_seconds=5, test_seconds=5, total_seconds=2)
    outcome = grader.grade(
        [answer("import os\ndef double(x):\n    while True: pass")], *THREE, limits=limits
    )
    assert categories(outcome) == ["timeout"] * 3
    assert outcome.seconds < 5
    assert "whole notebook" in outcome.tests[2].message


def test_run_kernel_ended_between_tests_is_replaced(grader: Grader) -> None:
    slow = hidden("import time; time.sleep(0.1)\n" + TEST, "second")
    bomb = answer(
        "import os, threading\n" + RIGHT + "\nthreading.Timer(1e-3, os._exit, (0,)).start()"
    )
    limits = RunLimits(cell_seconds=5, test_seconds=5, restarts=2)
    outcome = grader.grade([bomb], hidden(), slow, limits=limits)
    assert set(categories(outcome)) <= {"died", "pass"}
    assert outcome.kernel_starts <= 3


def test_run_sandbox_that_does_not_start_is_infrastructure(grader: Grader) -> None:
    broken = Sandbox("/bin/false", ("user namespace",))
    outcome = grader.run(answer(RIGHT), hidden(), sandbox=broken)
    assert categories(outcome) == ["infrastructure"]
    assert "did not start" in only(outcome).note


def test_run_notebook_that_is_none_raises(grader: Grader) -> None:
    path = grader.folder / "assembled.ipynb"
    path.write_text("not json")
    with pytest.raises(ValueError, match="JSON"):
        run(path, sandbox=grader.sandbox, device="sim", seeds={}, references=None)


def test_run_with_the_real_lab_module(grader: Grader) -> None:
    cells = [
        context("import numpy as np\nfrom kernelbook import lab"),
        answer(RIGHT),
        hidden("x = lab.rng().standard_normal(4)\nlab.answer(double(x), rtol=1e-6)"),
    ]
    options: Any = {"sandbox": grader.sandbox, "device": "sim", "seeds": lambda *_: 5}
    reference = run(grader.notebook(cells), references=None, **options)
    references = {(o.exercise, o.test): o.answers for o in reference.tests}
    assert categories(reference) == ["pass"], reference
    assert only(reference).answers[0].value.shape == (4,)
    cells[1] = answer("def double(x):\n    return x * 2.001")
    wrong = run(grader.notebook(cells), references=references, **options)
    assert categories(wrong) == ["wrong"]
