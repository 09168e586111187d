"""``lab.profile`` counts the launch that it ran, and says what it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numba import cuda, float32, int64

from kernelbook import compilers, lab
from kernelbook.errors import KernelbookError, SimulatorError
from kernelbook.simt import counters, occupancy
from kernelbook.simt import profile as profiler
from kernelbook.simt.argument_types import signature_of
from kernelbook.simt.errors import LaunchError, RaceError


@cuda.jit
def column_read(x, out):
    tile = cuda.shared.array((32, 32), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, column] = x[row, column]
    cuda.syncthreads()
    if row == 0:
        out[column] = tile[column, 0]


@cuda.jit
def padded_read(x, out):
    tile = cuda.shared.array((32, 33), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, column] = x[row, column]
    cuda.syncthreads()
    if row == 0:
        out[column] = tile[column, 0]


@cuda.jit
def strided_copy(x, out):
    i = cuda.threadIdx.x
    out[i] = x[8 * i]


@cuda.jit
def racing(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    out[i] = tile[63 - i]


@cuda.jit("void(float32[:], int64)")
def with_signature(x, n):
    i = cuda.threadIdx.x
    if i < n:
        x[i] = i


@cuda.jit
def with_dynamic_memory(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[i] + 1


def matrix() -> np.ndarray:
    return np.arange(1024, dtype=np.float32).reshape(32, 32)


def test_profile_counts_conflicts_that_padding_takes_away() -> None:
    out = np.zeros(32, np.float32)
    bad = lab.profile(column_read[1, (32, 32)], matrix(), out)
    good = lab.profile(padded_read[1, (32, 32)], matrix(), out)
    assert (bad.bank_conflicts, good.bank_conflicts) == (31, 0)
    assert type(bad.bank_conflicts) is int


def test_profile_counts_sectors_that_a_stride_wastes() -> None:
    found = lab.profile(strided_copy[1, 32], np.zeros(256, np.float32), np.zeros(32, np.float32))
    assert found.sectors == 32 + 4
    assert found.sectors_per_request == 18.0
    assert found.coalesced is False


def test_profile_runs_the_launch_for_its_results() -> None:
    x, out = np.arange(256, dtype=np.float32), np.zeros(32, np.float32)
    lab.profile(strided_copy[1, 32], x, out)
    np.testing.assert_array_equal(out, x[::8])


def test_profile_counters_are_those_of_its_recording() -> None:
    found = lab.profile(column_read[1, (32, 32)], matrix(), np.zeros(32, np.float32))
    assert found.counters == counters.count(found.recording)
    assert found.divergence.lines > 0  # lines were recorded


def test_profile_takes_registers_from_the_real_compiler() -> None:
    found = lab.profile(column_read[1, (32, 32)], matrix(), np.zeros(32, np.float32))
    compiled = compilers.compile_kernel(
        *compilers.kernel_of(column_read), "float32[:, ::1], float32[::1]"
    )
    assert found.registers == compiled.registers
    assert found.shared_bytes == compiled.shared_bytes == 4096
    wanted = occupancy.theoretical(1024, found.registers, 4096)
    assert (found.occupancy, found.limited_by) == (wanted.fraction, wanted.limited_by)
    assert wanted.why in repr(found)


def test_profile_occupancy_falls_when_registers_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernel = compilers.compile_kernel
    monkeypatch.setattr(
        compilers, "compile_kernel", lambda *what: replace(compile_kernel(*what), registers=64)
    )
    found = lab.profile(column_read[1, (32, 32)], matrix(), np.zeros(32, np.float32))
    assert (found.occupancy, found.limited_by) == (0.5, ("registers",))


def test_profile_adds_dynamic_shared_memory() -> None:
    found = lab.profile(with_dynamic_memory[1, 32, 0, 40_000], np.zeros(32, np.float32))
    assert found.shared_bytes == 40_000
    assert found.limited_by == ("shared memory",)


def test_profile_without_a_compiler_says_so_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KernelbookError("The compiler's process cannot be started.")

    monkeypatch.setattr(compilers, "compile_kernel", broken)
    found = lab.profile(column_read[1, (32, 32)], matrix(), np.zeros(32, np.float32))
    assert found.registers is None
    assert "Registers are not known" in repr(found)
    assert "cannot be started" in repr(found)
    assert found.bank_conflicts == 31
    assert found.shared_bytes == 4096
    assert 0 < found.occupancy <= 1


def test_profile_of_a_kernel_that_cannot_be_lifted_counts_all_the_same() -> None:
    @cuda.jit
    def local(x):
        x[cuda.threadIdx.x] = 1

    found = lab.profile(local[1, 32], np.zeros(32, np.float32))
    assert found.registers is None
    assert found.sectors == 4


def test_profile_of_a_race_holds_the_error_and_marks_it(line_of) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with lab.simt.diagnosis():
        found = lab.profile(racing[1, 64], x, out)
    assert isinstance(found.failure, RaceError)
    assert str(line_of(racing, "63 - i")) in str(found.failure)
    html = found._repr_mimebundle_()["text/html"]
    assert "data race" in html
    assert repr(found).startswith(f"RaceError: {found.failure}")


def test_profile_of_a_launch_that_does_not_start_raises() -> None:
    with pytest.raises(LaunchError, match="takes 2 arguments"):
        lab.profile(strided_copy[1, 32], np.zeros(32, np.float32))
    with pytest.raises(SimulatorError, match="strided_copy lacks its launch"):
        lab.profile(strided_copy, np.zeros(32, np.float32))


def test_profile_says_what_it_cannot_see_in_text_and_html() -> None:
    found = lab.profile(column_read[1, (32, 32)], matrix(), np.zeros(32, np.float32))
    bundle = found._repr_mimebundle_()
    for shown in (bundle["text/plain"], bundle["text/html"]):
        assert "What this cannot see: time, caches" in shown
        assert "occupancy" in shown
    assert bundle["text/html"].count("<svg") == 2  # the bank map, and the worst line's sectors
    assert "31 bank conflicts" in bundle["text/html"]


def test_profile_hides_no_counter_behind_a_name_of_its_own() -> None:
    found = lab.profile(with_signature[1, 32], np.zeros(32, np.float32), 32)
    own = {name for name in dir(type(found)) if not name.startswith("_")}
    assert not own & {name for name in dir(found.counters) if not name.startswith("_")}


def test_profile_unknown_attribute_is_named() -> None:
    found = lab.profile(with_signature[1, 32], np.zeros(32, np.float32), 32)
    with pytest.raises(AttributeError, match="a profile has no 'time'"):
        _ = found.time


def test_lab_pictures_print_the_error_and_draw_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with lab.simt.diagnosis():
        for show in (lab.show_accesses, lab.show_timeline):
            drawing = show(racing[1, 64], x, out, title="racing, 64 threads")
            assert "data race" in drawing.alt
            assert drawing.get_suptitle().startswith("racing, 64 threads")
            assert capsys.readouterr().out.startswith("RaceError: racing, block 0")
        assert lab.play(racing[1, 64], x, out).remarks[0].startswith("Data race")
    assert "bank conflict" in lab.show_banks(racing[1, 64], x, out).alt
    assert "sectors moved" in lab.show_sectors(racing[1, 64], x, out).alt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros(4, np.float32), "float32[::1]"),
        (np.zeros((4, 4), np.int8), "int8[:, ::1]"),
        (np.zeros((4, 4), np.float64, order="F"), "float64[::1, :]"),
        (np.zeros((4, 4), np.uint16)[:, ::2], "uint16[:, :]"),
        (np.zeros(4, np.bool_), "boolean[::1]"),
        (3, "int64"),
        (2**63, "uint64"),
        (0.5, "float64"),
        (True, "boolean"),
        (np.float32(1), "float32"),
        ((1, 0.5), "Tuple((int64, float64,))"),
        (None, "none"),
    ],
    ids=str,
)
def test_signature_names_the_type_that_numba_gives(value: object, text: str) -> None:
    assert signature_of((), (value,)) == text


def test_signature_of_the_kernel_comes_first() -> None:
    given = with_signature.signatures
    assert signature_of(given, (np.zeros(4, np.float32), np.int32(4))) == f"float32[:], {int64}"


def test_signature_of_a_record_array_is_refused() -> None:
    with pytest.raises(LaunchError, match="no type"):
        signature_of((), (np.zeros(2, [("a", "f4")]),))


def test_profile_module_is_what_lab_uses() -> None:
    found = profiler.profile(with_signature[1, 32], np.zeros(32, np.float32), 32)
    assert found.kernel == "with_signature"
