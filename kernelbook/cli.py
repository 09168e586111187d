"""The ``kernelbook`` command: one sub-command per verb of the course, no logic of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import kernelbook
from kernelbook.errors import KernelbookError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="From Graph to Warp: release labs, prove their tests, grade a class.",
)
console = Console()
complaints = Console(stderr=True)

Labs = Annotated[list[str] | None, typer.Argument(help="Labs such as cuda/reduce; all if omitted.")]
Device = Annotated[str, typer.Option(help="auto, sim (no GPU needed) or gpu.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes that work side by side.")]
NoSandbox = Annotated[
    bool, typer.Option("--no-sandbox", help="Run learners' code unprotected. Never for a class.")
]


def _plainly(command: Callable[..., Any]) -> Callable[..., Any]:
    """Show our own errors as a sentence and exit 2, without a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KernelbookError as error:
            complaints.print(str(error), style="red", markup=False, highlight=False)
            raise typer.Exit(2) from None

    return run


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"kernelbook {kernelbook.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Release labs, prove their tests, grade a class."""


@app.command()
@_plainly
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what this machine can run, what is wrong with it, and how to fix it."""
    from kernelbook import doctor as examination

    raise typer.Exit(examination.run(json=json))


@app.command()
@_plainly
def release(
    labs: Labs = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail when a notebook is out of date.")
    ] = False,
    to: Annotated[
        Path, typer.Option("--to", help="Where the notebooks go; hand this folder to a class.")
    ] = Path("labs"),
) -> None:
    """Make the learners' notebooks from the sources in solutions/."""
    from kernelbook import release as releases
    from kernelbook import source

    read = [source.read(path) for path in source.find(labs or [])]
    if not check:
        for lab in read:
            console.print(f"{releases.write(lab, to)}  version {lab.version}", highlight=False)
        return
    stale = [str(releases.path_of(lab.id, to)) for lab in read if releases.is_stale(lab, to)]
    strays = [] if labs else [str(path) for path in releases.orphans(read, to)]
    for path in stale:
        complaints.print(f"{path} is not what its source gives. Run: kernelbook release")
    for path in strays:
        complaints.print(f"{path} has no source in solutions/. Delete it.")
    raise typer.Exit(1 if stale or strays else 0)


@app.command()
@_plainly
def verify(
    labs: Labs = None,
    device: Device = "auto",
    jobs: Jobs = 2,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what holds, too.")] = False,
) -> None:
    """Prove each lab's hidden tests by the answers they accept and reject."""
    from kernelbook import verify as proofs

    failed = 0
    for table, misses in proofs.tables(labs or [], device, jobs, verbose=verbose):
        console.print(table)
        failed += misses
    raise typer.Exit(1 if failed else 0)


@app.command()
@_plainly
def grade(
    submissions: Annotated[
        list[Path], typer.Argument(exists=True, help="Notebooks, or folders of them.")
    ],
    out: Annotated[Path, typer.Option(help="Where records, gradebook and feedback go.")],
    lab: Annotated[str, typer.Option(help="Refuse notebooks of any other lab.")] = "",
    device: Device = "auto",
    jobs: Jobs = 2,
    no_sandbox: NoSandbox = False,
) -> None:
    """Grade submissions in the sandbox and write one record each."""
    from kernelbook.device import choose
    from kernelbook.grade import engine
    from kernelbook.grade.handed_in import handed_in

    batch = engine.open_batch(out, choose(device), sandboxed=not no_sandbox)
    jobs_to_do = [
        engine.GradeJob(batch=batch, path=path, learner=learner, lab=lab)
        for path, learner in handed_in(submissions)
    ]
    with _progress() as bar:
        task = bar.add_task(f"grading on {batch.device}", total=len(jobs_to_do))
        found = engine.grade(jobs_to_do, workers=jobs, done=lambda *_: bar.advance(task))
    refused = sum(bool(record.reason) for record in found)
    console.print(
        f"{len(found)} submissions, {refused} of them could not be graded. "
        f"Where each stands: kernelbook report {out}",
        highlight=False,
    )


@app.command()
@_plainly
def report(
    out: Annotated[Path, typer.Argument(help="The folder that `kernelbook grade` wrote.")],
) -> None:
    """Write gradebook, feedback pages and the class report from the records."""
    from kernelbook.grade import record
    from kernelbook.grade import report as reports

    if not (out / record.RECORDS).is_dir():
        raise KernelbookError(
            f"{out}: no records here. `kernelbook grade SUBMISSIONS --out {out}` writes them."
        )
    written = reports.render_all(out)
    for what, path in (
        ("class report", written.report),
        ("gradebook", written.sqlite),
        ("marks as CSV", written.csv),
        ("tests as CSV", written.tests_csv),
    ):
        console.print(f"{what:13} {path}", highlight=False)
    console.print(f"{'feedback':13} {len(written.feedback)} pages", highlight=False)
    console.print(reports.summary(record.read_all(out)))
    for damaged in written.damaged:
        complaints.print(f"{damaged.path}: {damaged.problem}", markup=False)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


if __name__ == "__main__":
    app()
