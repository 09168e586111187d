"""Reads a page as a browser would and says what in it could run, load or leak."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

ALLOWED = (
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"),
    *("details", "summary", "h1", "h2", "h3", "p", "ul", "li", "div", "span", "strong", "code"),
    *("time", "dl", "dt", "dd", "br", "a", "table", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("figure", "figcaption", "svg", "g", "path", "rect", "circle", "text", "defs", "clippath"),
)
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</style><script>alert(1)</script>",
    "</svg></title></figure><iframe src=//x>",
    '" style="color:red" onclick="alert(1)',
    "--><b>]]>{{ 7 * 7 }}{% raw %}",
    r"$\frac{1}{$ \x00 &lt;i&gt;",
    "javascript:alert(1)",
    "a\x00b\x1b[31m\u202e\ud800\n<b>",
)


class Audit(HTMLParser):
    """The page's tags, attributes and text; ``faults`` lists what a safe page never has."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.style = ""
        self._in_style = False
        self.feed(page.decode("utf-8"))
        self.close()
        self._check_policy(page.decode("utf-8"))

    @property
    def text(self) -> str:
        """All text of the page with runs of white space made one blank."""
        return " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self._in_style = tag == "style"
        if tag not in ALLOWED:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "src", "srcset", "action", "ping"):
                self.faults.append(f"{name}={value}")
            if name in ("href", "xlink:href") and not re.fullmatch(
                r"#[\w-]+|(?:[\w.-]+/)*[\w.-]+\.html", value
            ):
                self.faults.append(f"{name}={value}")
            if "url(" in (value or "") and not re.fullmatch(r"url\(#[\w-]+\)", value):
                self.faults.append(f"{name}={value}")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self._in_style = False

    def handle_endtag(self, tag):
        self._in_style = False

    def handle_data(self, data):
        if self._in_style:
            self.style += data
        else:
            self.texts.append(data)

    def _check_policy(self, page: str) -> None:
        first = [attributes for tag, attributes in self.tags if tag == "meta"][:2]
        policies = [a["content"] for a in first if a.get("http-equiv") == "Content-Security-Policy"]
        if len(policies) != 1 or page.index("Content-Security-Policy") > page.index("<style"):
            self.faults.append("no policy before the style sheet")
            return
        digest = base64.b64encode(hashlib.sha256(self.style.encode()).digest()).decode()
        wanted = {
            "default-src 'none'",
            f"style-src 'sha256-{digest}'",
            "base-uri 'none'",
            "form-action 'none'",
        }
        if set(policies[0].split("; ")) != wanted:
            self.faults.append(f"policy {policies[0]}")
        if "@import" in self.style or "url(" in self.style or "</" in self.style:
            self.faults.append("the style sheet loads something")
