"""Runs an assembled notebook under nbval and says how each hidden test ended.

pytest is the trusted process; a sandboxed kernel holds the learner's code. The items are nbval's,
one a code cell, with its run loop replaced: stock nbval believes what the kernel prints and waits
for a dead kernel until the time is up. Here a test passes for one reason only: the values that came
back with its reply agree, in this process, with the reference's. Whatever does not run to that
point has a named category, and none of them is a pass.

A cell's ``metadata.kernelbook.role`` says what it is: ``context`` and ``test`` are ours, ``answer``
and ``extra`` the learner's. When a kernel is lost, the next test gets a new one, in which the cells
before it (tests and what was fatal left out) have been run again.

Limit: the text of an exception raised by learner code is shown to that learner. Code that looks at
its caller could put a piece of the test there.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbval.plugin import IPyNbCell, IPyNbFile

from kernelbook.errors import SandboxError
from kernelbook.grade.compare import Answer, decode
from kernelbook.grade.kernel import Limits, Reply, SandboxedKernel
from kernelbook.grade.outcome import (
    GRADER_FAILED,
    LAB,
    LOST,
    Key,
    Outcome,
    RunOutcome,
    difference,
    message_of_cell,
    message_of_test,
    not_run,
    said,
    wire_items,
    words,
)
from kernelbook.grade.record import Category
from kernelbook.grade.sandbox import Sandbox

Seeds = Mapping[Key, int] | Callable[[str, str], int]

_INI = Path(__file__).with_name("pytest.ini")
_PYTEST_VARIABLES = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_THEME", "PYTEST_DEBUG")
_UNWANTED = ("cacheprovider", "doctest", "faulthandler", "junitxml", "logging")


@dataclass(frozen=True)
class RunLimits:
    """Bounds of one notebook run. Times in seconds."""

    kernel: Limits = field(default_factory=Limits)
    cell_seconds: float = 60.0  # a cell that is no test
    test_seconds: float = 30.0  # a test for which the caller gives no budget
    total_seconds: float = 900.0
    restarts: int = 100  # a GPU needs one after every illegal access; total_seconds bounds them


def run(
    notebook: Path,
    *,
    sandbox: Sandbox,
    device: str,
    seeds: Seeds,
    budgets: Mapping[Key, float] | None = None,
    references: Mapping[Key, Sequence[Answer]] | None,
    limits: RunLimits | None = None,
    quote: bool = True,
) -> RunOutcome:
    """Run every cell of `notebook` once, in order, and judge its hidden tests.

    device: "sim" or "gpu". seeds: the seed of each test, the reference run's. budgets: seconds
    for each test. references: the answers of the reference run; None when this *is* that run:
    then every test that gives answers passes, and its outcome holds them. quote: whether the text
    of an exception may be shown once a test has begun; False where host code of the learner's runs.

    Nothing is printed. Raises: OSError or ValueError when the notebook cannot be read,
    KeyboardInterrupt when the run was interrupted. All else is an outcome.
    """
    began = time.monotonic()
    cells = nbformat.read(notebook, as_version=4).cells
    plugin = GradePlugin(
        notebook=notebook.resolve(strict=True),
        sandbox=sandbox,
        device=device,
        seeds=seeds,
        budgets=budgets or {},
        references=references,
        limits=limits or RunLimits(),
        quote=quote,
        deadline=began + (limits or RunLimits()).total_seconds,
    )
    try:
        with _quiet(), _own_environment():
            code = pytest.main([*_arguments(), str(plugin.notebook)], plugins=[plugin])
    finally:
        plugin.stop()
    if plugin.interrupted:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        plugin.notes.append(f"pytest ended with exit code {int(code)}")
    return RunOutcome(
        tests=tuple(
            plugin.outcomes.get(_key(about)) or not_run(_key(about))
            for about in map(_about, cells)
            if about.get("role") == "test"
        ),
        items=plugin.items,
        kernel_starts=plugin.starts,
        seconds=time.monotonic() - began,
        notes=tuple(plugin.notes),
    )


@dataclass
class GradePlugin:
    """The pytest plugin of one run: what it was asked, and what it has found so far."""

    notebook: Path
    sandbox: Sandbox
    device: str
    seeds: Seeds
    budgets: Mapping[Key, float]
    references: Mapping[Key, Sequence[Answer]] | None
    limits: RunLimits
    quote: bool
    deadline: float

    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    items: int = 0
    starts: int = 0
    interrupted: bool = False
    kernel: SandboxedKernel | None = None

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        if config.option.nbval or config.option.nbval_lax:
            # nbval would collect the notebook too, and run it once more outside the sandbox.
            raise pytest.UsageError("nbval's own flags must be off in a graded run")

    @pytest.hookimpl
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir:
        """A folder is never a package: pytest would import its ``__init__.py``."""
        return pytest.Dir.from_parent(parent, path=path)

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # pytest also ends this way when it cannot collect, with an exception of its own.
        self.interrupted = excinfo.type is KeyboardInterrupt

    @pytest.hookimpl
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> IPyNbFile | None:
        if file_path != self.notebook:
            return None
        file: GradedNotebook = GradedNotebook.from_parent(parent, path=file_path)
        file.plugin = self
        return file

    def seed(self, key: Key) -> int:
        return self.seeds(*key) if callable(self.seeds) else self.seeds[key]

    def stop(self) -> None:
        if self.kernel is not None:
            self.kernel.stop()
            self.kernel = None


class GradedNotebook(IPyNbFile):
    """One notebook and the kernel it is run on, replaced when it is lost."""

    plugin: GradePlugin

    def collect(self) -> Iterator[GradedCell]:
        """nbval's cells under our names and without its markers: those may be the learner's."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(super().collect())
        self.replay: list[GradedCell] = []
        self.blocked: dict[str, Outcome] = {}  # exercise → what all its tests come to
        self.closed: Outcome | None = None  # what all further tests come to
        self.learner_ran = False
        self.tested = False  # whether a test's source has been in the kernel that now runs
        self.last_loss = Category.DIED
        for cell in found:
            yield GradedCell.from_parent(
                self,
                name=f"cell {cell.cell_num}",
                cell_num=cell.cell_num,
                cell=cell.cell,
                options={"check": False},
            )

    def setup(self) -> None:
        """Nothing yet: the kernel starts when a cell needs it, so that a failure is an outcome."""

    def teardown(self) -> None:
        self.plugin.stop()

    def execute(self, source: str, seconds: float, **options: Any) -> Reply:
        """Run `source` on a living kernel. Raises _Closed when there can be none."""
        plugin = self.plugin
        kernel = self._living()
        left = plugin.deadline - time.monotonic()
        if left <= 0:
            self._close(Category.TIMEOUT, "The time for the whole notebook is used up.")
        reply = kernel.execute(source, timeout=min(seconds, left), **options)
        if reply.status in LOST:
            plugin.stop()
            self.last_loss = LOST[reply.status]
        return reply

    def run_cell(self, cell: GradedCell) -> None:
        """Run a cell that is no test, and remember what it means for the tests to come."""
        self._settle(cell, self.execute(cell.cell.source, self.plugin.limits.cell_seconds))
        if self.plugin.kernel is not None:
            self.replay.append(cell)

    def ours_failed(self, reply: Reply, what: str) -> Outcome:
        """Our own code failed: through our fault, unless learner code has run beside it."""
        note = f"{what}: {reply.status} {reply.reason} {said(reply)}"
        if self.plugin.references is None or not self.learner_ran:
            return Outcome("", "", Category.INFRASTRUCTURE, message=GRADER_FAILED, note=note)
        category = LOST.get(reply.status, Category.ERROR)
        message = (
            "A cell of the lab itself failed after your cells had run. "
            "Do they change a name or a module that the lab uses?"
        )
        return Outcome("", "", category, message=message, note=note)

    def _settle(self, cell: GradedCell, reply: Reply) -> None:
        where = f"cell {cell.cell_num} ({cell.role})"
        if cell.role == "context":
            if reply.status != "ok":
                self.closed = self.closed or self.ours_failed(reply, where)
            return
        self.learner_ran = True
        if reply.status == "ok":
            return
        if cell.role != "answer":
            self.plugin.notes.append(f"{where}: {reply.status} {reply.reason} {said(reply)}")
            return
        if reply.status == "error":
            message = message_of_cell(reply, quote=self.plugin.quote or not self.tested)
        else:
            message = f"The cell of this exercise did not end: {reply.status} ({reply.reason})."
        category = LOST.get(reply.status, Category.ERROR)
        self.blocked.setdefault(
            cell.exercise, Outcome("", "", category, message=message, note=f"{where}: {message}")
        )

    def _living(self) -> SandboxedKernel:
        """The kernel; after a loss a new one, in which the cells so far have been run again."""
        plugin = self.plugin
        if plugin.kernel is not None and not plugin.kernel.alive:
            plugin.stop()  # something left running by an earlier cell ended it
        while plugin.kernel is None:
            if plugin.starts > plugin.limits.restarts:
                self._close(
                    self.last_loss,
                    f"The Python process was lost {plugin.starts} times; no more were started.",
                )
            plugin.starts += 1
            kernel = SandboxedKernel(
                plugin.sandbox, device=plugin.device, limits=plugin.limits.kernel
            )
            kernel.start()
            plugin.kernel = kernel
            self.tested = False
            for cell in list(self.replay):
                left = plugin.deadline - time.monotonic()
                if left <= 0:
                    self._close(Category.TIMEOUT, "The time for the whole notebook is used up.")
                seconds = min(plugin.limits.cell_seconds, left)
                reply = kernel.execute(cell.cell.source, timeout=seconds)
                if reply.status in LOST:
                    plugin.stop()
                    self.last_loss = LOST[reply.status]
                    self.replay.remove(cell)
                    self._settle(cell, reply)
                    break
        return plugin.kernel

    def _close(self, category: Category, message: str) -> None:
        self.closed = self.closed or Outcome("", "", category, message=message, note=message)
        raise _Closed


class GradedCell(IPyNbCell):
    """One code cell. Its pytest outcome mirrors the category; the category is what counts."""

    parent: GradedNotebook

    @property
    def about(self) -> Mapping[str, Any]:
        return _about(self.cell)

    @property
    def role(self) -> str:
        return str(self.about.get("role", "extra"))

    @property
    def exercise(self) -> str:
        return str(self.about.get("exercise", ""))

    @property
    def key(self) -> Key:
        return _key(self.about)

    def setup(self) -> None:
        """nbval marks cells after a timeout as expected failures. Nothing is expected here."""

    def runtest(self) -> None:
        file, plugin = self.parent, self.parent.plugin
        plugin.items += 1
        if self.role != "test":
            if file.closed is None:
                self._guarded(lambda: file.run_cell(self))
            return
        self._guarded(self._test)
        outcome = plugin.outcomes.get(self.key)
        if outcome is None:
            outcome = file.closed or not_run(self.key)
        exercise, test = self.key
        plugin.outcomes[self.key] = replace(outcome, exercise=exercise, test=test)
        if outcome.category is not Category.PASS:
            raise _NotPassed(outcome.category.value)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
        """The category alone. nbval's own would print the hidden source and the traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, _NotPassed) else "grader failed"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run `action`; a failure of ours closes the run instead of passing for the learner's."""
        try:
            action()
        except _Closed:
            pass
        except Exception as error:
            self.parent.plugin.stop()
            known = isinstance(error, SandboxError)
            note = str(error) if known else f"{type(error).__name__}: {error}"
            self.parent.closed = Outcome(
                "", "", Category.INFRASTRUCTURE, message=GRADER_FAILED, note=note
            )

    def _test(self) -> None:
        file, plugin = self.parent, self.parent.plugin
        settled = file.closed or file.blocked.get(self.exercise)
        if settled is None:
            settled = self._ask()
        plugin.outcomes[self.key] = settled

    def _ask(self) -> Outcome:
        file, plugin = self.parent, self.parent.plugin
        wanted = None
        if plugin.references is not None:
            wanted = plugin.references.get(self.key)
            if not wanted:
                return self._outcome(Category.INFRASTRUCTURE, note="no reference answers")
        begin = f"{LAB}._begin_test({plugin.seed(self.key)}, {plugin.device!r})"
        reply = file.execute(begin, plugin.limits.cell_seconds, silent=True)
        if reply.status == "error" and plugin.device == "gpu":
            # A CUDA context that an earlier test has broken stays broken: only a new process heals.
            plugin.stop()
            reply = file.execute(begin, plugin.limits.cell_seconds, silent=True)
        # A kernel that was lost while the cells were replayed may have settled this test.
        settled = file.closed or file.blocked.get(self.exercise)
        if settled is not None:
            return settled
        if reply.status != "ok":
            return file.ours_failed(reply, "begin_test")
        file.tested = True
        seconds = plugin.budgets.get(self.key, plugin.limits.test_seconds)
        reply = file.execute(
            self.cell.source, seconds, user_expressions={"answers": f"{LAB}._take_answers()"}
        )
        return replace(self._judge(reply, wanted), seconds=reply.seconds)

    def _judge(self, reply: Reply, wanted: Sequence[Answer] | None) -> Outcome:
        if reply.status == "timeout":
            return self._outcome(Category.TIMEOUT, f"No answer within {reply.seconds:.3g} seconds.")
        if reply.status in LOST:
            message = f"The Python process was lost during this test: {reply.reason}."
            return self._outcome(LOST[reply.status], message)
        if reply.status == "error":
            message = message_of_test(reply, quote=self.parent.plugin.quote)
            late = reply.ename == "TimeLimitError"  # the simulator's own limit names the line
            return self._outcome(Category.TIMEOUT if late else Category.ERROR, message, said(reply))
        try:
            answers = tuple(map(decode, wire_items(reply)))
        except ValueError as error:
            note = f"malformed answer: {words(str(error))}"
            return self._outcome(Category.MISSING, "The test ended without an answer.", note)
        if not answers:
            return self._outcome(Category.MISSING, "The test ended without an answer.")
        if wanted is None:
            return replace(self._outcome(Category.PASS), answers=answers)
        found = difference(answers, wanted)
        if found is None:
            return self._outcome(Category.PASS)
        return self._outcome(Category.WRONG, str(self.about.get("message", "")), found)

    def _outcome(self, category: Category, message: str = "", note: str = "") -> Outcome:
        if category is Category.INFRASTRUCTURE:
            message = GRADER_FAILED
        return Outcome(*self.key, category, message=message, note=note)


class _Closed(Exception):
    """No further cell can be run; ``GradedNotebook.closed`` says why."""


class _NotPassed(Exception):
    """Tells pytest that a test did not pass; holds the category only."""


def _about(cell: NotebookNode) -> Mapping[str, Any]:
    found = cell.metadata.get("kernelbook", {})
    return found if isinstance(found, Mapping) and cell.cell_type == "code" else {}


def _key(about: Mapping[str, Any]) -> Key:
    return str(about.get("exercise", "")), str(about.get("test", ""))


def _arguments() -> list[str]:
    arguments = ["-c", str(_INI), "--rootdir", str(_INI.parent), "--noconftest", "--capture=no"]
    arguments += ["--disable-plugin-autoload", "--assert=plain", "-p", "nbval.plugin"]
    for plugin in _UNWANTED:
        arguments += ["-p", f"no:{plugin}"]
    return arguments


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Hide the variables that steer pytest; put back what the run changes."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYTEST")}
    for name in _PYTEST_VARIABLES:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("PYTEST")]:
            del os.environ[name]
        os.environ.update(kept)
