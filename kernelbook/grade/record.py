"""The record of one grading: append-only JSON, the one thing the gradebook is built from.

A record lives at ``OUT/records/<learner>/<lab>-<key>.json``, both names made safe by
:func:`slug`. It appears whole or not at all, and no later write changes it: a second grading
that found something else is put beside it as ``<lab>-<key>.2.json``.

Limit: a record is trusted as found. It is protected against crashes and accidents, not against
somebody who can write to ``OUT``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from kernelbook.errors import KernelbookError

FORMAT = "kernelbook-record/1"
RECORDS = "records"
DEVICES = ("sim", "gpu")
READABLE_SLUG_CHARS = 32  # of a name that is not plain; its hash follows
PLAIN_SLUG_CHARS = 64
HASH_CHARS = 24  # 96 bits: two ids meet by accident once in 2**48
KEY_CHARS = 32
MOST_POINTS = 1_000_000  # of one test; keeps every sum an exact SQLite integer
MOST_SECONDS = 1e9

_PLAIN_SEGMENT = re.compile(r"[a-z0-9](?:[._-]?[a-z0-9])*")
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff\ud800-\udfff]"
)
_KEY = re.compile(r"[0-9a-f]{8,64}")
# What a file system may refuse to link to: then the plain rename has to do.
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class DamagedRecord(KernelbookError):
    """A file under ``records/`` is not a record; the message says which file and what is wrong."""


class Category(StrEnum):
    """How one hidden test ended. Only :attr:`PASS` carries marks."""

    PASS = "pass"
    WRONG = "wrong"
    ERROR = "error"
    NOT_ATTEMPTED = "not attempted"
    TIMEOUT = "timeout"
    DIED = "died"
    OUT_OF_MEMORY = "out of memory"
    OUTPUT_LIMIT = "output limit"
    MISSING = "missing"
    NOT_A_KERNEL = "not a kernel"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class TestResult:
    """One hidden test of one submission. ``message`` is authored text, safe to show."""

    __test__: ClassVar[bool] = False  # pytest: a result, not a test class

    exercise: str
    test: str
    category: Category
    points: int
    max_points: int
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Record:
    """One grading of one submission. Times are ISO 8601; one without an offset is read as UTC.

    ``isolation`` names the layers that were on, ``()`` with ``--no-sandbox``. ``matched`` maps an
    exercise to the rule that found the learner's cell (id, tag, marker, name or none).
    ``reason`` is empty unless the submission could not be graded at all.
    """

    key: str
    learner: str
    lab: str
    lab_version: str
    path: str
    submission_sha256: str
    submitted_at: str
    graded_at: str
    grader_version: str
    seed_id: str
    device: str
    isolation: tuple[str, ...]
    matched: dict[str, str]
    notes: tuple[str, ...]
    reason: str
    results: tuple[TestResult, ...]

    @property
    def points(self) -> int:
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> int:
        return sum(result.max_points for result in self.results)


@dataclass(frozen=True)
class Damaged:
    """A file that stands among the records and is none, with what is wrong with it."""

    path: Path
    problem: str


@dataclass(frozen=True)
class Scan:
    """What ``OUT/records`` holds: every record, in the order of the file names, and the rest."""

    records: tuple[Record, ...]
    damaged: tuple[Damaged, ...]


def key_of(
    submission_sha256: str,
    lab: str,
    lab_version: str,
    grader_version: str,
    seed_id: str,
    device: str,
) -> str:
    """Return the idempotent key of a grading, 32 hex digits: same inputs, same key."""
    parts = [submission_sha256, lab, lab_version, grader_version, seed_id, device]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:KEY_CHARS]


def slug(text: str) -> str:
    """Return ``text`` as one safe, readable path segment; different texts give different segments.

    A plain text (lower case, digits, single ``.``, ``_`` or ``-``) stays itself, with ``/``
    written ``--``. Any other keeps what is readable of it, then ``__`` and a hash, which no plain
    text contains. Only lower-case ASCII comes out: file systems that fold case cannot merge two.
    """
    segments = text.split("/")
    plain = "--".join(segments)
    if len(plain) <= PLAIN_SLUG_CHARS and all(_PLAIN_SEGMENT.fullmatch(s) for s in segments):
        return plain
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:READABLE_SLUG_CHARS].strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARS]
    return f"{readable or 'id'}__{digest}"


def visible(text: str, newline: str = "\\n") -> str:
    r"""Return ``text`` with what cannot be seen, printed or encoded written out as ``\xNN``.

    That is: control characters, lone surrogates (of file names that are not UTF-8), and the
    marks that reorder or hide other text. Line ends become ``newline``.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    return newline.join(_INVISIBLE.sub(_escape, line) for line in lines)


def instant(iso_time: str) -> datetime:
    """Return an ISO time with its offset, so that times of two zones compare. Raises ValueError."""
    moment = datetime.fromisoformat(iso_time)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def record_path(out_dir: Path, learner: str, lab: str, key: str, attempt: int = 1) -> Path:
    """Return where a record belongs. ``attempt`` counts gradings with the same key, from 1."""
    suffix = "" if attempt == 1 else f".{attempt}"
    return Path(out_dir) / RECORDS / slug(learner) / f"{slug(lab)}-{key}{suffix}.json"


def find(out_dir: Path, learner: str, lab: str, key: str) -> Record | None:
    """Return the last readable record of this learner, lab and key; None when there is none."""
    last = None
    for path in _attempts(out_dir, learner, lab, key):
        if not path.exists():
            return last
        with suppress(DamagedRecord):
            last = read(path)
    return None  # pragma: no cover - _attempts does not end


def write(record: Record, out_dir: Path) -> Path:
    """Put the record into ``out_dir`` and return its path. Nothing written before is changed.

    When a record of the same key already says the same (all but ``graded_at`` and ``seconds``),
    the old one stays and its path is returned.

    Raises: DamagedRecord when the record breaks the format, so that nothing unreadable is written.
    """
    text = json.dumps({"format": FORMAT, **asdict(record)}, indent=1, allow_nan=False) + "\n"
    _parse(text, "record to be written")
    first = record_path(out_dir, record.learner, record.lab, record.key)
    first.parent.mkdir(parents=True, exist_ok=True)
    temp = first.parent / f".writing-{secrets.token_hex(8)}"
    try:
        with temp.open("x", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        for path in _attempts(out_dir, record.learner, record.lab, record.key):
            if _claim(temp, path) or _says_the_same(path, record):
                return path
    finally:
        temp.unlink(missing_ok=True)
    raise AssertionError  # pragma: no cover - _attempts does not end


def read(path: Path) -> Record:
    """Return the record in a file. Raises: DamagedRecord, which names file and fault."""
    try:
        if not path.is_file():
            raise DamagedRecord(f"{path}: not a regular file. Move it out of {RECORDS}/.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedRecord(f"{path}: cannot be read as UTF-8 text ({error}).") from error
    return _parse(text, str(path))


def scan(out_dir: Path) -> Scan:
    """Read everything under ``out_dir/records``; what is no record is listed, never fatal.

    A record outside the place that its own learner, lab and key give it counts as damaged: it
    has been renamed, or copied from another learner. Dot files (writes cut short) are skipped.
    """
    records: list[Record] = []
    damaged: list[Damaged] = []
    for path in _files(Path(out_dir) / RECORDS):
        try:
            record = read(path)
            wanted = record_path(out_dir, record.learner, record.lab, record.key)
            numbered = re.fullmatch(re.escape(wanted.stem) + r"(\.[1-9][0-9]*)?\.json", path.name)
            if path.parent != wanted.parent or not numbered:
                raise DamagedRecord(
                    f"{path}: holds the record of {record.learner!r} for {record.lab!r}, which "
                    f"belongs in {wanted}. Move it there, or delete the copy."
                )
        except DamagedRecord as error:
            damaged.append(Damaged(path, str(error).removeprefix(f"{path}: ")))
        else:
            records.append(record)
    return Scan(tuple(records), tuple(damaged))


def read_all(out_dir: Path) -> list[Record]:
    """Return every record under ``out_dir``; warn once for each file that is damaged."""
    found = scan(out_dir)
    for damaged in found.damaged:
        warnings.warn(f"{damaged.path}: {damaged.problem}", stacklevel=2)
    return list(found.records)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _attempts(out_dir: Path, learner: str, lab: str, key: str) -> Iterator[Path]:
    attempt = 0
    while True:
        attempt += 1
        yield record_path(out_dir, learner, lab, key, attempt)


def _claim(temp: Path, path: Path) -> bool:
    """Give the finished file its name, or return False when the name is taken.

    A hard link is a rename that refuses to replace, so of two writers at once both survive.
    """
    try:
        os.link(temp, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if path.exists():
            return False
        temp.replace(path)
    return True


def _says_the_same(path: Path, record: Record) -> bool:
    try:
        return _without_clocks(read(path)) == _without_clocks(record)
    except DamagedRecord:
        return False


def _without_clocks(record: Record) -> Record:
    results = tuple(replace(result, seconds=0.0) for result in record.results)
    return replace(record, graded_at="", results=results)


def _files(root: Path) -> Iterator[Path]:
    """Yield all that is not a folder, sorted, links not followed, dot files left out."""
    if not root.is_dir():
        return
    for entry in sorted(root.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry)
        else:
            yield entry


def _parse(text: str, where: str) -> Record:
    try:
        data = json.loads(text, parse_constant=_no_constant)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"not a {FORMAT} file")
        return _record({name: value for name, value in data.items() if name != "format"})
    except (json.JSONDecodeError, RecursionError) as error:
        raise DamagedRecord(f"{where}: not JSON, or cut short ({error}).") from error
    except ValueError as error:
        raise DamagedRecord(f"{where}: {error}.") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"holds the number {name}, which JSON does not have")


def _record(data: dict[str, Any]) -> Record:
    _require_names(Record, data, "the record")
    strings = [field.name for field in fields(Record) if field.type == "str"]
    for name in strings:
        _require(isinstance(data[name], str), name, data[name], "text")
    for name in ("isolation", "notes"):
        value = data[name]
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        _require(good, name, value, "a list of texts")
    matched = data["matched"]
    good = isinstance(matched, dict) and all(isinstance(rule, str) for rule in matched.values())
    _require(good, "matched", matched, "an object of texts")
    _require(isinstance(data["results"], list), "results", data["results"], "a list")
    _require(_KEY.fullmatch(data["key"]) is not None, "key", data["key"], "8 to 64 hex digits")
    _require(data["device"] in DEVICES, "device", data["device"], "sim or gpu")
    for name in ("submitted_at", "graded_at"):
        _require(_is_instant(data[name]), name, data[name], "an ISO 8601 time")
    return Record(
        **{name: data[name] for name in strings},
        isolation=tuple(data["isolation"]),
        matched=matched,
        notes=tuple(data["notes"]),
        results=tuple(_result(item, f"results[{i}]") for i, item in enumerate(data["results"])),
    )


def _result(data: Any, where: str) -> TestResult:
    _require(isinstance(data, dict), where, data, "an object")
    _require_names(TestResult, data, where)
    for name in ("exercise", "test", "message", "category"):
        _require(isinstance(data[name], str), f"{where}.{name}", data[name], "text")
    known = data["category"] in set(Category)
    _require(known, f"{where}.category", data["category"], "one of " + ", ".join(Category))
    for name, most in (("max_points", MOST_POINTS), ("points", data["max_points"])):
        fits = type(data[name]) is int and 0 <= data[name] <= most
        _require(fits, f"{where}.{name}", data[name], f"a whole number from 0 to {most}")
    seconds = data["seconds"]
    good = type(seconds) in (int, float) and 0 <= seconds <= MOST_SECONDS
    _require(good, f"{where}.seconds", seconds, "a number of seconds")
    return TestResult(**{**data, "category": Category(data["category"]), "seconds": float(seconds)})


def _require_names(kind: type[Record] | type[TestResult], data: dict[str, Any], where: str) -> None:
    wanted = {field.name for field in fields(kind)}
    if data.keys() != wanted:
        missing, unknown = sorted(wanted - data.keys()), sorted(data.keys() - wanted)
        raise ValueError(f"{where} lacks {missing} and has {unknown}, which {FORMAT} has not")


def _require(good: bool, where: str, found: object, wanted: str) -> None:
    if not good:
        raise ValueError(f"{where}: found {str(found)[:80]!r}, wanted {wanted}")


def _is_instant(text: str) -> bool:
    try:
        instant(text)
    except ValueError:
        return False
    return True
