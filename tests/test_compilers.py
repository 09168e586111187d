"""Compiling for real with no GPU: what compiles, what is refused and how the learner is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernelbook import compilers
from kernelbook.compilers import KernelRefused, Worker
from kernelbook.compilers.client import WorkerDied, WorkerTimeout
from kernelbook.compilers.explain import explain, plain_type, split_types
from kernelbook.compilers.nvrtc import read_log
from kernelbook.compilers.ptxas import read_log as read_assembler_log
from kernelbook.compilers.ptxas import shared_bytes
from kernelbook.errors import CompileError, KernelbookError
from kernelbook.lift import NotAKernel, lift

pytest.importorskip("numba_cuda")

IMPORTS = "from numba import cuda, float32, int32\nimport numpy as np\nimport math\n"
TWO_ARRAYS = "float32[::1], float32[::1]"

BLOCK_SUM = """\
from numba import cuda, float32
THREADS = 128

@cuda.jit(device=True)
def add(a, b):
    return a + b

@cuda.jit
def block_sum(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] = add(s[t], s[t + step])
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]
"""

SCALE = """\
#include <cuda_fp16.h>
#include <cooperative_groups.h>
__shared__ float outside[16];
extern "C" __global__ void scale(const float *x, float *out, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x % 64] = x[i];
    cooperative_groups::this_thread_block().sync();
    if (i < n) out[i] = s[threadIdx.x % 64] * __half2float(__float2half(2.0f));
}
extern "C" __global__ void other(float *out) {
    outside[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[0] = outside[1];
}
"""


@pytest.fixture(scope="module")
def worker():
    with Worker() as one:
        yield one


def refused(worker, body, signature=TWO_ARRAYS, before=""):
    lines = "\n".join("    " + line for line in body.split("\n"))
    source = f"{IMPORTS}{before}\n@cuda.jit\ndef k(x, out):\n    i = cuda.grid(1)\n{lines}\n"
    with pytest.raises((KernelRefused, NotAKernel)) as raised:  # by the compiler, or before it
        worker.compile_kernel(source, "k", signature)
    return raised.value


# Numba


def test_compile_kernel_with_device_function_gives_ptx_and_resources(worker):
    compiled = worker.compile_kernel(BLOCK_SUM, "block_sum", TWO_ARRAYS)
    assert ".target sm_90" in compiled.ptx
    assert compiled.entry in compiled.ptx
    assert compiled.shared_bytes == 128 * 4
    assert 8 <= compiled.registers <= 64
    assert compiled.local_bytes == compiled.spill_bytes == 0


def test_compile_kernel_for_another_architecture_names_it_in_ptx(worker):
    compiled = worker.compile_kernel(BLOCK_SUM, "block_sum", TWO_ARRAYS, (8, 0))
    assert ".target sm_80" in compiled.ptx


@pytest.mark.parametrize(
    "decorator",
    [
        "@cuda.jit(cache=True)",
        "@cuda.jit('void(float32[:], float32[:])')",
        "@cuda.jit(debug=True, opt=False)",
        "@cuda.jit(lineinfo=True, fastmath=True)",
        "@cuda.jit(max_registers=32)",
    ],
)
def test_compile_kernel_decorator_options_compile(worker, decorator):
    source = f"{IMPORTS}{decorator}\ndef k(x, out):\n    out[0] = math.sqrt(x[0])\n"
    assert worker.compile_kernel(source, "k", TWO_ARRAYS).registers <= 32


def test_compile_kernel_grid_sync_links_device_runtime(worker):
    source = (
        f"{IMPORTS}@cuda.jit\ndef k(x, out):\n    i = cuda.grid(1)\n    out[i] = x[i]\n"
        "    cuda.cg.this_grid().sync()\n    x[i] = out[i + 1]\n"
    )
    assert worker.compile_kernel(source, "k", TWO_ARRAYS).registers > 0


def test_compile_kernel_local_array_counts_local_bytes(worker):
    source = (
        f"{IMPORTS}@cuda.jit\ndef k(x, out):\n    a = cuda.local.array(64, float32)\n"
        "    for j in range(64):\n        a[j] = x[j]\n    out[0] = a[int32(x[1])]\n"
    )
    assert worker.compile_kernel(source, "k", TWO_ARRAYS).local_bytes >= 64 * 4


def test_compile_kernel_whole_signature_with_void_is_accepted(worker):
    assert worker.compile_kernel(BLOCK_SUM, "block_sum", f"void({TWO_ARRAYS})").registers > 0


def test_compile_kernel_same_question_is_answered_from_memory(worker):
    first = worker.compile_kernel(BLOCK_SUM, "block_sum", TWO_ARRAYS)
    asked = worker._asked
    assert worker.compile_kernel(BLOCK_SUM, "block_sum", TWO_ARRAYS) == first
    assert worker._asked == asked


REFUSALS = {
    "dict": ("d = {}\nd[1] = 2", "uses a dict"),
    "list": ("a = [1.0, 2.0]\nout[i] = a[0]", "builds a list"),
    "list-append": ("a = []\na.append(i)", "builds a list"),
    "list-comprehension": ("a = [j for j in range(3)]\nout[i] = a[0]", "builds a list"),
    "set": ("a = {1, 2}", "builds a set"),
    "try": ("try:\n    out[i] = x[i]\nexcept ValueError:\n    out[i] = 0", "uses try/except"),
    "with": ("with x:\n    pass", "uses a with block"),
    "computed-shape": ("s = cuda.shared.array(T + 1, float32)\nout[i] = s[0]", "size is computed"),
    "size-at-run-time": ("s = cuda.local.array(x.size, float32)\nout[i] = s[0]", "size is comput"),
    "computed-shape-2d": (
        "s = cuda.shared.array((T, T + 1), float32)\nout[i] = s[0, 0]",
        "size is computed",
    ),
    "array-without-type": ("s = cuda.shared.array(16)", "without its type"),
    "unknown-attribute": ("out[i] = x.length", "reads .length, which no value in a kernel has"),
    "misspelt": ("cuda.atomic.ad(out, 0, x[i])", "did you mean cuda.atomic.add?"),
    "whole-array": ("out[i] = x", "give the value an index too"),
    "two-types": ("if i > 3:\n    a = x\nelse:\n    a = out[0]\nout[i] = a", "of float32"),
    "cannot-unify": (
        "if i > 3:\n    a = (1, 2)\nelse:\n    a = 1.0\nb = a",
        "'a' is a tuple of int, int on one path and float64 on another",
    ),
    "array-as-condition": ("if x > 1:\n    out[i] = 1", "test a single element"),
    "array-called": ("out[i] = x(i)", "as if it were a function"),
    "index-of-two-numbers": ("cuda.atomic.add(out, (i, i), 1)", "a tuple of 2 int64 where int64"),
    "print-array": ("print(x)", "prints a 1-dimensional array of float32"),
    "ufunc": ("out += x", "work on single elements"),
    "del": ("del i", "leave the del out"),
    "keyword": ("out[i] = math.sqrt(x=x[i])", "passes an argument by name"),
    "min-of-list": ("out[i] = min([1, 2])", "builds a list"),
    "bits-of-float": ("out[i] = x[i] & 1", "applies & to float32 and int"),
    "none": ("a = None\nout[i] = a", "stores None"),
    "before-value": ("out[i] = a\na = 3.0", "'a' before it has a value"),
    "percent-format": ("print('a %d' % i)", "with a string, which a kernel cannot"),
    "f-string": ("print(f'{i}')", "with a string, which a kernel cannot"),
    "return-value": ("return x[i]", "returns a value"),
    "too-many-indices": ("out[i] = x[i, 0]", "with 2 indices"),
    "float-index": ("out[i / 2] = 1", "divide by //"),
    "bool-vote": ("out[i] = cuda.syncthreads_or(x[i] > 0)", "write int32(...)"),
    "new-array": ("out = x + x", "work on single elements"),
    "slice": ("out[:] = x", "write a loop"),
    "matmul": ("out[i] = x @ x", "write the loop"),
    "call-arity": ("out[i] = math.sqrt(x[i], 2)", "wrong number of arguments"),
    "device-arity": ("out[i] = twice(x[i], 1)", r"it takes (a)"),
    "shuffle-arity": ("out[i] = cuda.shfl_down_sync(0xffffffff, x[i])", "without 'delta'"),
    "atomic-arity": ("cuda.atomic.add(out, x[i])", "atomics take"),
    "unpacking": ("i, j = cuda.grid(1)", "into several names"),
    "tuple-arithmetic": ("p = cuda.grid(2)\nout[p + 1] = 0", "applies + to a tuple of 2 int64"),
    "grid-of-variable": ("i = cuda.grid(x.size)", "plain 1, 2 or 3"),
    "recursion": ("out[i] = k(x, out)", "calls itself"),
    "len-of-number": ("out[i] = len(i)", "calls len with int64"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_compile_kernel_refusal_is_put_in_plain_words(worker, case):
    body, words = REFUSALS[case]
    before = "T = 16\n@cuda.jit(device=True)\ndef twice(a):\n    return a + a\n"
    error = refused(worker, body, before=before)
    assert words in error.reason
    assert error.line is not None
    if isinstance(error, KernelRefused):
        assert error.text in body
    assert f"line {error.line}: " in str(error)
    assert "Traceback" not in str(error)
    assert len(str(error)) < 400


def test_compile_kernel_error_line_is_the_learners(worker):
    error = refused(worker, "a = 1\nb = 2\nout[i] = x.w\nc = 3")
    assert (error.line, error.text) == (10, "out[i] = x.w")


def test_compile_kernel_error_in_another_cell_names_the_cell(worker):
    cells = [
        IMPORTS,
        "\n\n@cuda.jit(device=True)\ndef bad(a):\n    return a.w\n",
        "@cuda.jit\ndef k(x, out):\n    out[0] = bad(x[0])\n",
    ]
    words = r"k, in bad, line 5 of the cell that defines bad: reads \.w of float32"
    with pytest.raises(KernelRefused, match=words):
        worker.compile_kernel(lift(cells, "k"), "k", TWO_ARRAYS)


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("float32[::1]", r"takes 2 arguments \(x, out\), but is called with 1"),
        ("float33[:], float32[:]", "cannot be read"),
        ("float32[:], __import__('os').getpid()", "cannot be read"),
        ("lambda: 1, 2", "cannot be read"),
        ("[float32[:] for _ in (1,)][0], float32[:]", "more than types"),
        ("int32(float32[:], float32[:])", "returns int32"),
        ("float32[:,::1], float32[::1]", "stores a 1-dimensional array"),
    ],
)
def test_compile_kernel_wrong_signature_says_so(worker, signature, words):
    with pytest.raises(KernelRefused, match=words):
        worker.compile_kernel(f"{IMPORTS}@cuda.jit\ndef k(x, out):\n    out[0] = x[0]\n", "k",
                              signature)  # fmt: skip


def test_compile_kernel_too_much_shared_memory_gives_both_numbers(worker):
    body = "s = cuda.shared.array(100_000, float32)\ns[i] = x[i]\nout[i] = s[i + 1]"
    assert "400,000 bytes; a block has at most 49,152" in refused(worker, body).reason


def test_compile_kernel_runs_nothing_but_lifted_source(worker, tmp_path):
    trap = tmp_path / "ran"
    source = f"open({str(trap)!r}, 'w')\n" + BLOCK_SUM
    worker.compile_kernel(source, "block_sum", TWO_ARRAYS)
    assert not trap.exists()
    with pytest.raises(NotAKernel):
        worker.compile_kernel("block_sum = 3", "block_sum", TWO_ARRAYS)


def test_compile_kernel_works_where_the_simulator_has_taken_numba_cudas_place():
    code = f"""
        from kernelbook import simt
        simt.install()
        from kernelbook import compilers
        from numba import cuda
        assert "simt" in cuda.jit.__module__
        print(compilers.compile_kernel({BLOCK_SUM!r}, "block_sum", {TWO_ARRAYS!r}).registers)
    """
    assert int(_python(code)) > 0


# CUDA C++


def test_compile_cuda_with_headers_gives_ptx_and_resources(worker):
    compiled = worker.compile_cuda(SCALE, "scale")
    assert compiled.entry == "scale"
    assert compiled.shared_bytes == 64 * 4
    assert compiled.registers > 0
    assert worker.compile_cuda(SCALE).entry == "scale"
    assert worker.compile_cuda(SCALE, "other").shared_bytes == 16 * 4


def test_compile_cuda_error_gives_line_text_and_message(worker):
    with pytest.raises(KernelRefused) as raised:
        worker.compile_cuda(SCALE.replace("x[i];", "y[i];"), "scale")
    assert raised.value.line == 7
    assert 'identifier "y" is undefined' in raised.value.reason
    assert "s[threadIdx.x % 64] = y[i];" in str(raised.value)


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        (SCALE, "scales", 'it defines scale, other; declare it extern "C"'),
        ("__device__ int a;", None, "no kernel is defined"),
        ("__global__ void f() { }", "f", "no kernel is called f"),
        (SCALE.replace("[64]", "[64000]"), "scale", "256,000 bytes; a block has at most 49,152"),
        ('#include "missing.h"\n', None, "missing.h"),
    ],
)
def test_compile_cuda_refusal_says_why(worker, source, entry, words):
    with pytest.raises(KernelRefused) as raised:
        worker.compile_cuda(source, entry)
    assert words in raised.value.reason


def test_read_log_many_errors_keeps_three_and_counts_the_rest():
    log = "\n".join(f"kernel.cu({n}): error: bad {n}" for n in range(1, 6))
    refusal = read_log(log)
    assert refusal.line == 1
    assert refusal.reason == "bad 1; line 2: bad 2; line 3: bad 3; and 2 more"


def test_read_assembler_log_takes_the_asked_kernel():
    log = textwrap.dedent("""\
        ptxas info    : Compiling entry function 'a' for 'sm_90'
        ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
        ptxas info    : Used 13 registers, used 1 barriers
        ptxas info    : Compiling entry function 'b' for 'sm_90'
        ptxas         .     256 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads
        ptxas info    : Used 255 registers
        """)
    assert read_assembler_log(log, "b") == {
        "registers": 255,
        "local_bytes": 256,
        "spill_bytes": 24,
    }
    assert read_assembler_log(log, "c") == {}


def test_shared_bytes_counts_static_arrays_of_the_kernel_only():
    ptx = (
        ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 s_1[64];\n"
        ".shared .align 8 .f64 s_2[4];\n.visible .entry a(\n) { s_1; dynamic; s_22; }\n"
        ".visible .entry b(\n) {\n .shared .align 4 .u32 one;\n s_2; one; }"
    )
    assert (shared_bytes(ptx, "a"), shared_bytes(ptx, "b")) == (64, 36)


# The helper process


def test_worker_killed_between_compilations_is_restarted():
    with Worker() as one:
        first = one.compile_cuda(SCALE, "scale")
        os.kill(one._process.pid, signal.SIGKILL)
        again = one.compile_cuda(SCALE, "other")
        assert (first.entry, again.entry) == ("scale", "other")


def test_worker_that_always_dies_gives_a_clear_error():
    one = Worker(prefix=("sh", "-c", "exit 7", "--"))
    with pytest.raises(WorkerDied, match=r"status 7\. It was restarted once"):
        one.compile_cuda(SCALE)
    assert one._process is None


def test_worker_that_cannot_be_started_gives_a_clear_error():
    with pytest.raises(WorkerDied, match="cannot be started"):
        Worker(prefix=("/nonexistent/program",)).compile_cuda(SCALE)


def test_worker_without_compiler_says_what_is_missing():
    one = Worker(prefix=("sh", "-c", 'shift 5; echo \'{"id": 0, "broken": "no Numba"}\'', "--"))
    with pytest.raises(KernelbookError, match=r"no Numba.*doctor"):
        one.compile_cuda(SCALE)


def test_worker_that_never_answers_is_stopped_at_the_time_limit():
    one = Worker(
        prefix=("sh", "-c", 'echo \'{"id": 0, "ready": true}\'; exec sleep 60'),
        compile_seconds=0.3,
    )
    one.start()
    process = one._process
    with pytest.raises(WorkerTimeout, match=r"within 0\.3 s"):
        one.compile_cuda(SCALE)
    assert process.poll() == -signal.SIGKILL


def test_worker_prefix_stands_before_the_command():
    with Worker(prefix=("env", "A=1")) as one:
        assert one.compile_cuda(SCALE).registers > 0


def test_worker_ignores_numba_settings_and_files_of_the_learner(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / ".numba_config.yaml").write_text("enable_cudasim: 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    with Worker() as one:
        assert one.compile_kernel(BLOCK_SUM, "block_sum", TWO_ARRAYS).registers > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [".numba_config.yaml", "numba.py"]


def test_worker_is_not_reached_by_an_interrupt_of_the_notebook():
    with Worker() as one:
        assert os.getpgid(one._process.pid) != os.getpgrp()


def test_worker_noise_of_a_compiler_is_not_taken_for_an_answer():
    code = """
        import os
        from kernelbook.compilers import worker
        def noisy(request):
            print("noise")
            os.write(1, b"more noise\\n")
            return {"compiled": request["id"]}
        worker._answer = noisy
        worker.main()
    """
    lines = _python(code, given='{"id": 7}\n').splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": 0, "ready": True},
        {"id": 7, "compiled": 7},
    ]


def test_worker_after_fork_gives_the_child_its_own_process():
    code = f"""
        import os
        from kernelbook import compilers
        one = compilers.Worker()
        one.compile_cuda({SCALE!r}, "scale")
        mine = one._process.pid
        child = os.fork()
        if child == 0:
            ok = one.compile_cuda({SCALE!r}, "other").entry == "other"
            ok = ok and one._process.pid != mine
            one.close()
            os._exit(0 if ok else 3)
        _, status = os.waitpid(child, 0)
        assert one._process.pid == mine and one._process.poll() is None
        print(os.waitstatus_to_exitcode(status))
        one.close()
    """
    assert _python(code) == "0"


def test_worker_ends_with_the_interpreter():
    code = """
        from kernelbook import compilers
        compilers.warm_up()
        from kernelbook.compilers.client import _default
        print(_default._process.pid)
    """
    assert not _alive(int(_python(code)))


def test_worker_ends_when_its_parent_is_killed():
    code = """
        import os, signal
        from kernelbook import compilers
        from kernelbook.compilers.client import _default
        compilers.compile_cuda("__global__ void f() { }")
        print(_default._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    child = int(_python(code, status=-signal.SIGKILL))
    for _ in range(100):
        if not _alive(child):
            return
        time.sleep(0.05)
    pytest.fail(f"process {child} outlived its parent")


# From a live kernel to its source


def test_kernel_of_simulated_kernel_in_a_file_is_lifted(tmp_path):
    (tmp_path / "own.py").write_text(BLOCK_SUM)
    code = f"""
        import sys
        from kernelbook import compilers, simt
        simt.install()
        sys.path.insert(0, {str(tmp_path)!r})
        from own import block_sum
        source, name = compilers.kernel_of(block_sum)
        print(name, source.names)
    """
    assert _python(code) == "block_sum ('THREADS', 'add', 'block_sum')"


@pytest.mark.parametrize("magic", ["%time 1", "%%time"])
@pytest.mark.parametrize("device", ["simulator", "numba-cuda"])
def test_kernel_of_notebook_kernel_takes_constants_from_other_cells(device, magic):
    first = "from kernelbook import simt; simt.install()" if device == "simulator" else "0"
    head, _, tail = BLOCK_SUM.partition("\n\n")
    code = f"""
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        for cell in ({first!r}, {head!r}, {magic!r} + "\\n" + {tail!r}, "w = 3\\ndel w"):
            shell.run_cell(cell, store_history=True).raise_error()
        from kernelbook import compilers
        source, name = compilers.kernel_of(shell.user_ns["block_sum"])
        print("RESULT", name, *source.names, source.lines[max(source.lines)])
    """
    out = _python(code)
    assert "RESULT block_sum THREADS add block_sum (2, 20)" in out


def test_kernel_of_something_else_says_what_was_found():
    with pytest.raises(CompileError, match="found a int"):
        compilers.kernel_of(3)


def test_kernel_of_function_without_source_says_so():
    space: dict = {}
    exec("def f(x):\n    pass", space)
    with pytest.raises(CompileError, match="its source is not known"):
        compilers.kernel_of(space["f"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k = jit(lambda x, out: None)", "The kernel is a lambda; write it as a def under @cuda.j"),
        (
            "def make():\n    @jit\n    def k(x, out):\n        pass\n    return k\nk = make()",
            "The kernel is k, defined inside another function; write it as a def under @cuda.jit",
        ),
    ],
    ids=["lambda", "factory"],
)
def test_kernel_of_function_that_no_cell_defines_at_the_top_asks_for_a_def(text, words):
    space: dict = {"jit": lambda function: function}
    exec(text, space)
    with pytest.raises(CompileError, match=words):
        compilers.kernel_of(space["k"])


def test_kernel_of_function_passed_to_jit_asks_for_a_def(tmp_path):
    (tmp_path / "own.py").write_text(
        "from numba import cuda\n\ndef body(x, out):\n    out[0] = x[0]\n\nk = cuda.jit(body)\n"
    )
    code = f"""
        import sys
        from kernelbook import compilers, simt
        simt.install()
        sys.path.insert(0, {str(tmp_path)!r})
        from own import k
        try:
            compilers.kernel_of(k)
        except Exception as error:
            print(error)
    """
    assert _python(code) == (
        "body, line 3: is a plain Python function; write it as a def under @cuda.jit at the top "
        "level of a cell."
    )


# Words


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("unsupported opcode (MATCH_SEQUENCE) found", "matches a pattern, which a kernel cannot"),
        ("unsupported opcode (WEIRD_THING) found", "uses a statement or expression that a kernel"),
        (
            "Type of variable '$48binary_subscr.7' cannot be determined, operation: unknown "
            "operation, location: unknown location (0:0)",
            "holds a value whose type the compiler cannot find",
        ),
        ("Something odd about $12call.4 at <kernel> (0:0)", "the compiler says: Something odd"),
        (
            "Invalid use of getiter with parameters (Literal[int](5))",
            "loops over int, which cannot",
        ),
        ("syncthreads() takes 1 positional argument but 2 were given", "with too many arguments"),
        ("'Float' object has no attribute 'dtype'", "atomics take (array, index, value)"),
        ("ERROR_INVALID_IR (6)", "a float where an integer is wanted"),
        ("Casting array(float32, 1d, C) to float32 directly is unsupported", "give the array an"),
        ("Cannot resolve setattr: (array(float32, 1d, C)).foo = int64", "sets .foo of a 1-dimens"),
    ],
)
def test_explain_names_no_bytecode_and_no_inner_variable(message, words):
    said = explain(Exception(message))
    assert words in said
    assert not re.search(r"\$|_[A-Z]|\(\d+:\d+\)|<kernel>|unknown location|getiter", said)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("array(float32, 2d, C)", "a 2-dimensional array of float32"),
        ("Literal[int](3)", "int"),
        ("UniTuple(int64 x 2)", "a tuple of 2 int64"),
        ("Tuple(int64, float32)", "a tuple of int64, float32"),
        ("class(float32)", "the type float32"),
        ("none", "None"),
        ("unicode_type", "a string"),
        ("Function(<class 'float'>)", "the type float"),
        ("Function(<built-in function len>)", "the function len"),
        ("list(float32)<iv=None>", "a list"),
    ],
)
def test_plain_type_says_it_in_words(name, words):
    assert plain_type(name) == words


def test_split_types_splits_outside_brackets_only():
    text = "array(float32, 1d, C), Tuple(int64, Literal[int](0)), DictType[a,b]<iv={}>"
    assert split_types(text) == [
        "array(float32, 1d, C)",
        "Tuple(int64, Literal[int](0))",
        "DictType[a,b]<iv={}>",
    ]


def _python(code: str, status: int = 0, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.strip()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
