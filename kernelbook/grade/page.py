"""Self-contained HTML pages: Jinja with escaping on, one style sheet inside, a strict CSP.

The policy allows nothing but the page's own style sheet, named by its SHA-256: no script, no
style attribute, no image, no font and no request of any kind works, whatever text a learner
manages to get into a page.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelbook.grade.record import visible

TEMPLATES = Path(__file__).parent / "templates"
STYLE = "page.css"


def render(template: str, **values: Any) -> bytes:
    """Return the page as UTF-8. Text is escaped; only ``Markup`` passes as it is."""
    style = _style()
    return (
        _environment()
        .get_template(template)
        .render(style=Markup(style), policy=_policy(style), **values)
        .encode()
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )


@cache
def _style() -> str:
    return (TEMPLATES / STYLE).read_text(encoding="utf-8")


def _policy(style: str) -> str:
    """Return the CSP; the hash covers exactly what stands between ``<style>`` and ``</style>``."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _show(value: Any) -> Any:
    return visible(value, newline="\n") if type(value) is str else value
