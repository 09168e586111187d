"""Run the pages again when what they show has changed elsewhere.

The build keeps a page's outputs until the page's own code changes. But a page also shows what is
in ``benchmarks/*.json`` and what the simulator says. So a fingerprint of both is kept beside the
outputs; when it differs, the outputs are forgotten.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

STAMP = "outputs-made-with.txt"


def sources(srcdir: Path) -> Iterator[Path]:
    """The files outside the pages on which their outputs depend."""
    yield from sorted((srcdir / "benchmarks").glob("*.json"))
    package = importlib.util.find_spec("kernelbook")
    for folder in package.submodule_search_locations or () if package else ():
        yield from sorted(Path(folder).rglob("*.py"))


def fingerprint(files: Iterable[Path]) -> str:
    """One hash over names and contents."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def forget_stale_outputs(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Drop the outputs and have every page read again, unless the fingerprint is the same."""
    build = Path(app.outdir).parent
    stamp, now = build / STAMP, fingerprint(sources(Path(app.srcdir)))
    if stamp.is_file() and stamp.read_text() == now:
        return []
    shutil.rmtree(build / ".jupyter_cache", ignore_errors=True)
    stamp.write_text(now)
    return sorted(env.found_docs)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-get-outdated", forget_stale_outputs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
