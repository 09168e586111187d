"""A matplotlib figure that follows the page's theme, light or dark, and carries its own alt text.

A figure is drawn in the light colours of :data:`COLOURS`. In the HTML it becomes inline SVG, in
which every one of these colours is a CSS variable; the page's theme then decides what is seen.
Where a front end takes style sheets and SVG out, as notebooks do with outputs they do not trust, a
PNG of the same figure on white remains. Glyphs are drawn as paths, so that no loose text remains.

Colours: Okabe and Ito's for what is done, viridis for the barriers passed; neither needs red to be
told from green. Limit: front ends that know neither ``prefers-color-scheme`` nor one of the four
theme marks below show the light colours.
"""

from __future__ import annotations

import base64
import html
import io
import re
import textwrap
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

WIDTH_IN = 4.9  # 353 units: on a phone about as many px, so that text keeps its size there
FONT_UNITS = 11.0  # on a phone 11 px, which is 8.25 pt
MOST_VECTOR_MARKS = 3_000  # a panel with more becomes an image inside the SVG: the page stays small
LEVELS = 8  # shades for the number of barriers passed
_PNG_DPI = 110


def _shade(low: float, high: float, level: int) -> str:
    place = low + (high - low) * level / (LEVELS - 1)
    return mpl.colors.to_hex(mpl.colormaps["viridis"](place))


# What each colour is for: (on a light ground, on a dark one).
COLOURS: dict[str, tuple[str, str]] = {
    "ink": ("#1f2328", "#e6e8eb"),
    "quiet": ("#57606a", "#a7b1bd"),
    "rule": ("#c3c9d0", "#4b535d"),
    "paper": ("#fefefe", "#16181c"),
    "load": ("#0072b2", "#56b4e9"),
    "store": ("#c25400", "#f0a94a"),
    "atomic": ("#a8487f", "#e39bc4"),
    "barrier": ("#5f4b8b", "#b9a5e6"),
    "defect": ("#b3261e", "#ff8a80"),
} | {f"phase{n}": (_shade(0.05, 0.58, n), _shade(0.42, 1.0, n)) for n in range(LEVELS)}

_SETTINGS: Any = {
    "svg.fonttype": "path",
    "svg.hashsalt": "kernelbook",
    "text.parse_math": False,  # a $ in a source line is a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": FONT_UNITS,
    "axes.titlesize": FONT_UNITS,
    "axes.labelsize": FONT_UNITS,
    "xtick.labelsize": FONT_UNITS,
    "ytick.labelsize": FONT_UNITS,
    "legend.fontsize": FONT_UNITS,
    "figure.titlesize": FONT_UNITS + 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": COLOURS["ink"][0],
    "axes.titlecolor": COLOURS["ink"][0],
    "axes.labelcolor": COLOURS["quiet"][0],
    "axes.edgecolor": COLOURS["rule"][0],
    "axes.facecolor": "none",
    "xtick.color": COLOURS["rule"][0],
    "ytick.color": COLOURS["rule"][0],
    "xtick.labelcolor": COLOURS["quiet"][0],
    "ytick.labelcolor": COLOURS["quiet"][0],
    "legend.labelcolor": COLOURS["ink"][0],
    "legend.frameon": False,
    "savefig.facecolor": "white",
}


def settings() -> AbstractContextManager[None]:
    """The context that a figure is made in: colours, sizes and fonts of this module."""
    return mpl.rc_context(_SETTINGS)


def colour(name: str) -> str:
    """The colour to draw with; the page may replace it by its dark twin."""
    return COLOURS[name][0]


def phase_colour(phase: int, last: int) -> str:
    """The shade for ``phase`` barriers passed when the most anybody has passed is ``last``."""
    return colour(f"phase{round((LEVELS - 1) * phase / max(last, 1))}")


class Picture(Figure):
    """A figure that a notebook shows as themed SVG. ``alt``: what it shows, in words."""

    alt: str = ""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": page(self.to_html()), "text/plain": self.alt}

    def to_html(self) -> str:
        """``<div>`` with SVG and PNG; the page must hold :func:`style` once."""
        png = base64.b64encode(self.to_png()).decode("ascii")
        alt = html.escape(self.alt, quote=True)
        return (
            f'<div class="kb-picture"><div class="kb-svg">{self.to_svg()}</div>'
            f'<img class="kb-plain" alt="{alt}" src="data:image/png;base64,{png}"></div>'
        )

    def to_svg(self) -> str:
        """The figure as ``<svg>`` whose colours are CSS variables."""
        file = io.StringIO()
        with settings():
            self.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        text = file.getvalue()
        text = re.sub(
            r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text[text.index("<svg") :], flags=re.S
        )
        named = {light: name for name, (light, _) in COLOURS.items()}
        text = re.sub(
            r"#[0-9a-f]{6}\b",
            lambda m: f"var(--kb-{named[m[0]]},{m[0]})" if m[0] in named else m[0],
            text,
        )
        label = html.escape(self.alt, quote=True)
        text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
        return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)

    def to_png(self) -> bytes:
        """The figure in its light colours on white."""
        file = io.BytesIO()
        with settings():
            self.savefig(file, format="png", dpi=_PNG_DPI)
        return file.getvalue()


def message(text: str) -> Picture:
    """A picture that says in words why there is nothing to draw."""
    with settings():
        drawing = Picture(figsize=(WIDTH_IN, 0.9), layout="constrained")
        drawing.text(0.02, 0.5, textwrap.fill(text, 60), va="center")
    drawing.alt = text
    return drawing


def page(body: str) -> str:
    """``body`` with the style sheet that it needs: one notebook output."""
    return f"<style>{style()}</style>{body}"


def style() -> str:
    """The style sheet of everything in here: colours for both themes, sizes of pictures."""
    light = ";".join(f"--kb-{name}:{pair[0]}" for name, pair in COLOURS.items())
    dark = ";".join(f"--kb-{name}:{pair[1]}" for name, pair in COLOURS.items())
    ours = ":is(.kb-picture,.kb-player,.kb-profile)"
    # The book, JupyterLab and VS Code say which theme is on; where none of them does, the system.
    marks_light = ':is([data-theme="light"],[data-jp-theme-light="true"],.vscode-light)'
    marks_dark = ':is([data-theme="dark"],[data-jp-theme-light="false"],.vscode-dark)'
    return (
        f"{ours}{{color-scheme:light;{light}}}"
        f"@media (prefers-color-scheme:dark){{{ours}{{color-scheme:dark;{dark}}}}}"
        f"{marks_light} {ours}{{color-scheme:light;{light}}}"
        f"{marks_dark} {ours}{{color-scheme:dark;{dark}}}"
        ".kb-picture{max-width:34rem;margin:.5rem 0}"
        ".kb-picture .kb-svg>svg{display:block;width:100%;height:auto}"
        ".kb-picture .kb-plain{display:none!important}"
        # The book's theme lays a light ground under HTML that knows no dark one; this does.
        f".text_html:has({ours}){{background:none!important;color:inherit!important;"
        "padding:0!important}"
        ".kb-profile{overflow-x:auto}.kb-profile :is(td,th){padding:.15rem .6rem}"
        ".kb-profile pre{white-space:pre-wrap}"
    )
