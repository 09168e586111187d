"""Seconds per submission, beside plain nbval on the same notebook in the same run.

Usage: ``python benchmarks/grading.py [--submissions N] [--out benchmarks/grading-….json]``

The labs are as small as a lab can be, so that what is measured is the grader: reading, lifting,
compiling, starting sandboxed kernels, running, comparing, recording. Plain nbval starts one kernel
a notebook outside any sandbox, compares nothing and writes nothing; it is the floor of anything
built on it. Each figure is a whole process, timed from outside, start-up and reference run in it.

Limit: what a lab itself computes comes on top.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from rich.console import Console
from rich.table import Table

from kernelbook import release, source

HEAD = """---
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
kernelspec: {{name: python3, display_name: Python 3, language: python}}
kernelbook: {{lab: bench/{name}}}
---

# {name}

```{{code-cell}} python
from kernelbook import lab
from numba import cuda
import numpy as np
```
"""

FUNCTION = """
```{code-cell} python
---
tags: [exercise]
exercise: half
kind: function
---
def half(number):
    ### BEGIN SOLUTION
    return number / 2
    ### END SOLUTION
```

```{code-cell} python
---
tags: [check]
exercise: half
---
lab.check_close(half(3.0), 1.5)
```

```{code-cell} python
---
tags: [hidden]
exercise: half
points: 1
category: a number
message: Halve it.
---
lab.answer(half(float(lab.rng().integers(1, 99))))
```
"""

KERNEL = """
```{code-cell} python
---
tags: [exercise]
exercise: double
kind: kernel
signature: "float32[::1], float32[::1]"
---
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < out.size:
        out[i] = x[i] + x[i]
    ### END SOLUTION
```

```{code-cell} python
---
tags: [check]
exercise: double
---
x = lab.rng().standard_normal(8, dtype=np.float32)
out = lab.empty(8)
double[1, 32](x, out)
lab.check_close(out, x + x)
```

```{code-cell} python
---
tags: [hidden]
exercise: double
points: 1
category: a vector
message: Double it.
---
x = lab.rng().standard_normal(33, dtype=np.float32)
out = lab.empty(33)
double[2, 32](x, out)
lab.answer(out)
```
"""

LABS = {"function": FUNCTION, "kernel": KERNEL}


def hand_in(root: Path, name: str, count: int) -> Path:
    """``count`` different right submissions of lab ``bench/<name>``; returns their folder."""
    path = root / "solutions" / "bench" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(name=name) + LABS[name])
    lab = source.read(path, root / "solutions")
    for number in range(count):
        notebook = release.build(lab)
        for cell in notebook.cells:
            if cell.id in lab.exercises:
                cell.source = f"{lab.exercises[cell.id].solution}\n# submission {number}"
        folder = root / "class" / name / f"learner-{number:03}"
        folder.mkdir(parents=True)
        (folder / "lab.ipynb").write_text(nbformat.writes(notebook))
    return root / "class" / name


def seconds_of(command: list[str], root: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(count: int) -> list[dict[str, object]]:
    """One row a lab and way of running it: whole seconds and seconds per submission."""
    rows: list[dict[str, object]] = []
    grade = [sys.executable, "-m", "kernelbook.cli", "grade"]
    nbval = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in LABS:
            handed = hand_in(root, name, count)
            ways = {
                "plain nbval, one process": [*nbval, str(handed)],
                "kernelbook grade --jobs 1": [*grade, str(handed), "--out", f"{name}-1", "-j", "1"],
                "kernelbook grade --jobs 2": [*grade, str(handed), "--out", f"{name}-2", "-j", "2"],
            }
            for way, command in ways.items():
                total = seconds_of(command, root)
                each = total / count
                rows.append(
                    {"lab": name, "way": way, "submissions": count, "seconds": round(total, 2),
                     "seconds_each": round(each, 3)}
                )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    options = parser.parse_args()
    rows = measure(options.submissions)
    table = Table("lab", "way", "s in all", "s each", "× nbval")
    for row in rows:
        plain = next(r for r in rows if r["lab"] == row["lab"])
        ratio = float(str(row["seconds"])) / float(str(plain["seconds"]))
        table.add_row(
            str(row["lab"]), str(row["way"]), str(row["seconds"]), str(row["seconds_each"]),
            f"{ratio:.2f}",
        )  # fmt: skip
    Console().print(table)
    if options.out:
        record = {
            "benchmark": "grading",
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, no GPU",
            "python": platform.python_version(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "rows": rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
