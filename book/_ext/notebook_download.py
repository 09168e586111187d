"""Offer each page that has code as a notebook, in the theme's download menu.

The theme does this only for books with a launch button, and those need a public address. The
notebook offered is the one that ran at build, with its outputs.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

BEFORE_THE_MENU = 400  # the theme builds its download menu at 501


def offer(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Copy the executed notebook beside the page's source and name it to the theme."""
    executed = Path(app.outdir).parent / "jupyter_execute" / f"{pagename}.ipynb"
    if not executed.is_file() or context.get("page_source_suffix") == ".ipynb":
        return
    target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(executed, target)
    context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", offer, priority=BEFORE_THE_MENU)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
