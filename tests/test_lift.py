"""Lifting device code out of cells: what comes along, what is refused, and where it says so."""

from __future__ import annotations

import ast
import contextlib
import json
import random
import subprocess
import sys

import pytest

from kernelbook.errors import CompileError
from kernelbook.lift import NotAKernel, lift

IMPORTS = "from numba import cuda, float32\nimport numpy as np\nimport math"
PLAIN = "@cuda.jit\ndef k(x, out):\n    out[0] = x[0]"


def kernel(body: str, head: str = "@cuda.jit\ndef k(x, out):") -> str:
    return head + "\n" + "\n".join("    " + line for line in body.split("\n"))


def refused(*cells: str, kind: str = "kernel") -> NotAKernel:
    with pytest.raises(NotAKernel) as raised:
        lift(cells, "k", kind)
    return raised.value


# What comes along


def test_lift_kernel_takes_device_functions_and_constants_transitively():
    cells = [
        IMPORTS,
        "TILE = 16\nPADDED = TILE + 1\nUNUSED = 3\nunrelated = open",
        "@cuda.jit(device=True)\ndef square(a):\n    return a * a",
        "@cuda.jit(device=True)\ndef norm(a):\n    return math.sqrt(square(a)) + PADDED",
        "@cuda.jit(device=True)\ndef unused(a):\n    return a",
        kernel("s = cuda.shared.array(PADDED, float32)\nout[0] = norm(x[0]) + s[0]"),
    ]
    lifted = lift(cells, "k")
    assert lifted.names == ("PADDED", "square", "norm", "k")
    assert "PADDED = 17" in lifted.source
    assert "unused" not in lifted.source
    assert "np" not in lifted.source
    compile(lifted.source, "lifted", "exec")


def test_lift_result_keeps_each_line_and_its_origin():
    cells = [IMPORTS, "# a remark\nN = 4; M = 5", kernel("# why\nout[0] = x[0] * M  # here")]
    lifted = lift(cells, "k")
    lines = lifted.source.split("\n")
    for number, (cell, line) in lifted.lines.items():
        if not lines[number - 1].startswith("from "):
            assert lines[number - 1] in cells[cell].split("\n")[line - 1]
    star = next(n for n, text in enumerate(lines, 1) if "# here" in text)
    assert lifted.lines[star] == (2, 4)


def test_lift_twice_defined_kernel_takes_last():
    first = kernel("out[0] = 1")
    lifted = lift([IMPORTS, first, kernel("out[0] = 2")], "k")
    assert "= 2" in lifted.source
    assert "= 1" not in lifted.source


def test_lift_constant_set_again_later_takes_value_at_kernels_cell():
    lifted = lift([IMPORTS, "T = 16", kernel("out[0] = T"), "T = 32"], "k")
    assert "T = 16" in lifted.source
    assert "T = 32" not in lifted.source


def test_lift_constant_in_terms_of_an_earlier_value_has_its_own():
    lifted = lift([IMPORTS, "A = 2\nB = A * 8\nA = 4", kernel("out[0] = A + B")], "k")
    space: dict = {}
    exec("\n".join(s for s in lifted.source.split("\n") if s[:1] in "AB"), space)
    assert (space["A"], space["B"]) == (4, 16)


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from numba import cuda", "@cuda.jit"),
        ("from numba import cuda as c", "@c.jit()"),
        ("import numba.cuda", "@numba.cuda.jit"),
        ("import numba.cuda as c", "@c.jit"),
        ("import numba", "@numba.cuda.jit(fastmath=True)"),
        ("from numba.cuda import jit as j", "@j"),
    ],
)
def test_lift_import_spelling_finds_jit(imports, decorator):
    lifted = lift([imports, f"{decorator}\ndef k(x, out):\n    out[0] = x[0]"], "k")
    compile(lifted.source, "lifted", "exec")
    assert decorator in lifted.source


@pytest.mark.parametrize(
    "signature",
    [
        "'void(float32[:], int32)'",
        "(float32[:, ::1], float32)",
        "[(float32[:],), (numba.types.float64[::1],)]",
        "numba.void(float32[:], numba.int32)",
        "SIGNATURE",
    ],
)
def test_lift_decorator_signature_of_types_is_dropped(signature):
    pre = IMPORTS + "\nimport numba\nSIGNATURE = 'void(float32[:], float32[:])'"
    lifted = lift([pre, f"@cuda.jit({signature})\ndef k(x, out):\n    out[0] = x[0]"], "k")
    assert "@cuda.jit()" in lifted.source


def test_lift_annotations_are_blanked_and_columns_kept():
    text = "@cuda.jit\ndef k(x: np.ndarray, out: exit() = None) -> exit():\n    out[0] = x[0]"
    text = text.replace(" = None", "")
    lifted = lift([IMPORTS, text], "k")
    assert "exit" not in lifted.source
    head = next(s for s in lifted.source.split("\n") if s.startswith("def k"))
    assert head.index("out") == text.split("\n")[1].index("out")


def test_lift_cell_magics_are_passed_over():
    cells = [
        IMPORTS + "\n%matplotlib inline\n!ls\nfiles = !ls\ncuda?",
        "%%bash\nrm -rf everything",
        "%%time\n" + PLAIN,
    ]
    lifted = lift(cells, "k")
    assert lifted.lines[max(lifted.lines)] == (2, 4)
    assert any("%%bash" in note for note in lifted.dropped)


def test_lift_broken_other_cell_is_noted():
    lifted = lift([IMPORTS, "this is no python", PLAIN], "k")
    assert lifted.dropped[0].startswith("the cell `this is no python` was passed over")


def test_lift_dtype_references_and_number_types_are_constants():
    constants = "D = np.float32\nE = float32\nF = np.float32(0.5)\nG = float('inf')\nH = math.pi"
    lifted = lift(
        [IMPORTS, constants + "\nI = -np.inf", kernel("out[0] = D(E(F + G + H + I))")], "k"
    )
    assert lifted.names == ("D", "E", "F", "G", "H", "I", "k")


# What is refused


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("k = 3", "set by an assignment"),
        ("k = cuda.jit(lambda x, out: None)", "set by an assignment"),
        ("class k: pass", "is a class"),
        ("def k(x, out): pass", "plain Python function; write it as a def under @cuda.jit"),
        ("async def k(x, out): pass", "an async function"),
        ("import math as k", "is an import"),
        ("(k := 3)", "is set inside an expression by :="),
        ("x = [k := 3 for _ in range(3)]", "inside an expression by :="),
        ("if True:\n    " + PLAIN.replace("\n", "\n    "), "inside an if; write it as a def"),
        ("k = make(10)", "is set by an assignment; write it as a def under @cuda.jit at the top"),
        ("for k in (1, 2): pass", "is set by a loop; write it as a def under @cuda.jit"),
        (PLAIN + "\nk = print", "set by an assignment"),
        (PLAIN + "\ndel k", "deleted"),
        (PLAIN + "\nk += 1", "changed in place"),
        (PLAIN + "\ndef f():\n    pass\nclass k: pass", "is a class"),
        ("x = 1", "no cell defines it"),
        ("@numba_jit\ndef k(x, out): pass", "not Numba's @cuda.jit"),
        ("import numba\n@numba.njit\ndef k(x, out): pass", "compiles for the CPU"),
        ("@(lambda f: f)\ndef k(x, out): pass", "not Numba's @cuda.jit"),
        ("@cuda.jit\n@cuda.jit\ndef k(x, out): pass", "more decorators"),
        ("@cuda.jit(device=True)\ndef k(x, out): pass", "is a device function"),
        ("@cuda.jit(link=['evil.cu'])\ndef k(x, out): pass", "the option link"),
        ("@cuda.jit(**{})\ndef k(x, out): pass", "the option **"),
        ("@cuda.jit(fastmath=print())\ndef k(x, out): pass", "other than a literal"),
        ("@cuda.jit(print('run'))\ndef k(x, out): pass", "not a signature"),
        ("@cuda.jit(*[1])\ndef k(x, out): pass", "not a signature"),
        ("@cuda.jit\ndef k(x, out=print()): pass", "default arguments"),
        ("@cuda.jit\ndef k(*x): pass", "*args"),
        ("@cuda.jit\ndef k(x, *, out): pass", "keyword-only"),
        ("cuda = object()\n" + PLAIN, "given to something else"),
        ("x = (cuda := object())\n" + PLAIN, "given to something else"),
        ("try:\n    import cupy as cuda\nexcept ImportError: pass\n" + PLAIN, "given to something"),
        ("@cuda.jit\ndef k(x, out):\n    out[0] = = 1", "Python cannot read it"),
        ("from numba.cuda import *\n@jjit\ndef k(x, out): pass", "not Numba's"),
        ("@cudа.jit\ndef k(x, out): pass", "not Numba's"),
    ],
)  # fmt: skip
def test_lift_definition_that_is_no_kernel_is_refused(cell, words):
    assert words in str(refused(IMPORTS, cell))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("out[0] = open('x')", "open, which runs only on the host"),
        ("out[0] = isinstance(x, int)", "isinstance, which runs only"),
        ("out[0] = eval('1')", "eval"),
        ("out[0] = getattr(x, 'a')", "getattr"),
        ("out[0] = ().__class__", "__class__"),
        ("out[0] = x._data", "_data"),
        ("out[0] = __import__('os')", "__import__"),
        ("out[0] = __builtins__", "__builtins__"),
        ("out[0] = __size", "__size, which is not device code"),
        ("out[0] = np.load('x')", "np.load, which runs only on the host"),
        ("out[0] = np.lib.npyio", "np.lib.npyio"),
        ("out[0] = np.hypo(x[0], 1)", "np.hypo, which does not exist; did you mean np.hypot?"),
        ("out[0] = np.sqrt(x[0])", "np.sqrt, which runs only on the host; use math.sqrt"),
        ("out[0] = math.sqr(x[0])", "math.sqr, which does not exist; did you mean math.sqrt?"),
        (
            "out[0] = cuda.threadidx.x",
            "cuda.threadidx.x, which does not exist; did you mean cuda.th",
        ),
        ("out[0] = cuda.syncthread()", "does not exist; did you mean cuda.syncthreads?"),
        ("out[0] = huges", "uses huges, which no cell defines; did you mean huge?"),
        ("(y := x[0])\nout[0] = y", "sets a name inside an expression (:=)"),
        ("match x[0]:\n    case [a, b]:\n        out[0] = a", "uses match, which a kernel cannot"),
        ("out[0] = from_text", "the result of a call"),
        ("out[0] = cuda.to_device(x)", "cuda.to_device, which runs only on the host"),
        ("out[0] = cuda", "uses cuda, which is not device code"),
        ("a = np\na.save('x')", "uses np, which is not device code"),
        ("out[0] = missing", "no cell defines"),
        ("out[0] = weights[0]", "the result of a call"),
        ("out[0] = table[0]", "a list"),
        ("out[0] = f(x)", "a lambda"),
        ("out[0] = helper(x)", "a plain Python function"),
        ("out[0] = late", "the result of a call"),
        ("out[0] = huge", "too large"),
        ("out[0] = shifted", "too large"),
        ("out[0] = looped", "uses looped, which is neither a parameter nor a constant of yours"),
        (
            "i = n",
            "set by a loop (`for n in (1, 2): pass`). Pass it in as an argument, or use x.size",
        ),
        ("out[0] = lab.answer(1)", "lab.answer, which is not device code"),
        ("out[0] = os.getpid()", "from os"),
        ("global x1\nx1 = 1", "global"),
        ("import os", "imports"),
        ("class A:\n    pass", "a class"),
        ("yield 1", "yields"),
        ("def inner(a=open('x')):\n    return a\nout[0] = inner()", "decorator or defaults"),
        ("f = lambda: open('x')\nout[0] = f()", "open"),
        ("out[0] = [open(i) for i in range(3)]", "builds a list"),
        ("out[0] = οut2", "only looks like a plain one"),
    ],
)
def test_lift_body_with_host_code_is_refused(body, words):
    given = (
        "import os\nfrom kernelbook import lab\n__size = 3\nweights = np.zeros(3)\ntable = [1]\n"
        "f = lambda a: a\ndef helper(a): return a\nlate = len(table)\nhuge = 10 ** 10 ** 10\n"
        "shifted = 1 << 10 ** 9\nfor looped in (1, 2): pass\nfor n in (1, 2): pass\n"
        "from_text = int('10')"
    )
    error = refused(IMPORTS, given, kernel(body))
    assert words in str(error)
    assert error.cell == 2


def test_lift_refusal_names_cell_and_line():
    error = refused(IMPORTS, "w = np.zeros(3)", kernel("i = 0\nout[i] = w[i]"))
    assert (error.cell, error.line) == (2, 4)
    assert str(error).startswith("k, line 4: uses w, which is the result of a call (`w = np.z")
    assert "A kernel can use numbers, strings, tuples and types written out" in str(error)
    assert "code cell" not in str(error)
    assert "`w = np.zeros(3)`" in str(error)
    assert isinstance(error, CompileError)


def test_lift_refusal_in_device_function_names_it():
    device = "@cuda.jit(device=True)\ndef d(a):\n    return open(a)"
    error = refused(IMPORTS, device, kernel("out[0] = d(x[0])"))
    assert str(error).startswith("k, in d, line 3 of the cell that defines d: uses open, which")
    assert (error.inside, error.line) == ("d", 3)
    same_cell = refused(IMPORTS, device + "\n" + kernel("out[0] = d(x[0])"))
    assert str(same_cell).startswith("k, in d, line 3: uses open, which")
    assert (error.cell, error.line) == (1, 3)


def test_lift_syntax_error_in_last_definition_is_reported_despite_earlier_one():
    error = refused(IMPORTS, PLAIN, "@cuda.jit\ndef k(x, out):\n    out[0] = (1")
    assert (error.cell, error.line) == (2, 3)


def test_lift_constant_of_a_later_cell_keeps_the_value_that_it_has_there():
    lifted = lift([IMPORTS, "A = 1", kernel("out[0] = A + B"), "A = 2\nB = A"], "k")
    assert "A = 1\n" in lifted.source
    assert "B = 2\n" in lifted.source


def test_lift_star_import_is_not_trusted():
    assert "does not say what it brings" in str(
        refused(IMPORTS, "from math import *", kernel("out[0] = sqrt(x[0])"))
    )


def test_lift_executes_nothing(tmp_path):
    trap = tmp_path / "ran"
    touch = f"open({str(trap)!r}, 'w')"
    cells = [
        IMPORTS, touch, f"T = 3; {touch}", f"def f(a={touch}): pass",
        f"@cuda.jit\ndef k(x: {touch}, out):\n    out[0] = T",
    ]  # fmt: skip
    lifted = lift(cells, "k")
    exec(compile(ast.parse(lifted.source.replace("@cuda.jit", "")), "lifted", "exec"), {})
    assert not trap.exists()


# Strings of CUDA C++


def test_lift_source_literal_gives_text_and_lines():
    lifted = lift(["import math", "N = 4\nk = r'''\nint a\\n;\nint b;\n'''"], "k", "source")
    assert lifted.source == "\nint a\\n;\nint b;\n"
    assert lifted.lines[3] == (1, 4)


@pytest.mark.parametrize(
    "expression",
    ["'int ' 'a;'", "'int ' + 'a;'", "('int '\n 'a;')", "HEAD + 'a;'", "f'{HEAD}a;'"],
)
def test_lift_source_joined_literals_give_text(expression):
    assert lift([f"HEAD = 'int '\nk = {expression}"], "k", "source").source == "int a;"


def test_lift_source_fstring_with_constant_gives_its_value():
    assert lift(["T = 2 ** 4\nk = f'int a[{T}]; {{}}'"], "k", "source").source == "int a[16]; {}"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("k = open('x').read()", "the result of a call"),
        ("k = 'a'.upper()", "the result of a call"),
        ("k = 3", "something computed"),
        ("k = 'a' % 3", "something computed"),
        ("k = f'{open}'", "something computed"),
        ("k = f'{3:>9999999}'", "more than plain constants"),
        ("k = later\nlater = 'a'", "no string literal"),
        ("def k(): pass", "is a function"),
        ("k: str", "named with a type but given no value"),
    ],
)
def test_lift_source_that_is_no_literal_is_refused(cell, words):
    assert words in str(refused(cell, kind="source"))


# Hostile input

N = 90_000
NESTED = {
    "parentheses": "(" * N,
    "signs": "-" * N + "1",
    "not": "not " * (N // 4) + "1",
    "attributes": "x" + ".a" * (N // 2),
    "calls": "x" + "()" * (N // 2),
    "sums": "1" + "+1" * (N // 2),
    "powers": "1" + "**1" * (N // 3),
    "lambdas": "lambda:" * (N // 7) + "1",
    "conditions": "1 if 1 else " * (N // 12) + "1",
    "strings": "f'{" * (N // 3),
    "digits": "9" * N,
    "null-byte": "1\0",
    "surrogate": "'\ud800'",
    "comparisons": "1" + "<open" * (N // 5),
}


@pytest.mark.parametrize("shape", NESTED)
@pytest.mark.parametrize("kind", ["kernel", "source"])
def test_lift_hostile_expression_is_refused_in_time(shape, kind):
    text = "k = " + NESTED[shape] if kind == "source" else kernel("out[0] = " + NESTED[shape])
    refused(IMPORTS, text, kind=kind)


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(["x" * 5_000_000, PLAIN], id="five-megabyte-cell"),
        pytest.param(
            ["a0 = 1\n" + "".join(f"a{i} = a{i - 1}\n" for i in range(1, 4000))
             + kernel("out[0] = a3999")], id="long-chain"),
        pytest.param(
            ["a0 = 1\n" + "".join(f"a{i} = (a{i - 1}, a{i - 1})\n" for i in range(1, 64))
             + kernel("out[0] = a63")], id="tuple-bomb"),
    ],
)  # fmt: skip
def test_lift_hostile_cells_are_refused_or_passed_over(cells):
    with contextlib.suppress(NotAKernel):
        assert "was passed over: it is longer" in lift([IMPORTS, *cells], "k").dropped[0]


def test_lift_doubling_source_string_is_refused():
    cell = "a0 = ''\n" + "".join(f"a{i} = a{i - 1} + a{i - 1}\n" for i in range(1, 64)) + "k = a63"
    assert "too long" in str(refused(cell, kind="source"))


def test_lift_any_truncation_or_mutation_never_raises_another_error():
    whole = "\n".join(
        [IMPORTS, "T = (1, 2.5) + (3,)", kernel("for i in range(T[0]):\n  out[i] = -x[i]")]
    )
    dice = random.Random(7)
    letters = "()[]{}:=@\n\t 'x1\"#\\,.*-~é\x0c"
    for _ in range(400):
        text = list(whole[: dice.randrange(20, len(whole) + 1)])
        for _ in range(dice.randrange(3)):
            text[dice.randrange(len(text))] = dice.choice(letters)
        with contextlib.suppress(NotAKernel):
            compile(lift(["".join(text)], "k").source, "lifted", "exec")


def test_lift_name_that_is_no_identifier_is_the_callers_error():
    with pytest.raises(ValueError, match="no name"):
        lift([IMPORTS], "a b")


def test_lift_imports_no_cuda():
    code = "import sys, kernelbook.lift; print('numba' in sys.modules, 'numba.cuda' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout.replace(" ", ",").join("[]").lower()) == [False, False]
