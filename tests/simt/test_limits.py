"""The limits of a named GPU: which is chosen, and which launches it refuses."""

import numpy as np
import pytest
from numba import cuda

from kernelbook.errors import KernelbookError
from kernelbook.simt import LaunchError, device, occupancy


@cuda.jit
def touch(x):
    x[cuda.grid(1)] = 1


@cuda.jit
def greedy(x, out):
    i = cuda.grid(1)
    a0 = x[i]
    a1 = x[i + 1]
    out[i] = a0 + a1


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.delenv(device.VARIABLE, raising=False)
    before = list(device._chosen)
    device._chosen.clear()
    yield
    device._chosen[:] = before
    occupancy.connect(None)


def test_model_without_a_choice_is_the_h200():
    assert device.model().name == "H200"
    assert cuda.get_current_device().name == "kernelbook simulator (limits of an NVIDIA H200)"


def test_model_of_the_environment_is_used(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, "t4")
    found = cuda.get_current_device()
    assert found.compute_capability == (7, 5)
    assert found.MULTIPROCESSOR_COUNT == 40
    assert found.MAX_THREADS_PER_MULTI_PROCESSOR == 1024
    assert "NVIDIA T4" in repr(found)


def test_model_of_use_beats_the_environment(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, "T4")
    assert device.use("A100").multiprocessors == 108
    assert cuda.get_current_device().COMPUTE_CAPABILITY_MAJOR == 8


def test_use_unknown_name_lists_the_names():
    with pytest.raises(KernelbookError, match=r"'V100'.*H200, A100, L4, RTX 4090, T4"):
        device.use("V100")


def test_model_of_a_wrong_environment_names_the_variable(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, "pc")
    with pytest.raises(KernelbookError, match=r"KERNELBOOK_GPU: no GPU named 'pc'"):
        device.model()


@pytest.mark.parametrize(("name", "blocks"), [("H200", 264), ("T4", 40), ("L4", 58)])
def test_cooperative_grid_has_room_on_the_chosen_gpu(name, blocks):
    device.use(name)
    assert device.resident_blocks(1024) == blocks


def test_resident_blocks_counts_whole_warps():
    assert device.resident_blocks(33) == 32 * 132
    assert device.resident_blocks(800) == 2 * 132
    assert device.resident_blocks(1000) == 2 * 132


@pytest.mark.parametrize(
    ("threads", "registers", "fits"),
    [
        (1024, 64, True),
        (1024, 65, False),
        (1000, 64, True),
        (256, 255, True),
        (257, 255, False),  # 9 warps count as 12: the SM has four parts
        (384, 168, True),
        (416, 128, True),
        (416, 144, False),  # 13 warps count as 16
        (512, 128, True),
        (512, 129, False),
    ],
)
def test_require_launchable_registers_of_a_block(threads, registers, fits):
    if fits:
        occupancy.require_launchable("k", threads, registers)
        assert occupancy.theoretical(threads, registers).blocks_per_sm
        return
    assert not occupancy.theoretical(threads, registers).blocks_per_sm
    with pytest.raises(LaunchError, match=rf"k: a block of {threads:,} threads with {registers}"):
        occupancy.require_launchable("k", threads, registers)


def test_require_launchable_advice_would_fit():
    with pytest.raises(LaunchError) as caught:
        occupancy.require_launchable("k", 1024, 100)
    message = str(caught.value)
    assert "needs 106,496 registers, the limit of the H200 is 65,536" in message
    assert 'a GPU says "too many resources requested for launch"' in message
    assert "blocks of at most 512 threads" in message
    assert "max_registers=64" in message
    occupancy.require_launchable("k", 512, 100)
    occupancy.require_launchable("k", 1024, 64)


class Compiler:
    """Answers with a number of registers, and remembers who asked."""

    def __init__(self, registers):
        self.registers = registers
        self.asked = []

    def __call__(self, kernel, args):
        self.asked.append((kernel, args))
        return self.registers


def test_launch_of_a_small_block_asks_no_compiler():
    compiler = Compiler(255)
    occupancy.connect(compiler)
    touch[1, 256](np.zeros(256))
    assert compiler.asked == []


def test_launch_with_too_many_registers_is_refused():
    compiler = Compiler(80)
    occupancy.connect(compiler)
    x = np.zeros(1024)
    with pytest.raises(LaunchError, match=r"touch: a block of 1,024 threads with 80 registers"):
        touch[1, 1024](x)
    assert not x.any()
    (kernel, args), *more = compiler.asked
    assert kernel is touch
    assert args[0] is x
    assert not more
    touch[2, 512](x)
    assert x.all()


@pytest.mark.parametrize("registers", [None, 64])
def test_launch_with_few_or_unknown_registers_runs(registers):
    occupancy.connect(Compiler(registers))
    x = np.zeros(1024)
    touch[1, 1024](x)
    assert x.all()


def test_launch_without_a_compiler_is_not_checked():
    x = np.zeros(1024)
    touch[1, 1024](x)
    assert x.all()


@pytest.mark.parametrize("bounds", [128, (128, 2)])
def test_launch_beyond_launch_bounds_is_refused(bounds):
    @cuda.jit(launch_bounds=bounds)
    def bounded(x):
        x[cuda.grid(1)] = 1

    x = np.zeros(256)
    with pytest.raises(LaunchError, match=r"launch_bounds=.*at most 128 threads"):
        bounded[1, 256](x)
    bounded[2, 128](x)
    assert x.all()


@pytest.mark.parametrize(
    ("args", "signature"),
    [
        ((np.zeros(3, np.float32), 4), "float32[::1], int64"),
        ((np.zeros((2, 3)), np.float32(1)), "float64[:, ::1], float32"),
        ((np.zeros((2, 3), order="F"), 1.5), "float64[::1, :], float64"),
        ((np.zeros((4, 6))[::2, ::2], True), "float64[:, :], boolean"),
        ((cuda.In(np.zeros(2, np.int8)), np.bool_(1)), "int8[::1], boolean"),
        ((np.zeros(2, np.bool_), np.uint16(1), 1j), "boolean[::1], uint16, complex128"),
        (((1, 2),), None),
        ((np.zeros(2, "f4,f4"),), None),
        ((np.zeros(()),), None),
    ],
)
def test_signature_of_arguments(args, signature):
    from kernelbook.compilers import resources

    assert resources.signature_of(args) == signature
    on_device = tuple(cuda.to_device(a) if type(a) is np.ndarray and a.flags.c_contiguous
                      else a for a in args)  # fmt: skip
    assert resources.signature_of(on_device) == signature


def test_registers_of_a_kernel_come_from_the_real_compile():
    from kernelbook.compilers import resources

    args = np.zeros(4, np.float32), np.zeros(4, np.float32)
    compiled = resources.compiled_for(greedy, args)
    assert compiled is resources.compiled_for(greedy, args)
    assert 8 <= resources.registers_of(greedy, args) <= 32
    assert compiled.shared_bytes == 0
    assert resources.registers_of(greedy, args, (7, 5)) is not None


def test_registers_of_a_kernel_that_cannot_be_compiled_are_unknown():
    from kernelbook.compilers import resources

    @cuda.jit
    def inner(x):
        x[0] = 1

    assert resources.registers_of(inner, (np.zeros(1),)) is None
    assert resources.registers_of(touch, ((1, 2),)) is None
