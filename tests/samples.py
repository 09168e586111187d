"""A small lab that tests share: one kernel, one host function, each with honest tests."""

from __future__ import annotations

from pathlib import Path

from kernelbook import source
from kernelbook.source import LabSource

LAB_ID = "tiny/double"

TEXT = '''\
---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {name: python3, display_name: Python 3, language: python}
kernelbook: {lab: tiny/double}
---

# Double · 加倍

Two exercises that take a minute.

```{code-cell} python
from kernelbook import lab
from numba import cuda
import numpy as np

lab.begin("tiny/double")
```

## Double every element

```{code-cell} python
---
tags: [exercise]
exercise: double
kind: kernel
signature: "float32[::1], float32[::1]"
---
@cuda.jit
def double(x, out):
    """out[i] = 2 x[i]."""
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
x = lab.rng().standard_normal(40, dtype=np.float32)
out = lab.empty(40)
double[2, 32](x, out)
lab.check_close(out, 2 * x)
```

+++ {"tags": ["hint"], "exercise": "double"}

A thread past the end must touch nothing.

```{code-cell} python
---
tags: [hidden]
exercise: double
points: 2
category: sizes around the block
message: Try sizes one below, at and one above the block size.
---
for n in lab.sizes(sim=(1, 31, 32, 33), gpu=(1, 31, 33, 1_000_003)):
    x = lab.rng().standard_normal(n, dtype=np.float32)
    out = lab.empty(n)
    double[-(-n // 32), 32](x, out)
    lab.answer(out)
```

```{code-cell} python
---
tags: [hidden]
exercise: double
points: 1
category: more threads than elements
message: The grid may be much larger than the array.
---
x = lab.rng().standard_normal(5, dtype=np.float32)
out = lab.empty(5)
double[3, 64](x, out)
lab.answer(out)
```

```{code-cell} python
---
tags: [wrong]
exercise: double
fails: more threads than elements
because: the guard is missing
---
@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    out[i] = x[i] + x[i]
```

```{code-cell} python
---
tags: [alternative]
exercise: double
---
@cuda.jit
def double(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = np.float32(2) * x[i]
```

## Halve a number

```{code-cell} python
---
tags: [exercise]
exercise: half
kind: function
---
def half(number):
    """The half of a number."""
    ### BEGIN SOLUTION
    halved = number / 2
    return halved
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
points: 2
category: odd numbers
message: An odd number has a half, too.
---
for number in lab.rng().integers(1, 99, 5) * 2 + 1:
    lab.answer(half(float(number)))
```
'''

RIGHT = {
    "double": (
        "@cuda.jit\ndef double(x, out):\n    i = cuda.grid(1)\n"
        "    if i < out.size:\n        out[i] = x[i] * 2\n"
    ),
    "half": "def half(number):\n    return 0.5 * number\n",
}


def write_lab(root: Path, text: str = TEXT, lab_id: str = LAB_ID) -> LabSource:
    """Write the sample source below ``root`` and read it."""
    path = root / f"{lab_id}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return source.read(path, root)
