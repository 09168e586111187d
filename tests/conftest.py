"""How the suite is shared out among processes (``make test`` runs it with pytest-xdist)."""

from __future__ import annotations

from pathlib import Path

import pytest

# Files whose tests share nothing and take long: they come first, and each test may go anywhere.
SPREAD = ("test_verify.py", "test_learner.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, for they share fixtures; spread those of ``SPREAD``."""
    items.sort(key=lambda item: item.path.name not in SPREAD)
    for item in items:
        if item.path.name not in SPREAD:
            item.add_marker(pytest.mark.xdist_group(str(Path(item.path).name)))
