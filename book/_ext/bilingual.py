"""Page titles in two languages: ``# First CUDA · CUDA 入门编程``.

A source keeps its title as one plain line, so that it reads well in any editor. Here the part
after the first `` · `` is wrapped in a span of class ``zh``: the heading then sets it on a line
of its own and the navigation sets it small (``warp.css``).
Limit: only the title of a page is split, and only where plain text holds the separator.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SEPARATOR = " · "


class BilingualTitle(SphinxTransform):
    """Split the page's title at the separator."""

    default_priority = 400  # before Sphinx gathers titles for the navigation

    def apply(self, **kwargs: Any) -> None:
        title = next(iter(self.document.findall(nodes.title)), None)
        if title is None or len(title) != 1 or not isinstance(title[0], nodes.Text):
            return
        english, separator, chinese = str(title[0]).partition(SEPARATOR)
        if separator:
            title.children = []
            title += nodes.Text(english)
            title += nodes.inline("", SEPARATOR, classes=["separator"])
            title += nodes.inline("", chinese, classes=["zh"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(BilingualTitle)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
