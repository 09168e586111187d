"""The limits of a named GPU: which is chosen, and which launches it refuses."""

import numpy as np
import pytest
from numba import cuda

from kernelbook.errors import KernelbookError
from kernelbook.simt import LaunchError, device, occupancy, resources


@cuda.jit
def touch(x):
    x[cuda.grid(1)] = 1


@cuda.jit
def add_next(x, out):
    i = cuda.grid(1)
    a0 = x[i]
    a1 = x[i + 1]
    out[i] = a0 + a1


@cuda.jit
def hungry(x, out, turns):
    """Sixty-four doubles that live through a loop of unknown length: 128 registers and more."""
    i = cuda.grid(1)
    kept = cuda.local.array(64, np.float64)
    for k in range(64):
        kept[k] = x[(i + k) % x.size]
    for _ in range(turns):
        for k in range(64):
            kept[k] = kept[k] * kept[(k + 1) % 64] + kept[(k + 7) % 64]
    for k in range(64):
        out[i] += kept[k]


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
    assert device.resident_blocks(330) == 5 * 132, "11 warps a block, of 64"


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


def test_registers_of_a_kernel_come_from_the_real_compile():
    args = np.zeros(4, np.float32), np.zeros(4, np.float32)
    compiled, why = resources.compiled_for(add_next, args)
    assert compiled is resources.compiled_for(add_next, args)[0]
    assert why == ""
    assert 8 <= resources.registers_of(add_next, args) <= 32
    device.use("T4")
    on_t4, _ = resources.compiled_for(add_next, args)
    assert ".target sm_75" in on_t4.ptx


def test_registers_of_a_kernel_that_cannot_be_compiled_are_unknown():
    @cuda.jit
    def inner(x):
        x[0] = 1

    assert resources.registers_of(inner, (np.zeros(1),)) is None
    assert resources.registers_of(touch, (["a list"],)) is None


@cuda.jit(launch_bounds=1024)
def hungry_but_bounded(x, out, n):
    a = b = c = d = e = f = g = h = x[0]
    for _ in range(n):
        a, b, c, d, e, f, g, h = b * c, c + d, d * e, e + f, f * g, g + h, h * a, a + b
    out[cuda.grid(1)] = a + b + c + d + e + f + g + h


def test_launch_bounds_reach_the_real_compile():
    compiled, why = resources.compiled_for(hungry_but_bounded, (np.zeros(1), np.zeros(1), 3))
    assert compiled is not None, why
    assert ".maxntid 1024" in compiled.ptx


def test_connect_refuses_what_the_real_compile_has_no_registers_for():
    resources.connect()
    x, out = np.zeros(1024), np.zeros(1024)
    with pytest.raises(LaunchError) as caught:
        hungry[1, 1024](x, out, 3)
    registers = resources.registers_of(hungry, (x, out, 3))
    assert f"1,024 threads with {registers} registers each" in str(caught.value)
    hungry[1, 256](x, out, 3)
    touch[1, 1024](x)
    assert x.all()
