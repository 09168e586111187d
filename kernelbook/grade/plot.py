"""Matplotlib figures as inline SVG that follows the page's colours, light or dark.

A figure is drawn with the colours of :data:`ROLES`; in the SVG each becomes a CSS class, so the
style sheet decides what it looks like. Style attributes become plain attributes, because the
page's content security policy refuses them. Text stays text, in the page's own font.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import AbstractContextManager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from kernelbook.grade.record import visible

# The drawing colour of each role. The values only have to differ; page.css sets what is seen.
ROLES = {
    "ink": "#010101",
    "muted": "#020202",
    "rule": "#030303",
    "bar": "#040404",
    "pass": "#050505",
    "wrong": "#060606",
    "error": "#070707",
    "stopped": "#080808",
    "none": "#090909",
    "ours": "#0a0a0a",
    "paper": "#0b0b0b",
}
WIDTH_IN = 4.9  # 353 units: on a phone, about as wide as that in px, text keeps its size

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kernelbook",
    "text.parse_math": False,  # a $ in a test's name is a dollar sign
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": ROLES["ink"],
    "axes.labelcolor": ROLES["muted"],
    "axes.edgecolor": ROLES["rule"],
    "xtick.color": ROLES["rule"],
    "ytick.color": ROLES["rule"],
    "xtick.labelcolor": ROLES["muted"],
    "ytick.labelcolor": ROLES["muted"],
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "hatch.linewidth": 1.0,
}
_XLINK = "{http://www.w3.org/1999/xlink}href"
_DROPPED = {"metadata", "style"}


def settings() -> AbstractContextManager[None]:
    """Return the context that a figure is made in: the settings that :data:`ROLES` rely on."""
    return matplotlib.rc_context(_SETTINGS)


def inline_svg(figure: Figure, name: str, description: str) -> Markup:
    """Return the figure as ``<svg>`` for the page. ``name`` keeps its ids apart from others'."""
    file = io.BytesIO()
    with settings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has it
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    used = set(re.findall(rb"#([\w.-]+)", file.getvalue()))
    box = root.get("viewBox", "")
    _clean(root, name, {item.decode() for item in used})
    root.attrib.clear()
    root.attrib.update(
        {"class": "plot", "viewBox": box, "role": "img", "aria-label": visible(description)}
    )
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, name: str, used: set[str]) -> None:
    element.tag = element.tag.rpartition("}")[2]
    element.text = element.text if element.tag == "text" else None
    element.tail = None
    attributes = dict(element.attrib)
    style = attributes.pop("style", "")
    attributes |= dict(_declaration(part) for part in style.split(";") if ":" in part)
    attributes.pop("font-family", None)
    if _XLINK in attributes:
        attributes["href"] = attributes.pop(_XLINK)
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    classes = []
    for attribute, value in list(attributes.items()):
        if attribute in ("fill", "stroke") and value in _ROLE_OF:
            classes.append(f"{attribute}-{_ROLE_OF[value]}")
            del attributes[attribute]
        elif attribute == "id":
            attributes[attribute] = f"{name}-{value}"
        elif attribute == "href" or value.startswith("url(#"):
            attributes[attribute] = value.replace("#", f"#{name}-")
    if classes:
        attributes["class"] = " ".join(classes)
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        if child.tag.rpartition("}")[2] in _DROPPED:
            element.remove(child)
        else:
            _clean(child, name, used)


def _declaration(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


_ROLE_OF = {colour: role for role, colour in ROLES.items()}
