"""The stand-in for numba.cuda: what can be imported, what says that it can't."""

import subprocess
import sys

import numpy as np
import pytest

from kernelbook import simt
from kernelbook.errors import KernelbookError
from kernelbook.simt import NotSimulated

# Modules and helpers that happen to be attributes of numba.cuda; no kernel or notebook uses them.
# fmt: off
INTERNALS = {
    "Dim3", "GridGroup", "alias", "api", "api_util", "args", "cache_hints", "cext", "cgutils",
    "char", "cloudpickle", "codegen", "compiler", "config", "config_default_cc", "contextlib",
    "core", "cpython", "cuda_paths", "datamodel", "debuginfo", "decorators", "deferred_type",
    "descriptor", "device_init", "devicearray", "devices", "deviceufunc", "dim3", "dispatcher",
    "errors", "extending", "ffi", "ffi_forced_object", "flags", "grid_group", "importlib",
    "initialize", "intrinsics", "itanium_mangler", "kernels", "launchconfig", "literal",
    "locks", "lowering", "mathimpl", "memory_management", "misc", "models", "np",
    "numba_cuda_default_ptx_cc", "nvvm", "nvvmutils", "optional", "os",
    "prepare_shape_strides_dtype", "reduction", "serialize", "simulator", "stubs", "sys",
    "target", "typeconv", "typing", "ufuncs", "utils", "vectorizers", "warnings",
}
# fmt: on


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_import_of_simt_leaves_numba_cuda_alone():
    done = python("import kernelbook.simt, sys; sys.exit('numba.cuda' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_install_all_import_spellings_give_the_simulator():
    import numba
    import numba.cuda
    from numba import cuda
    from numba.cuda import grid, jit, libdevice, threadIdx
    from numba.cuda.cg import this_grid

    assert numba.cuda is cuda is simt.cuda
    assert cuda.grid is grid
    assert cuda.jit is jit
    assert cuda.threadIdx is threadIdx
    assert cuda.libdevice is libdevice
    assert cuda.cg.this_grid is this_grid


def test_install_twice_returns_the_same_module():
    finders = len(sys.meta_path)
    assert simt.install() is simt.install() is simt.cuda
    assert len(sys.meta_path) == finders
    assert simt.installed()


def test_install_after_real_numba_cuda_says_restart():
    done = python(
        "import types, sys; sys.modules['numba.cuda'] = types.ModuleType('numba.cuda')\n"
        "from kernelbook import simt; simt.install()"
    )
    assert "KernelbookError: the real numba.cuda is already imported" in done.stderr
    assert "Restart the kernel" in done.stderr


def test_install_numba_for_the_cpu_still_compiles():
    done = python(
        "from kernelbook import simt; simt.install()\n"
        "import numba\n"
        "@numba.njit\n"
        "def f(x): return x + 1\n"
        "assert f(1) == 2"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["cudadrv", "cudadrv.driver", "random", "compiler"])
def test_deep_import_not_simulated_says_so(name):
    with pytest.raises(NotSimulated, match=r"numba\.cuda\.\w+ is not simulated") as caught:
        __import__(f"numba.cuda.{name}")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, KernelbookError)


@pytest.mark.parametrize("name", ["compile_ptx", "declare_device", "vectorize", "random"])
def test_attribute_not_simulated_says_so(name):
    with pytest.raises(NotSimulated, match=f"{name} is not simulated"):
        getattr(simt.cuda, name)


def test_attribute_unknown_raises_attribute_error():
    assert not hasattr(simt.cuda, "no_such_thing")


def test_public_names_cover_those_of_numba_cuda():
    done = python(
        "import warnings; warnings.simplefilter('ignore')\n"
        "from numba import cuda; print(*[n for n in dir(cuda) if not n.startswith('_')])"
    )
    real = set(done.stdout.split())
    from kernelbook.simt.cuda import _NOT_SIMULATED

    missing = {n for n in real - _NOT_SIMULATED - INTERNALS if not hasattr(simt.cuda, n)}
    assert "syncthreads" in real, done.stderr
    assert missing == set()


def test_device_queries_name_a_simulated_device(capsys):
    cuda = simt.cuda
    assert cuda.is_available() is True
    device = cuda.get_current_device()
    assert "simulator" in device.name
    assert device.MAX_THREADS_PER_BLOCK == 1024
    assert device.compute_capability == (9, 0)
    assert cuda.current_context().device is device
    assert len(cuda.gpus) == len(cuda.list_devices()) == 1
    assert cuda.select_device(0) is device
    with pytest.raises(IndexError, match="one device"):
        cuda.select_device(1)
    with pytest.raises(NotSimulated, match="PCI_BUS_ID"):
        _ = device.PCI_BUS_ID
    assert cuda.detect()
    assert "simulat" in capsys.readouterr().out


def test_host_calls_without_meaning_here_do_nothing():
    cuda = simt.cuda
    cuda.synchronize()
    cuda.profile_start()
    cuda.profile_stop()
    cuda.close()
    with cuda.defer_cleanup(), cuda.profiling():
        pass
    assert cuda.cuda_error() is None
    assert cuda.is_supported_version()
    assert cuda.is_float16_supported()


def test_type_names_are_numbas():
    import numba

    assert simt.cuda.float32 is numba.float32
    assert simt.cuda.types.int64 is numba.int64


def test_reduce_sums_an_array():
    total = simt.cuda.reduce(lambda a, b: a + b)
    x = np.arange(10, dtype=np.int32)
    assert total(x) == 45
    out = simt.cuda.device_array(1, np.int32)
    assert total(x, size=4, res=out, init=100) is None
    assert out[0] == 106
