"""What the real compiler refuses by its form is refused before it runs."""

import linecache

import numpy as np
import pytest
from numba import cuda

from kernelbook.simt import KernelError

REFUSED = {
    "try": "try:\n        out[0] = 1\n    except IndexError:\n        out[0] = 2",
    "with": "with cuda.pinned(x):\n        out[0] = 1",
    "a list": "s = [1, 2, 3]\n    out[0] = s[1]",
    "a dict": "d = {1: 2}\n    out[0] = d[1]",
    "a set": "out[0] = len({1, 2})",
    "a generator expression": "out[0] = sum(i for i in range(3))",
    "a class": "class A:\n        pass",
    "import": "import math\n    out[0] = math.sqrt(x[0])",
    "global": "global n\n    n = 1",
    "del": "v = x[0]\n    del v",
    "*": "a, *b = x[0], x[1], x[2]\n    out[0] = a",
    "yield": "yield 1",
    "np.zeros()": "z = np.zeros(3)\n    out[0] = z[0]",
    "sorted()": "out[0] = sorted((3, 1))[0]",
}
ACCEPTED = {
    "a list written out in a for": "for v in [1, 2, 3]:\n        out[0] += v",
    "a tuple": "t = (1, 2, 3)\n    out[0] = t[1]",
    "an assertion": "assert x[0] >= 0\n    out[0] = 2",
    "a match": "match 1:\n        case 1:\n            out[0] = 2",
    "enumerate": "for i, v in enumerate(x):\n        out[0] = i",
    "an inner function": "def f(v):\n        return v + 1\n    out[0] = f(x[1])",
}


def made(body, name="k"):
    """A kernel from source that Python can show."""
    text = f"@cuda.jit\ndef {name}(x, out):\n    {body}\n"
    path = f"<test {hash(body)}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    space = {"cuda": cuda, "np": np}
    exec(compile(text, path, "exec"), space)
    return space[name]


@pytest.mark.parametrize(("what", "body"), REFUSED.items())
def test_construct_that_the_compiler_refuses_is_refused(what, body):
    with pytest.raises(KernelError) as caught:
        made(body)[1, 1](np.arange(3.0), np.zeros(3))
    message = str(caught.value)
    assert f"the compiler refuses {what} in a kernel. " in message
    assert "| " in message, "the line is quoted"


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_construct_that_the_compiler_takes_runs(body):
    out = np.zeros(3)
    made(body)[1, 1](np.arange(3.0), out)
    assert out[0] != 0


def test_device_function_is_looked_at_too():
    @cuda.jit(device=True)
    def inner(v):
        return [v][0]

    @cuda.jit
    def outer(x, out):
        out[0] = inner(x[0])

    with pytest.raises(KernelError, match=r"inner, line \d+: the compiler refuses a list"):
        outer[1, 1](np.zeros(1), np.zeros(1))
