"""Finds the notebooks of a class and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_DEPTH = 8


def handed_in(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """``(notebook, learner)`` for every path: a file, or a folder with one folder per learner.

    In a folder, the learner is the first folder below it, or the file's name where there is none.
    Files given one by one (``class/*/reduce.ipynb``) are named by their folders where several of
    them have the same name, else by their own.
    """
    stems = Counter(path.stem for path in paths if not _is_folder(path))
    found: list[tuple[Path, str]] = []
    for path in paths:
        if _is_folder(path):
            found += [(p, _learner(p.relative_to(path))) for p in _notebooks(path)]
        else:
            alone = stems[path.stem] == 1
            found.append((path, path.stem if alone else path.resolve().parent.name))
    return list(dict.fromkeys(found))


def _is_folder(path: Path) -> bool:
    """A folder to look into. What the system will not tell is none, and stands for itself."""
    try:
        return path.suffix != ".ipynb" and path.is_dir()
    except OSError:
        return False


def _notebooks(folder: Path) -> Iterator[Path]:
    """Every notebook below; a learner's folder that holds none stands for itself."""
    for child in sorted(folder.iterdir()):
        if child.name.startswith("."):
            continue
        if _is_folder(child):
            yield from sorted(_inside(child)) or [child]
        elif child.suffix == ".ipynb":
            yield child


def _inside(folder: Path) -> list[Path]:
    """Notebooks in a learner's folder, at most MAX_DEPTH folders down; no link is followed."""
    found: list[Path] = []
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        if place.is_symlink():
            continue
        try:
            children = list(place.iterdir())
        except OSError:  # not ours to read: the folder stands for itself, and says so
            continue
        for child in children:
            if child.name.startswith("."):
                continue
            if _is_folder(child) and depth < MAX_DEPTH:
                waiting.append((child, depth + 1))
            elif child.suffix == ".ipynb":
                found.append(child)
    return found


def _learner(below: Path) -> str:
    return below.parts[0] if len(below.parts) > 1 else below.stem
