"""The answers of a lab's own solutions, with which every submission of a batch is compared.

One reference run serves a whole batch: same seed, same device, same machine. It is kept in
``OUT/private`` as arrays and JSON (nothing is ever unpickled), so that a resumed batch compares
with the very same values. The reference's own time sets the time budget of each test.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelbook.grade.compare import Answer

Key = tuple[str, str]  # (exercise, hidden test's name)

# A learner's answer may take this many times the reference's seconds, and never less than the
# floor: start-up noise of a busy two-core machine reached 1.5 s in trials.
BUDGET_FACTOR = 10.0
BUDGET_FLOOR_S = 5.0


@dataclass(frozen=True)
class Reference:
    """Answers and seconds of each hidden test."""

    answers: Mapping[Key, tuple[Answer, ...]]
    seconds: Mapping[Key, float]

    def budgets(self) -> dict[Key, float]:
        """Seconds that each test may take."""
        return {key: max(BUDGET_FLOOR_S, BUDGET_FACTOR * s) for key, s in self.seconds.items()}

    def relabelled(self, labels: Mapping[Key, Key]) -> Reference:
        """The same values under other labels: new key → key here."""
        return Reference(
            {new: self.answers[old] for new, old in labels.items()},
            {new: self.seconds[old] for new, old in labels.items()},
        )


def save(reference: Reference, path: Path) -> None:
    """Write by rename, so that a reader sees the whole or nothing."""
    arrays: dict[str, np.ndarray] = {}
    index = []
    for (exercise, test), answers in reference.answers.items():
        entries = []
        for answer in answers:
            name = f"a{len(arrays)}"
            arrays[name] = answer.value
            entries.append([name, answer.rtol, answer.atol, answer.equal_nan])
        index.append([exercise, test, reference.seconds[exercise, test], entries])
    arrays["index"] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    Path(file.name).replace(path)


def load(path: Path) -> Reference:
    """Read what :func:`save` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        index = json.loads(stored["index"].tobytes())
        answers = {
            (exercise, test): tuple(
                Answer(stored[name], rtol, atol, nan) for name, rtol, atol, nan in entries
            )
            for exercise, test, _, entries in index
        }
        seconds = {(exercise, test): float(s) for exercise, test, s, _ in index}
    return Reference(answers, seconds)
