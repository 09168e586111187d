"""Probes that run in a process of their own: an import may crash, hang or change the process.

``python -m kernelbook.doctor.inside NAME`` prints one line of JSON: what the probe returns, or
{"error": …, "kind": …} for an exception.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

BLOCK = 64
ITEMS = 1000  # no multiple of BLOCK


def simulator() -> dict[str, Any]:
    """A block sum with a barrier in the simulator."""
    from kernelbook import simt

    simt.install()
    return _block_sum()


def gpu() -> dict[str, Any]:
    """The same block sum on the GPU, by numba-cuda."""
    return _block_sum()


def cupy() -> dict[str, Any]:
    """CuPy's version, and a RawKernel where there is a GPU."""
    import cupy
    import numpy as np

    try:
        devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return {"version": cupy.__version__, "devices": 0, "why": str(error)}
    source = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }'
    x = cupy.arange(BLOCK, dtype=cupy.float32)
    cupy.RawKernel(source, "twice")((1,), (BLOCK,), (x,))
    right = bool((cupy.asnumpy(x) == 2 * np.arange(BLOCK)).all())
    return {"version": cupy.__version__, "devices": devices, "right": right}


def torch() -> dict[str, Any]:
    """PyTorch's version and whether it has a GPU."""
    import torch

    available = torch.cuda.is_available()
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(0) if available else None,
    }


def triton_interpreter() -> dict[str, Any]:
    """A known kernel under TRITON_INTERPRET=1: some interpreters return zeros and no error."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch
    import triton

    from kernelbook.doctor.triton_kernel import BLOCK, scale_and_shift

    x = torch.arange(ITEMS, dtype=torch.float32)
    out = torch.full_like(x, float("nan"))
    scale_and_shift[(triton.cdiv(ITEMS, BLOCK),)](x, out, ITEMS, block=BLOCK)
    wrong = int((out != 2 * x + 1).sum())
    return {
        "version": triton.__version__,
        "right": wrong == 0,
        "zeros": bool((out == 0).all()),
        "wrong": wrong,
    }


def triton_compile() -> dict[str, Any]:
    """The same kernel compiled for sm_90; no GPU is asked."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kernelbook-") as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        import triton
        from triton.backends.compiler import GPUTarget

        from kernelbook.doctor.triton_kernel import BLOCK, scale_and_shift

        source = triton.compiler.ASTSource(
            fn=scale_and_shift,
            signature={"x": "*fp32", "out": "*fp32", "count": "i32", "block": "constexpr"},
            constexprs={"block": BLOCK},
        )
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        return {"version": triton.__version__, "stages": sorted(compiled.asm)}


def opencl() -> dict[str, Any]:
    """Each OpenCL platform with its devices; the first device of each adds two vectors."""
    import pyopencl

    platforms = []
    for platform in pyopencl.get_platforms():
        devices = platform.get_devices()
        entry: dict[str, Any] = {
            "name": platform.name,
            "version": platform.version,
            "devices": [device.name for device in devices],
        }
        try:
            entry["right"] = _vector_add(devices[0])
        except Exception as error:
            entry["error"] = str(error)
        platforms.append(entry)
    return {"version": pyopencl.VERSION_TEXT, "platforms": platforms}


def sandbox() -> dict[str, Any]:
    """The strongest border that the grader can put around a submission here."""
    from kernelbook.grade.sandbox import Sandbox

    found = Sandbox.detect()
    return {"bwrap": found.bwrap, "layers": list(found.layers)}


def jupyter() -> dict[str, Any]:
    """The Jupyter kernel that notebooks name, and the Python it starts."""
    from importlib.metadata import version

    from jupyter_client.kernelspec import KernelSpecManager

    spec = KernelSpecManager().get_kernel_spec("python3")
    return {"ipykernel": version("ipykernel"), "argv": spec.argv}


def _block_sum() -> dict[str, Any]:
    import numpy as np
    from numba import float32

    cuda: Any = importlib.import_module("numba.cuda")  # the simulator, where it was installed

    @cuda.jit
    def block_sum(x, out):  # type: ignore[no-untyped-def]
        s = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        if i < x.size:
            s[t] = x[i]
        else:
            s[t] = 0.0
        cuda.syncthreads()
        step = 32
        while step > 0:
            if t < step:
                s[t] += s[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = s[0]

    x = np.arange(ITEMS, dtype=np.float32)
    blocks = -(-ITEMS // BLOCK)
    out = np.full(blocks, np.nan, np.float32)
    block_sum[blocks, BLOCK](x, out)
    wanted = [x[at : at + BLOCK].sum() for at in range(0, ITEMS, BLOCK)]
    return {"right": bool(np.array_equal(out, np.asarray(wanted, np.float32)))}


def _vector_add(device: Any) -> bool:
    import numpy as np
    import pyopencl as cl

    source = """kernel void add(global const float *a, global float *out) {
        int i = get_global_id(0); out[i] = a[i] + a[i];
    }"""
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    a = np.arange(ITEMS, dtype=np.float32)
    out = np.empty_like(a)
    flags = cl.mem_flags
    given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
    taken = cl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
    cl.Program(context, source).build().add(queue, a.shape, None, given, taken)
    cl.enqueue_copy(queue, out, taken)
    return bool(np.array_equal(out, a + a))


PROBES = {
    probe.__name__: probe
    for probe in (
        simulator, gpu, cupy, torch, triton_interpreter, triton_compile, opencl, sandbox, jupyter,
    )
}  # fmt: skip


def main(name: str) -> int:
    """Run one probe and print its answer as the last line of standard output."""
    try:
        answer = PROBES[name]()
    except Exception as error:
        answer = {"error": str(error)[-2000:], "kind": type(error).__name__}
    print("\n" + json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # a library's own end is none of the probe's business


if __name__ == "__main__":
    main(sys.argv[1])
