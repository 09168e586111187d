"""The book: what every page must have, and that nothing on it is loose.

Most tests read the sources. The last ones build the whole book once, warnings as errors, with every
page run in the simulator.
"""

from __future__ import annotations

import html
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
FRONT = sorted(path for path in (ROOT / "book").rglob("*.md") if path.parent.name != "_static")
CHAPTERS = sorted((ROOT / "chapters").glob("*/*.md"))

HAN = r"[\u4e00-\u9fff]"
FENCED = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ ]*$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
CODE_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
MEASURED = re.compile(r"\d[\d,.]*\s?(?:µs|us|ms|ns|GB/s|TB/s|TFLOP\S*)(?![\w/])")


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def text_of(path: Path) -> str:
    return FRONT_MATTER.sub("", path.read_text(encoding="utf-8"))


def prose_of(path: Path) -> str:
    """The page without front matter, fenced blocks (code cells, directives) and code in a line."""
    return CODE.sub("", FENCED.sub("", text_of(path)))


def cells_of(path: Path) -> list[str]:
    """Each code cell with its options, which stand above the code as ``:key:`` lines or YAML."""
    return CODE_CELL.findall(text_of(path))


def code_of(cell: str) -> str:
    return re.sub(r"\A(?:---\n.*?\n---\n|(?::\w+:[^\n]*\n)+)", "", cell, flags=re.S)


def toc_files(node: Any = TOC) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from toc_files(item)
    elif isinstance(node, dict):
        yield from (node[key] for key in ("root", "file") if key in node)
        for value in node.values():
            yield from toc_files(value)


pages = pytest.mark.parametrize("page", FRONT + CHAPTERS, ids=page_id)
chapters = pytest.mark.parametrize("page", CHAPTERS, ids=page_id)


@pytest.mark.parametrize("name", list(toc_files()))
def test_toc_entry_has_a_source(name: str) -> None:
    assert any((ROOT / f"{name}{suffix}").is_file() for suffix in (".md", ".ipynb")), name


def test_toc_lists_every_page_and_every_lab_once() -> None:
    labs = (ROOT / "labs").glob("*/*.ipynb")
    assert sorted(toc_files()) == sorted(map(page_id, [*FRONT, *CHAPTERS, *labs]))


@pages
def test_page_title_is_english_then_chinese(page: Path) -> None:
    titles = re.findall(r"^# (.+)$", prose_of(page), re.M)
    assert len(titles) == 1, titles
    english, separator, chinese = titles[0].partition(" · ")
    assert separator, titles[0]
    assert not re.search(HAN, english), english
    assert re.search(HAN, chinese), chinese


@pages
def test_page_opens_with_three_lines_of_abstract(page: Path) -> None:
    box = re.search(
        r"^# .+\n\n:::\{admonition\} 摘要\n:class: abstract\n(.*?)^:::$", text_of(page), re.M | re.S
    )
    assert box, "the title must be followed by a box {admonition} 摘要 of class abstract"
    lines = box[1].strip().splitlines()
    assert len(lines) == 3, lines
    assert all(len(re.findall(HAN, line)) >= 10 for line in lines), lines


@pages
def test_page_links_lead_to_files(page: Path) -> None:
    for target in LINK.findall(prose_of(page)):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            assert (page.parent / target.partition("#")[0]).is_file(), target


def bib_keys() -> list[str]:
    return re.findall(r"^@\w+\{([^,\s]+),", (ROOT / "book/references.bib").read_text(), re.M)


def test_bibliography_keys_are_unique() -> None:
    assert len(bib_keys()) == len(set(bib_keys())) > 0


@pages
def test_page_citations_are_in_the_bibliography(page: Path) -> None:
    cited = {
        key.strip()
        for group in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text_of(page))
        for key in group.split(",")
    }
    assert cited <= set(bib_keys()), cited - set(bib_keys())


def test_glossary_has_chinese_for_every_term() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "book/glossary.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| English")
    ]
    assert len(rows) >= 60
    assert all(len(row) == 3 and all(row) for row in rows)
    kept_in_english = [english for english, chinese, _ in rows if not re.search(HAN, chinese)]
    assert kept_in_english == []
    english = [row[0] for row in rows]
    assert len(english) == len(set(english))


@chapters
def test_chapter_has_the_parts_that_every_chapter_has(page: Path) -> None:
    text = text_of(page)
    for heading in ("Measured", "Pitfalls", "Check yourself", "Labs", "Further reading"):
        assert re.search(rf"^## {heading}$", text, re.M), heading
    for box in ("Predict first", "Where this stops being true"):
        assert f"{{admonition}} {box}" in text, box
    questions = re.search(r"^## Check yourself$(.*?)^## ", text, re.M | re.S)
    assert questions
    assert 3 <= questions[1].count(":::{dropdown}") <= 6


@chapters
def test_chapter_length_is_one_sitting(page: Path) -> None:
    prose = re.sub(r"^:::.*$|^:\w+:.*$", "", prose_of(page), flags=re.M)
    assert 1_500 <= len(re.findall(r"[A-Za-z][\w'’-]*", prose)) <= 3_500


@chapters
def test_chapter_code_fits_the_page(page: Path) -> None:
    shown = [c for c in cells_of(page) if "remove-cell" not in c and "hide-input" not in c]
    lines = [line for cell in shown for line in code_of(cell).splitlines()]
    assert [line for line in lines if len(line) > 80] == []


@chapters
def test_chapter_figures_have_alternative_text(page: Path) -> None:
    drawn = [c for c in cells_of(page) if "plt.show()" in c]  # the simulator's bring their own
    assert drawn
    for cell in drawn:
        assert re.search(r"^ +alt: (\|\n +)?\S.{30,}", cell, re.M), cell[:200]


@chapters
def test_chapter_prose_holds_no_measured_time_or_bandwidth(page: Path) -> None:
    """What was measured on our GPU comes from a record by name; a sentence typed in would age."""
    for paragraph in prose_of(page).split("\n\n"):
        if "H200" in paragraph or "{glue:text}" in paragraph:  # the role survives, its text not
            assert not MEASURED.search(paragraph), paragraph


@chapters
def test_chapter_quotes_only_names_that_its_cells_make(page: Path) -> None:
    made = set(re.findall(r"^quote\(\"(\w+)\"", "\n".join(cells_of(page)), re.M))
    quoted = set(re.findall(r"\{glue:text\}`(\w+)", text_of(page)))
    assert quoted == made


class Record:
    """Runs the record cell of the reduction chapter against a folder of benchmarks."""

    cell = next(
        (c for c in cells_of(ROOT / "chapters/03-cuda/02-first-cuda.md") if "RECORD" in c), ""
    )

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "chapters/03-cuda").mkdir(parents=True)
        (folder / "benchmarks").mkdir()
        self.file = folder / "benchmarks/reduce-h200.json"
        monkeypatch.chdir(folder / "chapters/03-cuda")

    def quotes(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        import myst_nb

        glued: dict[str, str] = {}
        monkeypatch.setattr(
            myst_nb, "glue", lambda name, value, display: glued.update({name: value})
        )
        exec(compile(code_of(self.cell), "record cell", "exec"), {})
        return glued


def test_record_cell_without_a_record_fails_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(tmp_path, monkeypatch)
    with pytest.raises(AssertionError, match=r"benchmarks/reduce-h200\.json of the course"):
        record.quotes(monkeypatch)


def test_record_cell_takes_its_numbers_from_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(kernel: str, p50_us: float, n: int = 1_000_000) -> dict[str, Any]:
        return {
            "kernel": kernel,
            "shape": [n],
            "p50_us": p50_us,
            "bytes": 4 * n,
            "fraction_of_copy": 10 / p50_us,
        }

    record = Record(tmp_path, monkeypatch)
    record.file.write_text(
        json.dumps(
            {
                "gpu": "test GPU",
                "copy_gbps": 400.0,
                "rows": [
                    row("v2 sequential", 20.0),
                    row("v0 interleaved, divergent", 100.0),
                    row("v1 interleaved, strided", 80.0),
                    row("v0 interleaved, divergent", 9.0, n=1_000),
                    row("torch.sum", 25.0),
                    row("copy", 10.0),
                ],
            }
        )
    )
    quotes = record.quotes(monkeypatch)
    assert quotes["spread"] == "5.0"
    assert (quotes["step_from"], quotes["step_to"], quotes["step_factor"]) == ("v1", "v2", "4.00")
    assert (quotes["worst_us"], quotes["best_share"]) == ("100 µs", "50 %")
    assert (quotes["elements"], quotes["versions"]) == ("1,000,000", "3")
    assert (quotes["small_elements"], quotes["small_name"]) == ("1,000", "v0")


def test_config_loads_nothing_from_the_network() -> None:
    sphinx = CONFIG["sphinx"]["config"]
    static = ROOT / sphinx["html_static_path"][0]
    assert (static / sphinx["mathjax_path"]).is_file()
    assert sphinx["nb_ipywidgets_js"] == {}
    assert all((static / name).is_file() for name in sphinx["html_css_files"])
    for style in static.glob("*.css"):
        assert "http" not in style.read_text(), style


def test_config_never_executes_labs() -> None:
    patterns = CONFIG["execute"]["exclude_patterns"]
    assert any(PurePosixPath("labs/cuda/reduce.ipynb").match(pattern) for pattern in patterns)


def test_bilingual_title_marks_the_chinese_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from docutils import nodes
    from docutils.utils import new_document

    monkeypatch.syspath_prepend(ROOT / "book/_ext")
    bilingual = importlib.import_module("bilingual")
    document = new_document("page")
    section = nodes.section()
    section += nodes.title("", "First CUDA · CUDA 入门编程")
    document += section
    bilingual.BilingualTitle(document).apply()
    title = section[0]
    assert title.astext() == "First CUDA · CUDA 入门编程"
    assert [part["classes"] for part in title.findall(nodes.inline)] == [["separator"], ["zh"]]


def test_fresh_outputs_follow_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "book/_ext")
    fresh_outputs = importlib.import_module("fresh_outputs")
    (tmp_path / "benchmarks").mkdir()
    html = tmp_path / "_build/html"
    html.mkdir(parents=True)
    app = SimpleNamespace(outdir=html, srcdir=tmp_path)
    env = SimpleNamespace(found_docs={"page"})

    def reread() -> list[str]:
        (tmp_path / "_build/.jupyter_cache").mkdir(exist_ok=True)
        return fresh_outputs.forget_stale_outputs(app, env, set(), set(), set())

    assert reread() == ["page"]
    assert reread() == []
    assert (tmp_path / "_build/.jupyter_cache").exists()
    (tmp_path / "benchmarks/reduce.json").write_text("{}")
    assert reread() == ["page"]
    assert not (tmp_path / "_build/.jupyter_cache").exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book, built as ``make book`` builds it, from a copy without old outputs."""
    copy = tmp_path_factory.mktemp("book")
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, copy)
    for name in ("book", "chapters", "labs", "solutions", "benchmarks"):
        shutil.copytree(ROOT / name, copy / name)
    (copy / ".pytest_cache").mkdir()  # what tools leave behind is no page of the book
    (copy / ".pytest_cache/README.md").write_text("# cache")
    tool = Path(sys.executable).with_name("jupyter-book")
    command = [tool, "build", ".", "-W", "--keep-going"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return copy / "_build/html"


def html_text(page: str) -> str:
    """What a reader sees: no mark-up, drawings or scripts."""
    shown = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page, flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", "", shown))


def test_built_pages_load_nothing_from_the_network(built: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(https?:)?//|<link[^>]*\shref=\"(https?:)?//"
    )
    pages = list(built.rglob("*.html"))
    assert len(pages) >= len(list(toc_files()))
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_built_chapter_shows_the_simulators_own_words(built: Path) -> None:
    page = (built / "chapters/03-cuda/02-first-cuda.html").read_text(encoding="utf-8")
    text = html_text(page)
    assert re.search(r"BoundsError: .*, thread 2\d\d, line 4: reads x\[1\d{3}\], size 1000", text)
    assert re.search(
        r"RaceError: .* thread 0, line 6: reads s_x\[63\], which thread 63 writes", text
    )
    assert "36 of 64 threads reached the barrier" in page
    assert re.search(r"sequential +( +\d){8} +\d+ +(\d+) +\2\n", text)  # no wavefront is wasted
    assert "Traceback" not in page
    assert "st.global" in page  # the real compiler was there
    notebook = json.loads((built / "_sources/chapters/03-cuda/02-first-cuda.ipynb").read_text())
    assert notebook["nbformat"] == 4


def test_built_simulator_page_judges_by_the_record_and_numba_by_the_value(built: Path) -> None:
    page = (built / "book/simulator.html").read_text(encoding="utf-8")
    text = html_text(page)
    assert "line 9: reads partial[0], which block 0, thread 0 writes on line 4" in text
    assert text.count("the sum is 10.0") == 2  # with the fences, and where nothing is judged
    said = dict(re.findall(r"(?:wrong|right): (\w+) +(\w+(?: \w+)? +.+)", text))
    assert {name: tuple(re.split("  +", both)) for name, both in said.items()} == {
        "plain_addition": ("RaceError", "right value"),
        "no_barrier": ("UninitialisedError", "right value"),
        "half_at_the_barrier": ("BarrierError", "right value"),
        "index_minus_one": ("BoundsError", "right value"),
        "two_arrays_on_a_line": ("right value", "wrong value"),
        "ballot": ("right value", "AttributeError"),
    }
    trial = json.loads((ROOT / "benchmarks/defects-h200.json").read_text())
    forgiven, tried = trial["defective_always_right"], trial["defective"]
    assert f"{forgiven} of {tried} gave the right value" in " ".join(text.split())
    assert "kb-player" in page
    assert "Traceback" not in page


def test_built_set_up_page_shows_what_the_doctor_said(built: Path) -> None:
    page = (built / "book/set-up.html").read_text(encoding="utf-8")
    output = page.partition('class="cell_output')[2].partition("</div>")[0]
    assert re.search("looked at +found", output)
    assert "simulator" in output
    assert sys.prefix not in page  # a page names no folder of the machine that built it


def test_built_labs_were_not_executed(built: Path) -> None:
    page = (built / "labs/cuda/reduce.html").read_text(encoding="utf-8")
    assert "cell_input" in page
    assert 'class="cell_output' not in page
