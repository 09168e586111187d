"""Asking a probe in a process of its own, and reading its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from typing import Any

PROBE_SECONDS = 90
COMMAND = [sys.executable, "-m", "kernelbook.doctor.inside"]

Answer = dict[str, Any]


def ask(probe: str, seconds: float = PROBE_SECONDS) -> Answer:
    """Run one probe of :mod:`kernelbook.doctor.inside` in a process of its own.

    Returns its answer; {"error", "kind"} when it raised, was killed or took too long.
    """
    try:
        done = subprocess.run(
            [*COMMAND, probe],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {seconds:g} s", "kind": "Timeout"}
    last = done.stdout.decode(errors="replace").strip().rpartition("\n")[2]
    try:
        answer = json.loads(last)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    if done.returncode < 0:
        return {"error": f"its process was ended by signal {-done.returncode}", "kind": "Signal"}
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return {"error": said or f"its process ended with status {done.returncode}", "kind": "Exit"}


def is_missing(answer: Answer, *modules: str) -> bool:
    """Whether a probe failed because one of these modules is not installed."""
    return answer.get("kind") == "ModuleNotFoundError" and any(
        f"'{module}'" in answer["error"] for module in modules
    )


def what(answer: Answer) -> str:
    """What went wrong, as the end of a sentence."""
    if "error" not in answer:
        return "the numbers are wrong."
    text = first_line(answer["error"]) or answer.get("kind", "no reason given")
    return text if text.endswith(".") else f"{text}."


def first_line(text: str) -> str:
    """The first line with something on it, shortened."""
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "")


def version_of(package: str) -> str:
    """The installed version of a distribution; "" when there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
