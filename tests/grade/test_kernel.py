"""A hostile kernel: what it may cost, and what is believed of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kernelbook.errors import SandboxError
from kernelbook.grade.kernel import Limits, SandboxedKernel
from kernelbook.grade.sandbox import Sandbox

MIB = 1 << 20


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox.detect()


@pytest.fixture
def kernel(sandbox: Sandbox) -> Iterator[SandboxedKernel]:
    with SandboxedKernel(sandbox, limits=Limits(memory_bytes=400 * MIB)) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def shared(sandbox: Sandbox) -> Iterator[SandboxedKernel]:
    """For tests that leave the kernel as they found it."""
    with SandboxedKernel(sandbox) as kernel:
        yield kernel


def test_execute_returns_expressions(shared: SandboxedKernel) -> None:
    reply = shared.execute("x = 20", timeout=10, user_expressions={"answers": "x + 1"})
    assert reply.status == "ok"
    assert reply.expressions["answers"]["data"]["text/plain"] == "21"


def test_execute_raising_cell_is_an_error(shared: SandboxedKernel) -> None:
    reply = shared.execute("1 / 0", timeout=10)
    assert (reply.status, reply.ename) == ("error", "ZeroDivisionError")
    assert "line 1" in "".join(reply.traceback)


def test_execute_error_text_is_bounded(shared: SandboxedKernel) -> None:
    reply = shared.execute("raise ValueError('x' * 10**6)", timeout=10)
    assert len(reply.evalue) <= 4000
    assert all(len(line) <= 4000 for line in reply.traceback)


def test_execute_input_is_refused_at_once(shared: SandboxedKernel) -> None:
    reply = shared.execute("input()", timeout=10)
    assert (reply.status, reply.ename) == ("error", "StdinNotImplementedError")


def test_execute_forged_output_and_idle_are_not_a_reply(shared: SandboxedKernel) -> None:
    reply = shared.execute(
        """
kernel = get_ipython().kernel
for kind, content in [
    ("error", {"ename": "Forged", "evalue": "", "traceback": []}),
    ("execute_reply", {"status": "ok", "user_expressions": {"answers": "forged"}}),
    ("status", {"execution_state": "idle"}),
]:
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent("shell"))
import time; time.sleep(0.3)
value = 7
""",
        timeout=10,
        user_expressions={"answers": "value"},
    )
    assert reply.status == "ok"
    assert reply.expressions["answers"]["data"]["text/plain"] == "7"


@pytest.mark.parametrize(
    ("parent", "believed"),
    [("{'header': {'msg_id': 'earlier'}}", "7"), ("k.get_parent('shell')", "forged")],
    ids=["another request", "this request"],
)
def test_execute_reply_counts_only_for_its_own_request(
    kernel: SandboxedKernel, parent: str, believed: str
) -> None:
    """A forged reply to the request in hand is believed: it is a claim, and judged as one."""
    reply = kernel.execute(
        f"""
import threading
k, done = get_ipython().kernel, threading.Event()
parent, ident = {parent}, k._parent_ident["shell"]
answers = {{"answers": {{"status": "ok", "data": {{"text/plain": "forged"}}}}}}
def forge():
    k.session.send(k.shell_stream, "execute_reply",
        {{"status": "ok", "user_expressions": answers}}, parent=parent, ident=ident)
    done.set()
k.shell_channel_thread.io_loop.add_callback(forge)
done.wait(5)
value = 7
""",
        timeout=10,
        user_expressions={"answers": "value"},
    )
    assert reply.status == "ok"
    assert reply.expressions["answers"]["data"]["text/plain"] == believed


def test_execute_traceback_display_replaced_is_still_an_error(kernel: SandboxedKernel) -> None:
    kernel.execute("get_ipython().showtraceback = lambda *a, **k: None", timeout=10)
    assert kernel.execute("raise ValueError('wrong')", timeout=10).status == "error"


def test_execute_endless_loop_times_out_and_is_gone(kernel: SandboxedKernel) -> None:
    reply = kernel.execute(
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        timeout=0.5,
    )
    assert reply.status == "timeout"
    assert not kernel.alive


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        (
            "import os, time\nwhile True:\n    time.sleep(0.002); os.fork() or time.sleep(99)",
            "killed: more than 128 processes",
        ),
    ],
    ids=["exit", "kill", "segfault", "fork bomb"],
)
def test_execute_kernel_that_ends_is_seen_at_once(
    sandbox: Sandbox, source: str, reason: str
) -> None:
    with SandboxedKernel(sandbox, limits=Limits(memory_bytes=64 << 30)) as kernel:
        reply = kernel.execute(source, timeout=30)
    assert reply.status == "died"
    assert reason in reply.reason
    assert reply.seconds < 15


@pytest.mark.parametrize(
    "source",
    ["while True: print('x' * 1000)", "import os\nwhile True: os.write(2, b'x' * 1000)"],
    ids=["print", "stderr"],
)
def test_execute_endless_output_is_cut_with_bounded_memory(
    kernel: SandboxedKernel, source: str
) -> None:
    before = psutil.Process().memory_info().rss
    reply = kernel.execute(source, timeout=30)
    assert reply.status == "output limit"
    assert psutil.Process().memory_info().rss - before < 300 * MIB


def test_execute_one_enormous_output_is_never_received(sandbox: Sandbox) -> None:
    limits = Limits(output_bytes=MIB)
    with SandboxedKernel(sandbox, limits=limits) as kernel:
        reply = kernel.execute("print('x' * 10**8)\nwhile True: pass", timeout=2)
    assert reply.status == "output limit"


def test_execute_reply_with_enormous_structure_is_not_parsed(kernel: SandboxedKernel) -> None:
    before = psutil.Process().memory_info().rss
    reply = kernel.execute(
        "class Many:\n    def _repr_mimebundle_(self, **k): return {'a/b': [[]] * 10**6}",
        timeout=30,
        user_expressions={"answers": "Many()"},
    )
    assert reply.status == "output limit"
    assert psutil.Process().memory_info().rss - before < 100 * MIB


@pytest.mark.parametrize(
    "source",
    [
        "x = bytearray(600 << 20)\nwhile True: pass",
        "import os\nfor _ in range(4):\n    if not os.fork():\n        x = bytearray(150 << 20)\n"
        "        while True: pass\nwhile True: pass",
    ],
    ids=["one process", "children"],
)
def test_execute_memory_balloon_is_out_of_memory(kernel: SandboxedKernel, source: str) -> None:
    reply = kernel.execute(source, timeout=30)
    assert reply.status == "out of memory"
    assert "400 MiB" in reply.reason


def test_execute_sockets_closed_by_the_learner_does_not_hang(kernel: SandboxedKernel) -> None:
    reply = kernel.execute(
        "import os\nfor fd in range(3, 200):\n    try: os.close(fd)\n    except OSError: pass\n"
        "while True: pass",
        timeout=2,
    )
    assert reply.status in ("timeout", "died", "output limit")
    assert reply.seconds < 10


def test_execute_on_a_kernel_that_died_since_says_died(kernel: SandboxedKernel) -> None:
    kernel.execute("import os, threading; threading.Timer(0.2, os._exit, (5,)).start()", timeout=10)
    end = time.monotonic() + 10
    while kernel.alive and time.monotonic() < end:
        time.sleep(0.02)
    assert kernel.execute("1", timeout=10).status == "died"


def test_stop_kills_detached_children(sandbox: Sandbox) -> None:
    marker = "19731.25"  # seconds to sleep: how the child is recognised
    with SandboxedKernel(sandbox) as kernel:
        reply = kernel.execute(
            "import subprocess\n"
            f"subprocess.Popen(['setsid', 'sleep', '{marker}'], start_new_session=True)",
            timeout=10,
        )
        assert reply.status == "ok"
        assert _sleeping(marker)
    assert not _sleeping(marker)


def test_stop_kills_the_namespace_before_its_parent(sandbox: Sandbox) -> None:
    """A process inside can undo the death signal that its parent's end would send it."""
    kernel = SandboxedKernel(sandbox)
    kernel.start()
    process = kernel._process
    assert process is not None
    inside = psutil.Process(process.pid).children(recursive=True)
    still_there = []
    real = process.kill

    def kill() -> None:
        still_there.extend(p for p in inside if p.is_running() and p.status() != "zombie")
        real()

    process.kill = kill  # type: ignore[method-assign]
    kernel.stop()
    assert len(inside) >= 2
    assert still_there == []


def test_stop_removes_the_sockets_and_leaves_no_process(sandbox: Sandbox) -> None:
    kernel = SandboxedKernel(sandbox)
    kernel.start()
    folder, process = kernel._folder, kernel._process
    assert folder is not None
    assert process is not None
    assert folder.exists()
    kernel.stop()
    kernel.stop()
    assert not folder.exists()
    assert not psutil.pid_exists(process.pid)


def test_start_nothing_of_the_sockets_is_reachable_inside(shared: SandboxedKernel) -> None:
    folder = str(shared._folder)
    reply = shared.execute(
        f"import os; found = [f for f in os.listdir({folder!r}) if f != 'home']",
        timeout=10,
        user_expressions={"found": "found"},
    )
    assert reply.expressions["found"]["data"]["text/plain"] == "[]"


def test_start_kernel_that_cannot_run_is_a_sandbox_error(tmp_path: Path, sandbox: Sandbox) -> None:
    broken = Sandbox("/bin/false", ("user namespace",))
    with pytest.raises(SandboxError, match="did not start"):
        SandboxedKernel(broken).start()


def test_kernel_without_sandbox_runs_and_is_killed() -> None:
    with SandboxedKernel(Sandbox.none()) as kernel:
        assert kernel.execute("x = 1", timeout=10).status == "ok"
        assert kernel.execute("while True: pass", timeout=0.3).status == "timeout"
        assert not kernel.alive


def _sleeping(seconds: str) -> bool:
    return any(
        process.info["cmdline"] and process.info["cmdline"][-1] == seconds
        for process in psutil.process_iter(["cmdline"])
    )
