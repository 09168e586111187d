"""Attacks on lifting: nothing that a learner writes is run by what lifting hands out."""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelbook.compilers.compiled import KernelRefused
from kernelbook.compilers.ptxas import without_comments
from kernelbook.lift import NotAKernel, cells, lift
from kernelbook.lift.audit import Fault, audit
from kernelbook.lift.lifted import MAX_MESSAGE
from kernelbook.lift.signature import require_types
from kernelbook.lift.vocabulary import BODY_NODES, VALUE_ATTRIBUTES, is_device_name, is_type

IMPORTS = "from numba import cuda, float32, types\nimport numba\nimport numpy as np\nimport math\n"
IMPORTS += "import operator"
RUN = "exec('raise SystemExit')"


def kernel(body: str, head: str = "@cuda.jit\ndef k(x, out):") -> str:
    return head + "\n" + "\n".join("    " + line for line in body.split("\n"))


def refused(*sources: str) -> NotAKernel:
    with pytest.raises(NotAKernel) as raised:
        lift([IMPORTS, *sources], "k")
    return raised.value


def globals_of(source: str) -> dict:
    """What the lifted source defines when a simulator runs it."""
    from kernelbook.simt import cuda

    space: dict = {}
    text = source.replace("from numba import cuda\n", "")
    exec(compile(text, "<lifted>", "exec"), {"cuda": cuda}, space)
    return space


# A statement that gives a constant holds more than the constant


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        (f"N, EVIL = 7, {RUN}", 7),
        (f"EVIL, N = {RUN}, 7", 7),
        (f"N = (A, B) = (7, 8); {RUN}", (7, 8)),
        (f"N = M = 7; {RUN}", 7),
        (f"N: {RUN} = 7", 7),
        (f"N: float = 7 ; EVIL = {RUN}", 7),
        (f"N = 7\nM, EVIL = N, {RUN}", 7),
        ("N = -(-7)", 7),
    ],
)
def test_lift_constant_is_handed_out_as_its_value_alone(statement, value):
    lifted = lift([IMPORTS, statement, kernel("out[0] = N")], "k")
    assert "exec" not in lifted.source
    assert globals_of(lifted.source)["N"] == value
    line = 1 + lifted.source.split("\n").index(f"N = {value}")
    assert lifted.lines[line] == (1, 1)


@pytest.mark.parametrize(
    "statement",
    [
        f"N, *EVIL = 7, {RUN}",
        f"N = 7\nN += {RUN}",
        f"N = 7 if True else {RUN}",
        f"N = [{RUN}, 7]",
        f"N = (7, {RUN})",
        f"(N := 7, {RUN})",
        f"x[{RUN}] = N = 7",
        f"x.a = N = {RUN}",
        f"for N in ({RUN},): pass",
        "N = 7 .__class__",
        "N = b'bytes'",
        "N = np.str_('text')",
        "N = np.object_('text')",
        "N = np.longdouble(1)",
        "N = 1j * float('inf')",
    ],
)
def test_lift_constant_with_more_than_a_value_is_refused(statement):
    refused(statement, kernel("out[0] = N"))


CONSTANTS = {
    "int": ("-(2 ** 127)", -(2**127)),
    "bool": ("not True", False),
    "float": ("0.1 + 0.2", 0.1 + 0.2),
    "infinite": ("-math.inf", -np.inf),
    "complex": ("1 - 2j", 1 - 2j),
    "string": (r"'a\u2028b\"\''", "a\u2028b\"'"),
    "tuple": ("(1, (2.5, 'x'), ())", (1, (2.5, "x"), ())),
    "numpy-scalar": ("np.float32(0.1)", np.float32(0.1)),
    "numpy-product": ("np.float32(0.1) * np.float64(3)", np.float32(0.1) * np.float64(3)),
    "numpy-nan": ("np.float16('nan')", np.float16("nan")),
    "numpy-bool": ("np.bool_(1)", np.True_),
    "numpy-type": ("np.int16", np.int16),
    "type-by-name": ("D", np.int16),
    "types": ("(D, np.float64)", (np.int16, np.float64)),
    "none": ("None", None),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_lift_constant_keeps_value_and_type(case):
    expression, value = CONSTANTS[case]
    source = lift([IMPORTS, f"D = np.int16\nN = {expression}", kernel("out[0] = N")], "k").source
    found = globals_of(source)["N"]
    assert type(found) is type(value)
    assert found == value or (found != found and value != value)


def test_lift_tuple_of_one_long_tuple_many_times_is_refused():
    many = "A = (" + "1," * 20_000 + ")\nN = (" + "A," * 20_000 + ")"
    assert "too long" in str(refused(many, kernel("out[0] = N[0][0]")))


def test_lift_many_long_constants_are_refused():
    chain = "A0 = '" + "x" * 50_000 + "'\n"
    chain += "".join(f"A{i} = A{i - 1} + 'x'\n" for i in range(1, 40))
    assert "too long in all" in str(refused(chain, kernel("out[0] = A39")))


# Signatures


SIGNATURES = [
    "\"exec('raise SystemExit') or int64(int64)\"",
    "[\"exec('raise SystemExit')\"]",
    "(\"exec('raise SystemExit')\",)",
    "S",
    "float32(float32)",
]


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("options", ["", ", device=True", ", fastmath=True, cache=True"])
def test_lift_signature_never_reaches_what_is_handed_out(signature, options):
    given = "S = \"exec('raise SystemExit')\""
    head = f"@cuda.jit({signature}{options})\ndef f(a):\n    return a"
    if "device" not in options:
        head = head.replace("def f(a):\n    return a", "def k(x, out):\n    out[0] = 1")
    source = lift([IMPORTS, given, head, kernel("out[0] = f(1)") if "dev" in options else "0"], "k")
    jits = [n for n in ast.walk(ast.parse(source.source)) if isinstance(n, ast.Call)
            and ast.unparse(n.func) == "cuda.jit"]  # fmt: skip
    assert jits
    assert not any(call.args for call in jits)
    assert "cache" not in source.source
    globals_of(source.source)


BAD_SIGNATURES = [
    "exec('raise SystemExit')", "exec('raise SystemExit') or void(int64)", "__import__('os')",
    "float32.__class__", "(lambda: 1)()", "[float32 for a in (1,)]", "void(exec)", "print",
    "float32[exec('1')]", "float32[:exec('1')]", "void(float32, x=exec('1'))", "f'{exec}'",
    "int64" + "(" * 500, "UniTuple(int64, exec('1'))", "void(int64, 'x')",
    "ExternalFunction('a', int64)", "\0", "a" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_SIGNATURES)
def test_require_types_with_more_than_types_is_refused(text):
    with pytest.raises(ValueError, match=r"it |source code"):
        require_types(text)


@pytest.mark.parametrize(
    "text",
    ["void(float32[:, ::1], int64)", "float32[::1], int32", "()", "void()", "(f4[:],)",
     "int64(int64)", "UniTuple(int64, 3)(f8)", "void(Array(float32, 1, 'C'))"],
)  # fmt: skip
def test_require_types_of_types_is_accepted(text):
    require_types(text)


@pytest.mark.parametrize("given_as", ["{}", "[{}]", "{}, device=True"])
def test_simulated_jit_evaluates_no_signature_but_types(given_as, tmp_path):
    from kernelbook.simt import cuda

    trap = tmp_path / "ran"
    text = f"open({str(trap)!r}, 'w') and void(int64)"
    wrap = eval(f"lambda s: cuda.jit({given_as.format('s')})", {"cuda": cuda})
    with pytest.raises(TypeError):
        wrap(text)(lambda x: None)
    assert not trap.exists()


# What a compiler does not look at and a simulator runs


HOST = {
    "attribute-write": "math.pi = 3",
    "attribute-write-on-cuda": "cuda.threadIdx.x = 3",
    "attribute-loop": "for cuda.grid in (1,):\n    pass",
    "module-below-cuda": "cuda.libdevice.np.ctypeslib.ctypes.pythonapi.x(1)",
    "module-by-name": "a = cuda.libdevice\na.np.load(1)",
    "module-by-import": "sneaky.np.load(1)",
    "private-by-import": "loader.load_module(1)",
    "numpy-method": "np.hypot.outer(x, x)",
    "numpy-function-attribute": "f = np.sin\nf.reduce(x)",
    "numpy-file": "np.fromfile(x)",
    "numpy-object": "a = np.object_",
    "format": "s = '{0.__globals__}'.format(k)",
    "format-by-name": "PICK.format(k)",
    "format-map": "PICK.format_map(x)",
    "percent": "raise ValueError('%s' % k)",
    "f-string": "raise ValueError(f'{k}')",
    "string-dtype": "a = cuda.local.array(3, 'O')",
    "string-index": "a = 'abc'[0]",
    "join": "''.join(x)",
    "bytes": "a = b'abc'",
    "frame": "g = (i for i in (1,))\ng.gi_frame.f_builtins",
    "lambda-code": "f = lambda a: a\nf.func_globals",
    "tofile": "x.tofile(1)",
    "base": "x.base",
    "ctypes": "x.ctypes",
    "py_func": "k.py_func(x, out)",
    "error-args": "e = ValueError()\ne.with_traceback",
    "traceback": "try:\n    pass\nexcept ValueError as e:\n    e.tb_frame",
    "with": "with x:\n    pass",
    "dict": "d = {1: 2}",
    "set": "d = {1, 2}",
    "list": "y = [1]",
    "comprehension": "y = [i for i in range(3)]",
    "star": "f = max(*x)",
    "double-star": "f = max(1, **x)",
    "default-in-lambda": "f = lambda a=x: a",
    "default-in-function": "def f(a=x):\n    return a",
    "star-in-function": "def f(*a):\n    return a",
    "keyword-in-function": "def f(*, a):\n    return a",
    "annotation-in-function": "def f(a: x[0]):\n    return a",
    "result-in-function": "def f(a) -> x[0]:\n    return a",
    "decorator-in-function": "@max\ndef f(a):\n    return a",
    "call-of-call": "max(1, 2)(3)",
    "call-of-item": "(max, min)[0](1)",
    "class": "class A:\n    pass",
    "match": "match x:\n    case 1:\n        pass",
    "delete": "del x",
    "await": "await x",
    "large-number": "a = 0x" + "f" * 4000,
    "formfeed": "a = 1  # comment\x0c!touch trap",
    "line-separator": "a = 1  # comment\u2028!touch trap",
    "next-line": "a = 1  # comment\x85%run trap",
    "null-in-string": "print('a\x1c!touch trap')",
    "method-of-operator": "operator.attrgetter('a')",
    "type-maker": "types.Array(float32, 1, 'C')",
}
PLACES = {
    "live": "{}",
    "dead-constant": "if ZERO:\n{}",
    "dead-while": "while False:\n{}",
    "dead-loop": "for _ in range(0):\n{}",
    "after-return": "return\n{}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", HOST)
def test_lift_host_code_anywhere_in_a_body_is_refused(case, place):
    lines = HOST[case].split("\n")
    indent = "    " if ":" in PLACES[place] else ""
    body = PLACES[place].format("\n".join(indent + line for line in lines))
    given = "ZERO = 0\nPICK = '{0.a}'\nfrom numba.cuda import libdevice as sneaky\n"
    refused(given + "from math import __loader__ as loader", kernel(body))


@pytest.mark.parametrize(
    "expression",
    ["ZERO and k.a", "1 or k.a", "1 if 1 else k.a", "(lambda: k.a)", "0 < 1 < k.a"],
)
def test_lift_host_code_in_a_part_never_reached_is_refused(expression):
    assert "reads .a" in str(refused("ZERO = 0", kernel(f"x[0] = {expression}")))


@pytest.mark.parametrize("statement", ["assert x[0], k.a", "raise ValueError(k.a)", "print(k.a)"])
def test_lift_host_code_in_a_message_is_refused(statement):
    assert "reads .a" in str(refused(kernel(statement)))


def test_lift_device_code_of_every_kind_is_accepted():
    body = """
\"\"\"A docstring with %, ! and {braces}.\"\"\"
i, j = cuda.grid(2)
s = cuda.shared.array((T, T + 1 if False else T), D)
r: float32 = x[i].real if x.ndim == 1 else x.T[i, j] ** 2
for d in range(x.shape[0]):
    while not (i < d <= 3) or d in (1, 2):
        break
    else:
        continue
assert x.size > 0, "empty"
if x.strides[0] != x.itemsize:
    raise ValueError("strided", i)
def inner(a, b):
    return a + r if b else -a
f = lambda a: np.tanh(math.sqrt(a))
print("i", i, f(x[i]))
cuda.atomic.add(out, i, x.dtype.type(3) + operator.add(np.float32(1), np.pi))
g = cuda.cg.this_grid()
g.sync()
v = cuda.float32x4(1.0, 2.0, 3.0, 4.0)
out[i] = v.w + cuda.libdevice.rsqrt(x[i]) + inner(1, cuda.blockDim.z) + x.view(np.int32)[..., 0]
out.reshape(4, 4)[1, ::2][0] = cuda.fp16.hsin(x[0])
"""
    lift([IMPORTS, "T = 16\nD = np.float32", kernel(body.strip())], "k")


# The last look, on its own: whatever an earlier step lets through


HEAD = "from numba import cuda\n"
OUTSIDE = {
    "expression": "exec('1')",
    "call-in-constant": "N = exec('1')",
    "attribute-in-constant": "N = cuda.grid",
    "two-targets": "N = M = 1",
    "subscript-target": "cuda[0] = 1",
    "foreign-import": "import os",
    "foreign-from": "from numpy import load",
    "host-side-of-cuda": "from numba.cuda import to_device",
    "private-import": "from math import __loader__",
    "import-rebound": "cuda = 3",
    "function-under-import-name": "@cuda.jit\ndef cuda(x):\n    pass",
    "class": "class A:\n    pass",
    "plain-function": "def f(x):\n    pass",
    "signature": "@cuda.jit('void()')\ndef f(x):\n    pass",
    "option": "@cuda.jit(link=3)\ndef f(x):\n    pass",
    "option-value": "@cuda.jit(debug=exec)\ndef f(x):\n    pass",
    "second-decorator": "@cuda.jit\n@cuda.jit\ndef f(x):\n    pass",
    "decorator": "@cuda.jit.x\ndef f(x):\n    pass",
    "default": "@cuda.jit\ndef f(x=exec('1')):\n    pass",
    "annotation": "@cuda.jit\ndef f(x: exec('1')):\n    pass",
    "result": "@cuda.jit\ndef f(x) -> exec('1'):\n    pass",
    "built-in": "@cuda.jit\ndef f(x):\n    open(x)",
    "unknown-name": "@cuda.jit\ndef f(x):\n    get_ipython(x)",
    "built-in-in-lambda": "@cuda.jit\ndef f(x):\n    y = lambda a: open(a)",
    "import-as-variable-too": "@cuda.jit\ndef f(x):\n    y = lambda cuda: cuda.x\n    cuda.grid(1)",
    "large-number": "N = 0x" + "f" * 40,
    "large-in-option": "@cuda.jit(opt=0x" + "f" * 40 + ")\ndef f(x):\n    pass",
    "carriage-return": "N = 1  # a\rimport os",
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_audit_source_outside_the_list_is_refused(case):
    with pytest.raises(Fault):
        audit(HEAD + OUTSIDE[case] + "\n")


def test_audit_names_the_line():
    with pytest.raises(Fault) as raised:
        audit(HEAD + "N = 1\n@cuda.jit\ndef f(x):\n    y = x\n    y.base\n")
    assert raised.value.line == 6


ATOMS = [
    "x",
    "k",
    "np",
    "cuda",
    "math",
    "open",
    "N",
    "1",
    "1.5",
    "'s'",
    "b''",
    "f'{x}'",
    "None",
    "...",
]
NAMES = st.sampled_from(
    ["x", "shape", "grid", "threadIdx", "np", "libdevice", "__class__", "format", "gi_frame", "pi",
     "exp", "float32", "base", "T", "type", "view", "py_func", "shared", "array", "reduce"]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds("{}.{}".format, inner, NAMES),
        st.builds("{}({})".format, inner, inner),
        st.builds("({} + {})".format, inner, inner),
        st.builds("({}, {})".format, inner, inner),
        st.builds("[{}]".format, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("[{} for x in {}]".format, inner, inner),
        st.builds("(lambda x={}: {})".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("max(*{})".format, inner),
        st.builds("(y := {})".format, inner),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    EXPRESSIONS,
    st.builds("y = {}".format, EXPRESSIONS),
    st.builds("x.{} = {}".format, NAMES, EXPRESSIONS),
    st.builds("x[0]: {} = {}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("assert 1, {}".format, EXPRESSIONS),
    st.builds("raise {}".format, EXPRESSIONS),
    st.builds("if N: {}".format, EXPRESSIONS),
    st.builds("with {}: pass".format, EXPRESSIONS),
    st.builds("for y in {}: pass".format, EXPRESSIONS),
    st.builds("def f(a={}) -> {}: pass".format, EXPRESSIONS, EXPRESSIONS),
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STATEMENTS, min_size=1, max_size=3), EXPRESSIONS)
def test_lift_whatever_is_accepted_holds_only_what_is_listed(statements, constant):
    """An independent reading of what comes out: node types, names and attribute paths."""
    source = ""
    with contextlib.suppress(NotAKernel):
        given_cell = f"N = 0\nM = {constant}"
        source = lift(
            [IMPORTS, given_cell, kernel("\n".join(statements) + "\nx[0] = M")], "k"
        ).source
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef):
            assert isinstance(function, ast.ImportFrom | ast.Import | ast.Assign)
            continue
        inside = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        for node in (part for statement in function.body for part in ast.walk(statement)):
            assert isinstance(node, BODY_NODES)
            if isinstance(node, ast.Attribute) and id(node) not in inside:
                written = ast.unparse(node)
                root, *steps = written.split(".")
                full = {"np": "numpy", "cuda": "numba.cuda", "math": "math"}.get(root, root)
                path = ".".join([full, *steps])
                assert is_device_name(path) or set(steps[-1:]) <= VALUE_ATTRIBUTES
            if isinstance(node, ast.Name):
                assert node.id not in ("open", "np.", "__import__")
    assert not any(word in source for word in ("__class__", "gi_frame", "py_func", "format"))


def test_lift_types_are_of_numbers_only():
    leaves = (name for name in vars(np) if is_type(f"numpy.{name}"))
    assert all(np.dtype(getattr(np, leaf)).kind in "biufc" for leaf in leaves)


# Time and memory


def reads(monkeypatch) -> list[str]:
    """The texts that Python is asked to parse from now on."""
    texts: list[str] = []
    parse = cells._parse
    monkeypatch.setattr(cells, "_parse", lambda text: texts.append(text) or parse(text))
    return texts


def test_lift_cell_of_many_magics_is_parsed_twice_and_once_for_all_exercises(monkeypatch):
    texts = reads(monkeypatch)
    cell = "once = 1\n" + "%magic\n" * 500 + "!shell\nhelp?\nfiles = !ls\n"
    both = [IMPORTS, cell, kernel("out[0] = once"), kernel("out[0] = 2").replace("def k", "def m")]
    lift(both, "k")
    lift([IMPORTS, "# one more cell before", *both[1:]], "m")
    assert len([text for text in texts if "once = 1" in text]) == 2


def test_lift_memory_of_cells_is_bounded():
    for number in range(20):
        with contextlib.suppress(NotAKernel):
            lift([f"a = {number}\n#" + "x" * 90_000], "k")
    assert cells._memory.chars <= cells.MAX_REMEMBERED_CHARS
    assert sum(map(len, cells._memory.cells)) == cells._memory.chars


def test_lift_notebook_of_too_much_code_is_refused():
    assert "more than 500,000 characters" in str(refused(*["a = 1  #" + "x" * 90_000] * 6))


@pytest.mark.parametrize(
    "line",
    [" " * 90_000 + "$", "a" + " " * 90_000 + "$", "a?" * 45_000, '"' * 90_000, "\\'" * 45_000,
     ("'''\\\n") * 20_000, "a," * 45_000 + "=="],
    ids=["spaces", "name-and-spaces", "questions", "quotes", "escapes", "open-strings", "commas"],
)  # fmt: skip
def test_lift_long_odd_line_takes_linear_time(line):
    """In a process of its own, whose processor time is limited: what was quadratic took minutes."""
    code = f"""
import resource
from kernelbook.lift import lift
cell = {line!r}
used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
resource.setrlimit(resource.RLIMIT_CPU, (used + 8, used + 8))
lift(["if 1:\\n" + cell + "\\n$", {IMPORTS!r}, {kernel("out[0] = 1")!r}], "k")
"""
    subprocess.run([sys.executable, "-"], input=code, text=True, check=True)


def test_lift_magic_lookalike_inside_a_string_stays():
    cell = '%magic\nk = """\n  ok =!done;\n%0\n!x\nwhy?\n"""\nT = (7\n% 4)\n!ls "unclosed\n'
    assert lift([cell], "k", "source").source == "\n  ok =!done;\n%0\n!x\nwhy?\n"
    assert "T = 3" in lift([IMPORTS, cell.replace("k =", "s ="), kernel("out[0] = T")], "k").source


@pytest.mark.parametrize(
    "source",
    [
        kernel("out[0] = 0x" + "f" * 4000),
        kernel("out[0] = 1", "@cuda.jit(max_registers=0x" + "f" * 4000 + ")\ndef k(x, out):"),
        kernel("out[0] = 1", "@other(0x" + "f" * 4000 + ")\ndef k(x, out):"),
        kernel("out[0] = 1", "@cuda.jit(0x" + "f" * 4000 + ")\ndef k(x, out):"),
        "N = 0x" + "f" * 4000 + "\n" + kernel("out[0] = N"),
    ],
    ids=["body", "option", "foreign-decorator", "signature", "constant"],
)
def test_lift_number_too_long_to_print_is_refused(source):
    assert "too large" in str(refused(source))


@pytest.mark.parametrize("error", [ValueError, RecursionError, MemoryError, OverflowError])
def test_lift_error_of_python_inside_is_a_refusal(error, monkeypatch):
    def fail(*_):
        raise error("inside")

    monkeypatch.setattr("kernelbook.lift.lifter.audit", fail)
    refused(kernel("out[0] = 1"))


@pytest.mark.parametrize("letter", [r"\0", r"\ud800"])
def test_lift_cuda_source_that_cannot_be_passed_on_is_refused(letter):
    with pytest.raises(NotAKernel, match="no C\\+\\+ source can hold"):
        lift([f"k = 'int a; // {letter}'"], "k", "source")


# Messages


@pytest.mark.parametrize(
    "source",
    [
        kernel(f"out[0] = {'a' * 50_000}"),
        kernel(f"out[0] = x.{'a' * 50_000}"),
        kernel(f"out[0] = np{'.a' * 20_000}"),
        "@" + "a" * 50_000 + "\ndef k(x): pass",
        "k = " + "(" * 50_000,
        f"@cuda.jit({'a' * 50_000}=1)\ndef k(x): pass",
    ],
    ids=["name", "attribute", "path", "decorator", "brackets", "option"],
)
def test_lift_message_is_of_bounded_length(source):
    error = refused(source)
    assert len(str(error)) <= MAX_MESSAGE
    assert len(error.reason) <= MAX_MESSAGE


def test_kernel_refused_message_is_of_bounded_length():
    error = KernelRefused("k" * 999, "r" * 9999, line=10**6, cell=10**6, text="t" * 9999)
    assert len(str(error)) <= MAX_MESSAGE


# Machine code


def test_without_comments_keeps_instructions_strings_and_lines():
    ptx = (
        '.file 1 "a//b/*c"\n// ld.global.v4.f32\nadd.f32 %f1; // ld.global\n'
        '/* ld.global\n st.global */ .pragma "no\\"//unroll";\nret; /* open ld.global'
    )
    bare = without_comments(ptx)
    assert "ld.global" not in bare
    assert "st.global" not in bare
    assert bare.split("\n")[0] == '.file 1 "a//b/*c"'
    assert '.pragma "no\\"//unroll";' in bare
    assert bare.count("\n") == ptx.count("\n")


def test_compile_cuda_ptx_holds_no_comment_of_inline_assembler():
    pytest.importorskip("numba_cuda")
    from kernelbook import compilers

    source = (
        'extern "C" __global__ void f(float *x) {\n'
        '    asm volatile("// ld.global.v4.f32 %nctaid.x");\n'
        '    asm volatile("/* st.global.v4.f32 */");\n    x[0] = 1;\n}'
    )
    compiled = compilers.compile_cuda(source, "f")
    assert "v4" not in compiled.ptx
    assert "nctaid" not in compiled.ptx
    assert "st.global" in compiled.ptx
    assert compiled.registers > 0


@pytest.mark.parametrize("test", ["A is B", "A is not B", "out is x"])
def test_lift_identity_of_values_is_refused(test):
    """A branch that the compiler rules out unread, and that a simulator may take."""
    cells = [
        "from numba import cuda\nA = 1000",
        "B = 1000",
        f"@cuda.jit\ndef k(x, out):\n    if {test}:\n        out[0] = A + B\n",
    ]
    with pytest.raises(NotAKernel, match="by `is`"):
        lift(cells, "k", "kernel")


def test_lift_none_may_be_asked_for_by_identity():
    cells = ["from numba import cuda\n@cuda.jit\ndef k(x, out):\n    if x is not None:\n"
             "        out[0] = x[0]\n"]  # fmt: skip
    assert "is not None" in lift(cells, "k", "kernel").source


def test_lift_name_of_a_generated_import_cannot_be_taken():
    """What compiles and what runs would bind the name in another order."""
    cells = [
        "import numpy as np\nfrom numba import cuda\nZERO = np.int64(0)",
        "from numba.cuda import grid as _numpy_int64\n@cuda.jit\ndef k(x, out):\n"
        "    i = _numpy_int64(1)\n    out[i] = x[i] + ZERO\n",
    ]
    with pytest.raises(NotAKernel, match="imports two things"):
        lift(cells, "k", "kernel")


def test_compile_cuda_ptx_holds_the_asked_for_kernel_alone():
    pytest.importorskip("numba_cuda")
    from kernelbook import compilers

    source = (
        'extern "C" __global__ void f(float *x) { }\n'
        'extern "C" __global__ void decoy(const float4 *x, float4 *y) {\n'
        '    asm volatile("{ }");\n    y[blockIdx.x] = x[gridDim.x];\n}'
    )
    compiled = compilers.compile_cuda(source, "f")
    assert ".entry f(" in compiled.ptx
    for trace in ("decoy", "v4", "nctaid", "st.global"):
        assert trace not in compiled.ptx
    assert "v4" in compilers.compile_cuda(source, "decoy").ptx
