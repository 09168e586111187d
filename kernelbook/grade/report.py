"""The class report: ``report.html``, the table for the terminal, and all outputs in one call.

The page puts first what an instructor has to act on, then the marks, then what the class finds
hard. Figures count one submission a learner and lab: the one that counts, if it was graded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.table import Table
from rich.text import Text

from kernelbook.grade import charts, feedback, gradebook, page
from kernelbook.grade.feedback import MEANINGS
from kernelbook.grade.gradebook import GRADE_AGAIN, GRADED, NOT_GRADED, Entry
from kernelbook.grade.record import Category, Damaged, Record, instant, scan, visible
from kernelbook.grade.standing import standings

REPORT = "report.html"
BAR_CHARS = 12
MOST_OPEN = 20  # entries of a list that stands unfolded on the page
STATUS_STYLES = {GRADED: "green", NOT_GRADED: "red", GRADE_AGAIN: "yellow"}


@dataclass(frozen=True)
class Written:
    """The files that a report consists of, and what could not be read while making it."""

    sqlite: Path
    csv: Path
    tests_csv: Path
    report: Path
    feedback: tuple[Path, ...]
    damaged: tuple[Damaged, ...]


def render_all(out_dir: Path) -> Written:
    """Build gradebook, feedback and report from the records in ``out_dir``.

    Raises: OSError when a file cannot be written. A damaged record is listed, never fatal.
    """
    found = scan(out_dir)
    book = gradebook.entries(found.records)
    sqlite, csv, tests_csv = gradebook.build(found.records, out_dir)
    pages = feedback.write_all(book, out_dir)
    report = gradebook.replace_file(Path(out_dir) / REPORT, _page(book, found.damaged, out_dir))
    return Written(sqlite, csv, tests_csv, report, tuple(pages), found.damaged)


def render(out_dir: Path) -> Path:
    """Write ``report.html`` alone and return its path."""
    found = scan(out_dir)
    content = _page(gradebook.entries(found.records), found.damaged, out_dir)
    return gradebook.replace_file(Path(out_dir) / REPORT, content)


def summary(records: Iterable[Record]) -> Table:
    """Return a table of the marks that count, one row a learner and lab, for the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("learner", overflow="fold", max_width=28)
    table.add_column("lab", overflow="fold", max_width=28)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR_CHARS)
    table.add_column("status", overflow="fold")
    for entry in gradebook.entries(records):
        if entry.counts:
            record = entry.record
            table.add_row(
                Text(visible(record.learner)),
                Text(visible(record.lab)),
                f"{record.points}/{record.max_points}",
                _bar(record),
                Text(_status_line(entry), style=STATUS_STYLES[entry.status]),
            )
    return table


def _bar(record: Record) -> Text:
    filled = BAR_CHARS * record.points // record.max_points if record.max_points else 0
    return Text("━" * filled, style="cyan") + Text("╌" * (BAR_CHARS - filled), style="dim")


def _status_line(entry: Entry) -> str:
    if entry.status == NOT_GRADED:
        return f"{NOT_GRADED}: {visible(entry.record.reason, newline=' ')}"
    ended = Counter(result.category for result in entry.record.results)
    lost = [f"{ended[c]} {c.value}" for c in Category if c is not Category.PASS and ended[c]]
    return ", ".join([entry.status, *lost]) if entry.status == GRADE_AGAIN or lost else "all passed"


def _page(book: Sequence[Entry], damaged: Sequence[Damaged], out_dir: Path) -> bytes:
    counting = [entry for entry in book if entry.counts]
    marked = [entry for entry in counting if entry.status != NOT_GRADED and entry.record.max_points]
    tests = standings(book)
    labs = sorted({entry.record.lab for entry in book})
    percents = {
        lab: [_percent(entry.record) for entry in marked if entry.record.lab == lab] for lab in labs
    }
    return page.render(
        "report.html",
        labs=labs,
        medians={lab: round(median(values)) for lab, values in percents.items() if values},
        learners=_rows(counting),
        book=book,
        counting=counting,
        ungraded=[entry for entry in book if entry.status == NOT_GRADED],
        again=[entry for entry in book if entry.status == GRADE_AGAIN],
        bare=sum(not e.record.isolation and e.status != NOT_GRADED for e in book),
        mixed=_mixed(counting),
        damaged=[(str(_under(item.path, out_dir)), item.problem) for item in damaged],
        most_open=MOST_OPEN,
        last_graded=max((entry.record.graded_at for entry in book), key=instant, default=""),
        moment=feedback.moment,
        tests=tests,
        meanings=MEANINGS,
        used=[c for c in Category if any(test.ended[c] for test in tests)],
        charts=charts.draw(percents, tests),
        legend=charts.STACK,
        devices=Counter(entry.record.device for entry in book),
        layers=Counter(", ".join(e.record.isolation) or "no sandbox" for e in book),
        graders=Counter(entry.record.grader_version for entry in book),
    )


def _percent(record: Record) -> float:
    return 100 * record.points / record.max_points


def _rows(counting: Sequence[Entry]) -> dict[str, dict[str, Entry]]:
    rows: dict[str, dict[str, Entry]] = {}
    for entry in counting:
        rows.setdefault(entry.record.learner, {})[entry.record.lab] = entry
    return rows


def _mixed(counting: Sequence[Entry]) -> list[str]:
    """Return a sentence for each lab whose marks were not all made in the same way."""
    sentences = []
    for lab in sorted({entry.record.lab for entry in counting}):
        records = [e.record for e in counting if e.record.lab == lab and not e.record.reason]
        for what, found in (
            ("devices", {record.device for record in records}),
            ("lab versions", {record.lab_version for record in records}),
            ("grader versions", {record.grader_version for record in records}),
            ("numbers of points to get", {str(record.max_points) for record in records}),
        ):
            if len(found) > 1:
                sentences.append(f"{lab}: the marks mix {what} ({', '.join(sorted(found))})")
    return sentences


def _under(path: Path, out_dir: Path) -> Path:
    return path.relative_to(out_dir) if path.is_relative_to(out_dir) else path
