"""The languages of the labs: does a small kernel compile, run and give the right numbers?"""

from __future__ import annotations

from collections.abc import Callable

from kernelbook import device
from kernelbook.compilers import Compiled, Worker
from kernelbook.doctor.asking import Answer, ask, first_line, is_missing, version_of, what
from kernelbook.doctor.report import GPU_KERNEL, SIMULATOR, Finding
from kernelbook.doctor.versions import judge_packages, judge_ptx, parse
from kernelbook.errors import KernelbookError

NUMBA_KERNEL = """\
from numba import cuda, float32

@cuda.jit(device=True)
def twice(a):
    return a + a

@cuda.jit
def known(x, out):
    s = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    if i < x.size:
        s[cuda.threadIdx.x] = twice(x[i])
    cuda.syncthreads()
    out[i] = s[63 - cuda.threadIdx.x]
"""
CUDA_KERNEL = """\
#include <cuda_fp16.h>
extern "C" __global__ void known(float *x) { x[threadIdx.x] *= __half2float(__float2half(2.0f)); }
"""


def packages() -> list[Finding]:
    """Whether NumPy, Numba and numba-cuda go together, by their version numbers alone."""
    return [judge_packages(*map(version_of, ("numpy", "numba", "numba-cuda")))]


def real_compilers() -> list[Finding]:
    """A Numba kernel and a CUDA C++ kernel compiled for sm_90, and the PTX that comes of it."""
    driver_cuda = device.probe().driver_cuda
    found: list[Finding] = []
    with Worker() as worker:
        trials: tuple[tuple[str, str, str, Callable[[], Compiled]], ...] = (
            ("Numba", "Numba to sm_90", 'python -m pip install "numba-cuda[cu13]>=0.30,<0.31"',
             lambda: worker.compile_kernel(NUMBA_KERNEL, "known", "float32[::1], float32[::1]")),
            ("NVRTC", "CUDA C++ to sm_90", 'python -m pip install "cuda-toolkit[nvrtc]==13.0.*"',
             lambda: worker.compile_cuda(CUDA_KERNEL, "known")),
        )  # fmt: skip
        for compiler, name, fix, trial in trials:
            try:
                compiled = trial()
            except KernelbookError as error:
                problem = f"{first_line(str(error))} Kernels cannot be compiled for real."
                found.append(Finding(name, "fail", "a known kernel", problem, fix))
                continue
            took = f"a known kernel in {compiled.seconds:.2f} s, {compiled.registers} registers"
            found.append(Finding(name, "ok", took))
            version = next(s.split()[1] for s in compiled.ptx.splitlines() if s[:8] == ".version")
            found.append(judge_ptx(compiler, parse(version), driver_cuda))
    return found


def simulator() -> list[Finding]:
    """The simulator's own check: a block sum with a barrier."""
    answer = ask("simulator")
    if answer.get("right"):
        return [Finding(SIMULATOR, "ok", "a block sum with a barrier gives the right numbers")]
    return [
        Finding(
            SIMULATOR, "fail", "a block sum with a barrier",
            f"It does not run: {what(answer)}",
            "python -m pip install --force-reinstall --no-deps greenlet numpy",
        )
    ]  # fmt: skip


def gpu_kernel() -> list[Finding]:
    """The same block sum on the GPU, where there is one."""
    if not device.gpu_count():
        return []
    answer = ask("gpu")
    if answer.get("right"):
        return [Finding(GPU_KERNEL, "ok", "a block sum by Numba gives the right numbers")]
    return [
        Finding(
            GPU_KERNEL, "fail", "a block sum by Numba", f"It does not run: {what(answer)}",
            "see the findings on PTX and Numba above; KERNELBOOK_DEVICE=sim uses the simulator",
        )
    ]  # fmt: skip


def cupy() -> list[Finding]:
    """CuPy, with a kernel where there is a GPU."""
    answer = ask("cupy")
    install = "python -m pip install cupy-cuda13x"
    if is_missing(answer, "cupy"):
        problem = "CuPy is not installed; labs in CUDA C++ then cannot run on a GPU."
        return [Finding("CuPy", "absent", "not installed", problem, install)]
    if answer.get("devices") == 0 and not device.gpu_count():
        return [Finding("CuPy", "ok", f"{answer['version']}; no GPU for it to use")]
    if answer.get("right"):
        return [Finding("CuPy", "ok", f"{answer['version']}; a raw kernel gives the right numbers")]
    why = answer.get("why") or what(answer)
    found = answer.get("version", version_of("cupy-cuda13x") or "installed")
    return [Finding("CuPy", "warn", found, f"CuPy cannot use the GPU: {why}", install)]


def torch() -> list[Finding]:
    """PyTorch, and whether it sees the GPU that the driver lists."""
    answer = ask("torch")
    install = "python -m pip install torch"
    if is_missing(answer, "torch"):
        problem = "PyTorch is not installed; Triton labs need it."
        return [Finding("PyTorch", "absent", "not installed", problem, install)]
    if "error" in answer:
        return [Finding("PyTorch", "warn", "installed", f"Fails: {what(answer)}", install)]
    if device.gpu_count() and not answer["device"]:
        return [
            Finding(
                "PyTorch", "warn", answer["version"],
                "This build of PyTorch does not use the GPU that the driver lists.",
                "python -m pip install --force-reinstall torch",
            )
        ]  # fmt: skip
    where = f"CUDA {answer['cuda']}, {answer['device']}" if answer["device"] else "CPU only"
    return [Finding("PyTorch", "ok", f"{answer['version']}, {where}")]


def triton_interpreter() -> list[Finding]:
    """Triton under TRITON_INTERPRET=1: does it give numbers, or zeros?"""
    answer = ask("triton_interpreter")
    name = "Triton interpreter"
    install = "python -m pip install --upgrade triton torch"
    if is_missing(answer, "triton", "torch"):
        problem = "Triton or PyTorch is not installed; Triton labs then cannot run."
        return [Finding(name, "absent", "not installed", problem, install)]
    if answer.get("right"):
        return [Finding(name, "ok", f"{answer['version']}; a known kernel gives the right numbers")]
    found = answer.get("version", version_of("triton"))
    problem = f"It does not run: {what(answer)}"
    if "wrong" in answer:
        shows = "nothing but zeros" if answer["zeros"] else f"{answer['wrong']} wrong numbers"
        problem = f"It reports no error but gives {shows}; Triton labs here prove nothing."
    return [Finding(name, "fail", found, problem, install)]


def triton_compile() -> list[Finding]:
    """Triton's compiler for sm_90, which needs no GPU."""
    answer = ask("triton_compile")
    if is_missing(answer, "triton"):
        return []  # the interpreter's finding says it
    if "cubin" in answer.get("stages", ()):
        return [Finding("Triton to sm_90", "ok", "a known kernel, down to machine code")]
    return [
        Finding(
            "Triton to sm_90", "warn", "a known kernel", f"It does not compile: {what(answer)}",
            "python -m pip install --upgrade triton   (it also needs a C compiler: gcc)",
        )
    ]  # fmt: skip


def opencl() -> list[Finding]:
    """Each OpenCL platform, with a vector addition on it."""
    answer = ask("opencl")
    install = "python -m pip install pyopencl pocl-binary-distribution"
    if is_missing(answer, "pyopencl"):
        problem = "pyopencl is not installed; OpenCL labs then cannot run."
        return [Finding("OpenCL", "absent", "not installed", problem, install)]
    if not answer.get("platforms"):
        problem = "No OpenCL platform was found; OpenCL labs then cannot run."
        if "error" in answer and "PLATFORM_NOT_FOUND" not in answer["error"]:
            problem = f"OpenCL cannot be asked: {what(answer)}"
        return [Finding("OpenCL", "absent", version_of("pyopencl"), problem, install)]
    return [opencl_platform(platform) for platform in answer["platforms"]]


def opencl_platform(platform: Answer) -> Finding:
    """One platform's finding: it adds vectors rightly, or why not."""
    found = f"{platform['name']}: {', '.join(platform['devices']) or 'no device'}"
    if platform.get("right"):
        return Finding("OpenCL", "ok", f"{found}; adds two vectors rightly")
    error = platform.get("error", "its numbers are wrong")
    if "unknown target CPU" in error:
        return Finding(
            "OpenCL", "warn", found,
            "This PoCL is older than the processor and cannot compile for it.",
            "conda install -c conda-forge pocl   (or a distribution's pocl-opencl-icd ≥ 5)",
        )  # fmt: skip
    return Finding(
        "OpenCL", "warn", found, f"A vector addition fails: {first_line(error)}",
        "python -m pip install --force-reinstall pyopencl pocl-binary-distribution",
    )  # fmt: skip
