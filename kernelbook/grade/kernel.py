"""A Jupyter kernel that may be hostile, behind a border, judged by its shell replies only.

The two sockets are made, bound and listening on this side, and handed to the kernel as open file
descriptors (libzmq's ZMQ_USE_FD). So no folder is shared: nothing that the kernel can write lies on
this machine's disks, and its sockets cannot be replaced by others.

What comes back is untrusted. Output (IOPub and stderr) is counted and dropped unread. A reply
counts if it answers the request in hand; what it holds is bounded in size before it is parsed, and
remains a claim. A kernel that is late, silent, dead, too loud or too large is killed with all its
processes; starting another one is the caller's choice.

Source: message frames after jupyter_client 8 ``Session``; liveness poll, concurrent drain and byte
cap after the trial in which 17 of 17 same-kernel cheats failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil
import zmq
from jupyter_client.session import Session

from kernelbook.errors import SandboxError
from kernelbook.grade.sandbox import Sandbox

Status = Literal["ok", "error", "timeout", "died", "output limit", "out of memory"]

POLL_MS = 50
HEADER_BYTES = 64 << 10
TEXT_CHARS = 4000  # kept of each untrusted text
STRUCTURE_MARKS = 200_000  # brackets and commas in a reply: a bound on what json.loads can inflate
DELIMITER = b"<IDS|MSG>"

# Runs inside. Imports nothing of ours, since the grader is not to be seen there.
_LAUNCH = """\
import os, sys, zmq
from ipykernel.kernelapp import IPKernelApp

names = ("shell", "iopub")
sockets = dict(zip(names, map(int, sys.argv[1:3])))
for fd in sockets.values():
    os.set_inheritable(fd, False)

class App(IPKernelApp):
    def init_connection_file(self):
        self.transport, self.ip = "ipc", os.environ["HOME"] + "/kernel"
        self.session.key = sys.argv[3].encode()
    def write_connection_file(self, **kwargs):
        pass
    def init_heartbeat(self):
        pass
    def _try_bind_socket(self, s, port):
        name = {zmq.XPUB: "iopub"}.get(s.type, "shell")
        fd = sockets.pop(name, None)
        if fd is None:
            s.bind(f"inproc://unused-{id(s)}")
        else:
            s.setsockopt(zmq.USE_FD, fd)
            s.bind(f"ipc://{self.ip}-{name}")
        return 0

App.launch_instance(argv=["--HistoryManager.enabled=False", "--colors=NoColor"])
"""


@dataclass(frozen=True)
class Limits:
    """What one kernel may use. Sizes in bytes."""

    memory_bytes: int = 4 << 30  # resident, all its processes together
    output_bytes: int = 8 << 20  # printed by one execute
    message_bytes: int = 256 << 20  # one reply: answers travel in it
    own_bytes: int = 768 << 20  # by which this process may grow while it waits
    processes: int = 128
    start_seconds: float = 60.0


@dataclass(frozen=True)
class Reply:
    """How one execute ended. All texts and `expressions` are the kernel's claims: untrusted.

    status: "ok" and "error" are the kernel's word; the others were seen from this side, and the
        kernel is gone.
    expressions: name → the reply to that user expression, {} unless status is "ok".
    reason: why the kernel is gone, in our words.
    """

    status: Status
    ename: str = ""
    evalue: str = ""
    traceback: tuple[str, ...] = ()
    expressions: Mapping[str, Any] = field(default_factory=dict)
    output_bytes: int = 0
    seconds: float = 0.0
    reason: str = ""


class SandboxedKernel:
    """One ipykernel process behind `sandbox`. ``start`` it, ``execute`` on it, ``stop`` it.

    Once a reply's status is neither "ok" nor "error" the kernel has been stopped. Also a context
    manager. Cost: 0.2 s to start, 3 ms a trivial execute (2 vCPU, no GPU, 2026-11-30).
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        device: str = "sim",
        limits: Limits | None = None,
        readable: tuple[Path, ...] = (),
    ) -> None:
        self.sandbox = sandbox
        self.device = device
        self.limits = limits or Limits()
        self.readable = readable
        self._session = Session()
        self._process: subprocess.Popen[bytes] | None = None
        self._first: int | None = None  # pidfd of the namespace's first process
        self._folder: Path | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._stderr = b""  # the end of what the process wrote there itself
        self._output = 0  # bytes printed by the execute in hand
        self._oom_kills = 0

    def __enter__(self) -> SandboxedKernel:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the kernel and wait until it answers.

        Raises: SandboxError when it does not within ``limits.start_seconds``.
        """
        if self._process is not None:
            raise RuntimeError("this kernel was started before; make a new one")
        # Unix socket paths are at most 107 characters, so not below a long TMPDIR.
        self._folder = Path(tempfile.mkdtemp(prefix="kernelbook-", dir="/tmp"))
        try:
            self._spawn(self._folder)
            self._connect(self._folder)
            reply = self.execute("", timeout=self.limits.start_seconds, silent=True)
        except BaseException:
            self.stop()
            raise
        if reply.status != "ok":
            self.stop()
            text = self._stderr.decode(errors="replace").strip().splitlines()
            last = f" Its last line: {text[-1][:300]}" if text else ""
            raise SandboxError(
                f"kernel: did not start ({reply.status}: {reply.reason or reply.evalue}) within "
                f"{self.limits.start_seconds:g} s.{last} Run `kernelbook doctor`."
            )

    def execute(
        self,
        source: str,
        *,
        timeout: float,
        user_expressions: Mapping[str, str] | None = None,
        silent: bool = False,
    ) -> Reply:
        """Run `source` in the kernel and wait for its reply, at most `timeout` seconds.

        Memory used here: one reply, at most ``limits.message_bytes``; output is never kept.
        Raises: RuntimeError when the kernel was not started, or was stopped.
        """
        if self._context is None:
            raise RuntimeError("the kernel is not running: start it, or make a new one")
        content = {
            "code": source,
            "silent": silent,
            "store_history": False,
            "user_expressions": dict(user_expressions or {}),
            "allow_stdin": False,
            "stop_on_error": False,
        }
        began = time.monotonic()
        message = self._session.msg("execute_request", content)
        if self.alive:
            with contextlib.suppress(zmq.Again):  # a stuck kernel takes no more: it times out
                self._session.send(self._shell, message, track=False)
        reply = self._await(str(message["header"]["msg_id"]), began + timeout)
        reply = replace(reply, seconds=time.monotonic() - began)
        if reply.status not in ("ok", "error"):
            self.stop()
        return reply

    def stop(self) -> None:
        """Kill the kernel with all its processes, and remove what it left. May be repeated."""
        process, first = self._process, self._first
        if process is not None:
            if first is not None:
                # The first process of a pid namespace takes all others with it. It is killed by
                # name, not by the death of its parent: a process inside can undo the latter.
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(first, signal.SIGKILL)
                select.select([first], [], [], 5)
                os.close(first)
                self._first = None
            else:
                _kill_tree(process.pid)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self, folder: Path) -> None:
        scratch = folder / "home"
        scratch.mkdir()
        listening = [_listen(folder / name) for name in ("shell", "iopub")]
        info, info_inside = os.pipe()
        fds = [sock.fileno() for sock in listening]
        bordered = self.sandbox.bwrap is not None
        argv = self.sandbox.argv(
            [sys.executable, "-c", _LAUNCH, *map(str, fds), self._session.key.decode()],
            scratch,
            readable=self.readable,
            device=self.device,
            info_fd=info_inside if bordered else None,
        )
        self._oom_kills = _oom_kills()
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(*fds, info_inside) if bordered else fds,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"kernel: cannot run {argv[0]}: {error.strerror}") from error
        finally:
            os.close(info_inside)
            for sock in listening:
                sock.close()
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        with os.fdopen(info, "rb") as told:
            text = told.read() if bordered else b""
        if text:
            with contextlib.suppress(ProcessLookupError):
                self._first = os.pidfd_open(json.loads(text)["child-pid"])

    def _connect(self, folder: Path) -> None:
        self._context = zmq.Context()
        self._shell = self._context.socket(zmq.DEALER)
        self._shell.maxmsgsize = self.limits.message_bytes
        self._shell.rcvhwm = 4
        self._iopub = self._context.socket(zmq.SUB)
        self._iopub.maxmsgsize = 8 * self.limits.output_bytes
        self._iopub.rcvhwm = 64
        self._iopub.subscribe(b"")
        self._lost = self._iopub.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        for name, sock in (("shell", self._shell), ("iopub", self._iopub)):
            sock.linger = 0
            sock.sndtimeo = 1000
            sock.reconnect_ivl = -1
            sock.connect(f"ipc://{folder / name}")

    def _await(self, request: str, deadline: float) -> Reply:
        """Wait for the reply to `request`; drain output, watch the clock, life, output and memory.

        A reply that is there wins over a death. An output above libzmq's size limit cuts its
        channel, unread: then the time allowed ends the wait, and the reply says why.
        """
        assert self._process is not None
        assert self._process.stderr is not None
        poller = zmq.Poller()
        for readable in (self._shell, self._iopub, self._process.stderr.fileno()):
            poller.register(readable, zmq.POLLIN)
        self._output = 0
        self._own_bytes = _resident_bytes(os.getpid())
        watched = 0.0
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            poller.poll(max(0, min(POLL_MS, left_ms)))
            self._drain()
            try:
                reply = self._receive(request)
            except _TooLarge as error:
                return self._gone("output limit", str(error))
            if reply is not None:
                return reply
            if self._output > self.limits.output_bytes:
                return self._gone(
                    "output limit", f"more than {self.limits.output_bytes >> 10} KiB printed"
                )
            now = time.monotonic()
            if now - watched >= POLL_MS / 1000:
                watched = now
                if not self.alive:
                    reply = self._receive(request)
                    return reply or self._death()
                excess = self._excess()
                if excess is not None:
                    return excess
            if now >= deadline:
                if self._lost.poll(0):
                    return self._gone("output limit", "one output was too large to receive")
                return self._gone("timeout", "no reply in the time allowed")

    def _drain(self) -> None:
        """Count and drop what was printed; at most a few milliseconds a turn."""
        for _ in range(1000):
            if not self._iopub.poll(0):
                break
            self._output += sum(map(len, self._iopub.recv_multipart()))
            if self._output > self.limits.output_bytes:
                break
        assert self._process is not None
        assert self._process.stderr is not None
        with contextlib.suppress(BlockingIOError, OSError):
            chunk = os.read(self._process.stderr.fileno(), 1 << 16)
            self._output += len(chunk)
            self._stderr = (self._stderr + chunk)[-TEXT_CHARS:]

    def _receive(self, request: str) -> Reply | None:
        """The reply to `request`, when it is there. What answers another request is dropped."""
        while self._shell.poll(0):
            frames = self._shell.recv_multipart()
            content = _content_for(request, frames)
            if content is not None:
                return replace(_reply(content), output_bytes=self._output)
        return None

    def _gone(self, status: Status, reason: str) -> Reply:
        return Reply(status, reason=reason, output_bytes=self._output)

    def _death(self) -> Reply:
        assert self._process is not None
        code = self._process.returncode
        if code in (-signal.SIGKILL, 128 + signal.SIGKILL) and _oom_kills() > self._oom_kills:
            return self._gone("out of memory", "the system ran out of memory and killed it")
        number = -code if code < 0 else code - 128
        with contextlib.suppress(ValueError):
            return self._gone("died", f"ended by {signal.Signals(number).name}")
        return self._gone("died", f"left with exit code {code}")

    def _excess(self) -> Reply | None:
        assert self._process is not None
        # libzmq bounds the parts of a message, not their number, and holds them all until the last.
        if _resident_bytes(os.getpid()) - self._own_bytes > self.limits.own_bytes:
            return self._gone("output limit", "a message was too large to receive")
        pids = list(_tree(self._process.pid))
        if len(pids) > self.limits.processes:
            return self._gone("died", f"killed: more than {self.limits.processes} processes")
        if sum(map(_resident_bytes, pids)) > self.limits.memory_bytes:
            most = f"{self.limits.memory_bytes >> 20} MiB"
            return self._gone("out of memory", f"more than {most} resident")
        return None


class _TooLarge(Exception):
    """A reply that would cost too much to parse."""


def _listen(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen(8)
    return sock


def _content_for(request: str, frames: list[bytes]) -> dict[str, Any] | None:
    """The content of an execute_reply to `request`, or None for anything else."""
    try:
        _, header, parent, _, content = frames[frames.index(DELIMITER) + 1 :][:5]
    except ValueError:
        return None
    if len(header) > HEADER_BYTES or len(parent) > HEADER_BYTES:
        return None
    heads = [_parse(header), _parse(parent)]
    if not all(isinstance(head, dict) for head in heads):
        return None
    if heads[0].get("msg_type") != "execute_reply" or heads[1].get("msg_id") != request:
        return None
    if sum(content.count(mark) for mark in (b"[", b"{", b",")) > STRUCTURE_MARKS:
        raise _TooLarge("the reply has too many parts")
    parsed = _parse(content)
    return parsed if isinstance(parsed, dict) else {}


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _reply(content: Mapping[str, Any]) -> Reply:
    if content.get("status") == "ok":
        expressions = content.get("user_expressions")
        return Reply("ok", expressions=expressions if isinstance(expressions, dict) else {})
    lines = content.get("traceback")
    lines = lines if isinstance(lines, list) else []
    return Reply(
        "error",
        ename=str(content.get("ename", ""))[:200],
        evalue=str(content.get("evalue", ""))[:TEXT_CHARS],
        traceback=tuple(str(line)[:TEXT_CHARS] for line in lines[-50:]),
    )


def _tree(pid: int) -> Iterator[int]:
    """`pid` and its descendants, from /proc: psutil's walk would read every process of the host."""
    waiting = [pid]
    while waiting:
        pid = waiting.pop()
        yield pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += map(int, children.read_text().split())


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _kill_tree(pid: int) -> None:
    """Without a namespace: the process group, and the descendants still attached to it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _oom_kills() -> int:
    """How often the system has killed for want of memory since boot; 0 when it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
