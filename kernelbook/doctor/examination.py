"""The examination: all probes in parallel, each turned into findings."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console

from kernelbook.doctor import languages, machine
from kernelbook.doctor.report import Finding, Report, render

Group = Callable[[], Iterable[Finding]]

GROUPS: tuple[Group, ...] = (
    machine.python_environment,
    machine.memory_and_disk,
    machine.gpus,
    languages.packages,
    languages.real_compilers,
    languages.simulator,
    languages.gpu_kernel,
    languages.cupy,
    languages.torch,
    languages.triton_interpreter,
    languages.triton_compile,
    languages.opencl,
    machine.sandbox,
    machine.jupyter,
    machine.programs,
)
SLOW = (languages.triton_compile, languages.triton_interpreter, languages.torch)


def examine(groups: tuple[Group, ...] = GROUPS) -> Report:
    """Look at everything. Cost: 3 to 20 s on two cores.

    groups: what to look at; a group that breaks down becomes a finding itself.
    """
    slow_first = sorted(groups, key=lambda group: group not in SLOW)  # none runs alone at the end
    with ThreadPoolExecutor(max_workers=max(2, min(len(groups), os.cpu_count() or 2))) as pool:
        pending = {group: pool.submit(_guarded, group) for group in slow_first}
        return Report(tuple(f for group in groups for f in pending[group].result()))


def run(json: bool = False) -> int:
    """Print the report, as a table or as JSON; returns 1 only when nothing can run a lab."""
    if json:
        report = examine()
        print(json_format.dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        console = Console()
        with console.status("Looking at this machine …"):
            report = examine()
        render(report, console)
    return 0 if report.can_run_lab else 1


def _guarded(group: Group) -> list[Finding]:
    """A probe's own breakdown is a finding too."""
    try:
        return list(group())
    except Exception as error:
        name = group.__name__.replace("_", " ")
        return [Finding(name, "warn", "could not be looked at", f"{type(error).__name__}: {error}")]
