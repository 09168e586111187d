"""Which versions go together: pure rules on version numbers, no machine needed.

Source: NVIDIA's table of PTX ISA versions by CUDA release (PTX ISA, "Release Notes"); trials of
numba-cuda with NumPy. Limit: a driver newer than the table is taken to read all PTX.
"""

from __future__ import annotations

import re

from kernelbook.doctor.report import Finding

Version = tuple[int, ...]

# The newest PTX that each CUDA release, and so a driver of that release, reads.
PTX_OF_CUDA: dict[Version, Version] = {
    (11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4),
    (11, 5): (7, 5), (11, 6): (7, 6), (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0),
    (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4), (12, 5): (8, 5),
    (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0),
}  # fmt: skip

OLDEST_OF_CUDA_13 = (7, 5)  # compute capability of Turing; CUDA 13 dropped what is older
NUMPY_LIMIT = (2, 5)  # numba-cuda 0.30 uses np.row_stack, which 2.5 removed


def parse(text: str) -> Version:
    """The leading numbers of a version: "2.13.0+cpu" → (2, 13, 0); "" → ()."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def dotted(version: Version) -> str:
    """(12, 4) → "12.4"."""
    return ".".join(map(str, version))


def newest_ptx(cuda: Version) -> Version | None:
    """The newest PTX that a driver for this CUDA release reads; None when it is not known."""
    known = [release for release in PTX_OF_CUDA if release <= cuda]
    if not known or cuda[:2] > max(PTX_OF_CUDA):
        return None
    return PTX_OF_CUDA[max(known)]


def judge_ptx(compiler: str, ptx: Version, driver_cuda: Version | None) -> Finding:
    """Whether the driver reads the PTX that a compiler of the toolkit writes."""
    name = f"PTX of {compiler}"
    found = f"writes PTX {dotted(ptx)}"
    if driver_cuda is None:
        return Finding(name, "ok", f"{found}; no driver here to read it")
    limit = newest_ptx(driver_cuda)
    found += f"; the driver is for CUDA {dotted(driver_cuda)}"
    if limit is None or ptx <= limit:
        return Finding(name, "ok", found)
    release = next((cuda for cuda, reads in sorted(PTX_OF_CUDA.items()) if reads >= ptx), None)
    other_major = release[0] != driver_cuda[0] if release else ptx[0] != limit[0]
    problem = (
        f'The toolkit is newer than the driver: a kernel can fail with "Unsupported .version '
        f"{dotted(ptx)}; current version is '{dotted(limit)}'\"."
    )
    extra = f'"numba-cuda[cu{driver_cuda[0]}]" ' if other_major else ""
    newer = f"one for CUDA {dotted(release)}" if release else "the newest"
    return Finding(
        name,
        "fail" if other_major else "warn",
        found,
        problem,
        f'python -m pip install {extra}"cuda-toolkit=={dotted(driver_cuda[:2])}.*"   '
        f"(or update the driver to {newer})",
    )


def judge_packages(numpy: str, numba: str, numba_cuda: str) -> Finding:
    """Whether NumPy, Numba and numba-cuda go together. "" stands for not installed."""
    name = "Numba"
    found = f"numba {numba or 'missing'}, numba-cuda {numba_cuda or 'missing'}, numpy {numpy}"
    if not numba or not numba_cuda:
        return Finding(
            name, "fail", found,
            "Numba's CUDA compiler is not installed, so kernels cannot be compiled.",
            'python -m pip install "numba>=0.65,<0.70" "numba-cuda[cu13]>=0.30,<0.31"',
        )  # fmt: skip
    if parse(numpy) >= NUMPY_LIMIT and parse(numba_cuda) < (0, 31):
        return Finding(
            name, "fail", found,
            f"numba-cuda {numba_cuda} cannot be imported with NumPy {numpy}, which no longer has "
            "np.row_stack.",
            'python -m pip install "numpy>=2.0,<2.5"',
        )  # fmt: skip
    if not (0, 65) <= parse(numba) < (0, 70) or not (0, 30) <= parse(numba_cuda) < (0, 31):
        return Finding(
            name, "warn", found,
            "These versions were not tried together.",
            'python -m pip install "numba>=0.65,<0.70" "numba-cuda[cu13]>=0.30,<0.31"',
        )  # fmt: skip
    return Finding(name, "ok", found)


def judge_capability(gpu: str, capability: Version) -> Finding | None:
    """A finding when CUDA 13 no longer supports the GPU."""
    if capability >= OLDEST_OF_CUDA_13:
        return None
    return Finding(
        "GPU generation", "fail", f"{gpu}, compute capability {dotted(capability)}",
        "CUDA 13 supports compute capability 7.5 and newer only.",
        'python -m pip install "numba-cuda[cu12]" cupy-cuda12x   '
        "(or set KERNELBOOK_DEVICE=sim to use the simulator)",
    )  # fmt: skip
