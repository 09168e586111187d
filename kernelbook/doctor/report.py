"""Findings, what follows from them, and how they are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

Status = Literal["ok", "warn", "fail", "absent"]

SIMULATOR = "simulator"
GPU_KERNEL = "kernel on the GPU"
MARKS = {
    "ok": ("✓", "green"),
    "warn": ("!", "yellow"),
    "fail": ("✗", "red"),
    "absent": ("–", "dim"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    ``found``: what is there. ``problem``: one plain sentence, "" when there is none. ``fix``: the
    command or step that removes the problem, "" when nothing needs doing.
    """

    name: str
    status: Status
    found: str
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Report:
    """All findings, in the order in which they are shown."""

    findings: tuple[Finding, ...]

    @property
    def can_run_lab(self) -> bool:
        """Whether a lab runs here at all: in the simulator or on a GPU."""
        runs = {f.name for f in self.findings if f.status == "ok"}
        return bool(runs & {SIMULATOR, GPU_KERNEL})

    def as_dict(self) -> dict[str, Any]:
        """The report in JSON's types."""
        return {
            "can_run_lab": self.can_run_lab,
            "findings": [asdict(finding) for finding in self.findings],
        }


def render(report: Report, console: Console) -> None:
    """Write the report as a table, then each problem with its fix, then one closing line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("looked at", no_wrap=True)
    table.add_column("found")
    for finding in report.findings:
        mark, style = MARKS[finding.status]
        table.add_row(Text(mark, style), finding.name, Text(finding.found))
    console.print(table)
    for finding in report.findings:
        if not finding.problem:
            continue
        mark, style = MARKS[finding.status]
        console.print()
        console.print(
            Text.assemble((mark, style), " ", (finding.name, "bold"), ": ", finding.problem)
        )
        if finding.fix:
            console.print(Text(f"    {finding.fix}", "cyan"), soft_wrap=True)
    console.print()
    console.print(_closing(report))


def _closing(report: Report) -> str:
    runs = {f.name for f in report.findings if f.status == "ok"}
    if GPU_KERNEL in runs:
        return "Labs run on the GPU here" + (" and in the simulator." if SIMULATOR in runs else ".")
    if SIMULATOR in runs:
        return "Labs run in the simulator here; times need a GPU."
    return (
        "No lab can run here: neither the simulator nor a GPU works. Start with the first ✗ above."
    )
