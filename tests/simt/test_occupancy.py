"""Occupancy and named GPUs against NVIDIA's calculator, and the driver's answers on an H200."""

import json
from pathlib import Path

import pytest

from kernelbook.simt import LaunchError, device, occupancy

RECORDED = Path(__file__).parent / "occupancy-h200.json"

# Model, threads a block, registers a thread, shared bytes a block -> blocks an SM, as
# cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h (CUDA 13.0) computes them.
CALCULATED = [
    ("H200", 31, 24, 100, 32),
    ("H200", 1, 41, 1000, 32),
    ("H200", 32, 8, 0, 32),
    ("H200", 256, 24, 49152, 4),
    ("H200", 128, 48, 166912, 1),
    ("H200", 320, 16, 101376, 2),
    ("H200", 32, 64, 100, 32),
    ("H200", 1, 63, 1024, 32),
    ("H200", 32, 64, 1000, 32),
    ("H200", 1, 224, 16384, 8),
    ("H200", 512, 63, 49152, 2),
    ("H200", 192, 232, 8200, 1),
    ("H200", 672, 64, 232448, 1),
    ("H200", 224, 96, 101376, 2),
    ("H200", 192, 200, 166912, 1),
    ("H200", 64, 17, 1024, 32),
    ("H200", 64, 24, 4096, 32),
    ("H200", 64, 16, 1, 32),
    ("H200", 64, 25, 4096, 32),
    ("H200", 64, 32, 4096, 32),
    ("H200", 33, 25, 1024, 32),
    ("H200", 384, 24, 33000, 5),
    ("H200", 256, 17, 1, 8),
    ("H200", 1024, 8, 33000, 2),
    ("H200", 800, 25, 2000, 2),
    ("H200", 96, 32, 4096, 21),
    ("H200", 192, 25, 2000, 10),
    ("H200", 320, 16, 33000, 6),
    ("H200", 800, 17, 101376, 2),
    ("H200", 672, 16, 65536, 3),
    ("H200", 224, 32, 24576, 9),
    ("H200", 416, 32, 49152, 4),
    ("H200", 992, 25, 101376, 2),
    ("H200", 320, 255, 0, 0),
    ("H200", 1024, 128, 4096, 0),
    ("H200", 1024, 200, 8200, 0),
    ("A100", 1, 49, 100, 32),
    ("A100", 31, 33, 1, 32),
    ("A100", 31, 56, 100, 32),
    ("A100", 31, 49, 4096, 32),
    ("A100", 32, 8, 4096, 32),
    ("A100", 31, 56, 4096, 32),
    ("A100", 224, 8, 24576, 6),
    ("A100", 128, 1, 16384, 9),
    ("A100", 31, 72, 32768, 4),
    ("A100", 768, 232, 40000, 0),
    ("A100", 320, 255, 1024, 0),
    ("A100", 96, 32, 232448, 0),
    ("A100", 1, 64, 100, 32),
    ("A100", 32, 64, 1, 32),
    ("A100", 31, 63, 1, 32),
    ("A100", 31, 63, 4096, 32),
    ("A100", 31, 64, 4096, 32),
    ("A100", 32, 64, 4096, 32),
    ("A100", 512, 64, 1000, 2),
    ("A100", 800, 33, 32768, 1),
    ("A100", 416, 49, 2000, 2),
    ("A100", 512, 100, 166912, 1),
    ("A100", 256, 64, 33000, 4),
    ("A100", 416, 100, 166912, 1),
    ("A100", 64, 8, 1, 32),
    ("A100", 33, 24, 100, 32),
    ("A100", 33, 16, 100, 32),
    ("A100", 64, 1, 4096, 32),
    ("A100", 33, 1, 4096, 32),
    ("A100", 33, 24, 4096, 32),
    ("A100", 64, 32, 1, 32),
    ("A100", 64, 32, 1000, 32),
    ("A100", 64, 32, 1024, 32),
    ("A100", 33, 32, 4096, 32),
    ("A100", 64, 25, 4096, 32),
    ("A100", 64, 32, 4096, 32),
    ("A100", 640, 8, 1000, 3),
    ("A100", 1024, 1, 16384, 2),
    ("A100", 640, 17, 100, 3),
    ("A100", 256, 32, 2000, 8),
    ("A100", 640, 25, 100, 3),
    ("A100", 672, 32, 20000, 3),
    ("A100", 512, 16, 32768, 4),
    ("A100", 416, 1, 32768, 4),
    ("A100", 224, 17, 16384, 9),
    ("A100", 992, 25, 65536, 2),
    ("A100", 320, 32, 24576, 6),
    ("A100", 768, 25, 65536, 2),
    ("L4", 1, 25, 1024, 24),
    ("L4", 32, 8, 0, 24),
    ("L4", 1, 56, 2000, 24),
    ("L4", 1, 32, 16384, 5),
    ("L4", 33, 63, 8192, 11),
    ("L4", 96, 40, 16384, 5),
    ("L4", 672, 232, 20000, 0),
    ("L4", 192, 100, 232448, 0),
    ("L4", 33, 32, 232448, 0),
    ("L4", 1, 80, 1, 24),
    ("L4", 32, 80, 0, 24),
    ("L4", 31, 80, 1024, 24),
    ("L4", 384, 65, 2000, 2),
    ("L4", 160, 200, 49152, 1),
    ("L4", 320, 96, 1, 2),
    ("L4", 224, 41, 16384, 5),
    ("L4", 64, 200, 24576, 4),
    ("L4", 256, 56, 20000, 4),
    ("L4", 33, 1, 0, 24),
    ("L4", 33, 8, 1000, 24),
    ("L4", 33, 16, 1, 24),
    ("L4", 64, 40, 1, 24),
    ("L4", 64, 33, 2000, 24),
    ("L4", 33, 33, 1, 24),
    ("L4", 320, 17, 8192, 4),
    ("L4", 672, 16, 0, 2),
    ("L4", 416, 32, 1, 3),
    ("L4", 992, 48, 4096, 1),
    ("L4", 640, 40, 4096, 2),
    ("L4", 384, 40, 0, 4),
    ("L4", 320, 25, 20000, 4),
    ("L4", 768, 8, 40000, 2),
    ("L4", 672, 25, 40000, 2),
    ("L4", 800, 40, 65536, 1),
    ("L4", 416, 41, 33000, 3),
    ("L4", 800, 41, 65536, 1),
    ("RTX 4090", 31, 65, 0, 24),
    ("RTX 4090", 32, 25, 1, 24),
    ("RTX 4090", 32, 48, 100, 24),
    ("RTX 4090", 64, 100, 20000, 4),
    ("RTX 4090", 224, 72, 40000, 2),
    ("RTX 4090", 192, 49, 20000, 4),
    ("RTX 4090", 1024, 224, 1024, 0),
    ("RTX 4090", 992, 65, 101376, 0),
    ("RTX 4090", 160, 64, 166912, 0),
    ("RTX 4090", 32, 80, 1024, 24),
    ("RTX 4090", 31, 80, 100, 24),
    ("RTX 4090", 32, 80, 1, 24),
    ("RTX 4090", 512, 49, 24576, 2),
    ("RTX 4090", 672, 56, 40000, 1),
    ("RTX 4090", 672, 49, 32768, 1),
    ("RTX 4090", 224, 48, 16384, 5),
    ("RTX 4090", 256, 41, 16384, 5),
    ("RTX 4090", 384, 56, 33000, 3),
    ("RTX 4090", 33, 25, 1000, 24),
    ("RTX 4090", 64, 24, 0, 24),
    ("RTX 4090", 33, 32, 100, 24),
    ("RTX 4090", 64, 33, 2000, 24),
    ("RTX 4090", 33, 40, 1024, 24),
    ("RTX 4090", 33, 33, 0, 24),
    ("RTX 4090", 672, 17, 0, 2),
    ("RTX 4090", 992, 24, 40000, 1),
    ("RTX 4090", 512, 16, 12288, 3),
    ("RTX 4090", 128, 33, 4096, 12),
    ("RTX 4090", 768, 40, 100, 2),
    ("RTX 4090", 992, 48, 20000, 1),
    ("RTX 4090", 416, 17, 32768, 3),
    ("RTX 4090", 384, 1, 24576, 4),
    ("RTX 4090", 768, 1, 49152, 2),
    ("RTX 4090", 800, 64, 101376, 1),
    ("RTX 4090", 800, 33, 101376, 1),
    ("RTX 4090", 1024, 48, 65536, 1),
    ("T4", 31, 49, 0, 16),
    ("T4", 32, 63, 2000, 16),
    ("T4", 31, 24, 1024, 16),
    ("T4", 32, 41, 4096, 16),
    ("T4", 31, 56, 4096, 16),
    ("T4", 1, 8, 4096, 16),
    ("T4", 224, 56, 32768, 2),
    ("T4", 1, 160, 32768, 2),
    ("T4", 384, 65, 49152, 1),
    ("T4", 31, 8, 101376, 0),
    ("T4", 512, 129, 1000, 0),
    ("T4", 320, 224, 20000, 0),
    ("T4", 32, 100, 2000, 16),
    ("T4", 31, 128, 1, 16),
    ("T4", 31, 128, 100, 16),
    ("T4", 1, 128, 4096, 16),
    ("T4", 31, 100, 4096, 16),
    ("T4", 32, 128, 4096, 16),
    ("T4", 160, 72, 2000, 5),
    ("T4", 512, 96, 2000, 1),
    ("T4", 160, 232, 4096, 1),
    ("T4", 224, 224, 33000, 1),
    ("T4", 256, 100, 32768, 2),
    ("T4", 320, 100, 40000, 1),
    ("T4", 33, 24, 100, 16),
    ("T4", 33, 8, 0, 16),
    ("T4", 64, 49, 1, 16),
    ("T4", 64, 40, 4096, 16),
    ("T4", 64, 48, 4096, 16),
    ("T4", 33, 24, 4096, 16),
    ("T4", 33, 64, 1000, 16),
    ("T4", 64, 63, 1024, 16),
    ("T4", 33, 64, 1, 16),
    ("T4", 64, 63, 4096, 16),
    ("T4", 33, 63, 4096, 16),
    ("T4", 33, 64, 4096, 16),
    ("T4", 192, 41, 1000, 5),
    ("T4", 672, 24, 2000, 1),
    ("T4", 384, 41, 4096, 2),
    ("T4", 384, 63, 16384, 2),
    ("T4", 384, 64, 8200, 2),
    ("T4", 768, 49, 1, 1),
    ("T4", 640, 48, 65536, 1),
    ("T4", 512, 16, 32768, 2),
    ("T4", 768, 24, 40000, 1),
    ("T4", 672, 48, 33000, 1),
    ("T4", 512, 48, 24576, 2),
    ("T4", 800, 49, 49152, 1),
]


@pytest.mark.parametrize(("name", "threads", "registers", "shared", "blocks"), CALCULATED)
def test_theoretical_agrees_with_nvidias_calculator(name, threads, registers, shared, blocks):
    found = occupancy.theoretical(threads, registers, shared, device.named(name))
    assert found.blocks_per_sm == blocks


def test_theoretical_agrees_with_the_driver_on_an_h200():
    recorded = json.loads(RECORDED.read_text())
    wrong = []
    for row in recorded["rows"]:
        found = occupancy.theoretical(
            row["threads"], row["registers"], row["shared_bytes"], device.named("H200")
        )
        if found.blocks_per_sm != row["blocks_per_sm"]:
            wrong.append((row, found.blocks_per_sm))
    assert len(recorded["rows"]) >= 40
    assert not wrong


def test_launches_that_an_h200_refuses_are_refused():
    launches = json.loads(RECORDED.read_text())["launches"]
    refused = [row for row in launches if row["error"]]
    assert refused
    assert len(refused) < len(launches)
    for row in launches:
        threads, registers = row["threads"], row["registers"]
        if row["error"]:
            assert "OUT_OF_RESOURCES" in row["error"]
            with pytest.raises(LaunchError):
                occupancy.require_launchable("k", threads, registers, device.named("H200"))
        else:
            occupancy.require_launchable("k", threads, registers, device.named("H200"))


def test_model_h200_has_what_the_driver_says():
    found = json.loads(RECORDED.read_text())["properties"]
    model = device.named("H200")
    wanted = {
        "multiProcessorCount": model.multiprocessors,
        "maxThreadsPerMultiProcessor": model.threads_per_sm,
        "maxBlocksPerMultiProcessor": model.blocks_per_sm,
        "maxThreadsPerBlock": device.THREADS_PER_BLOCK,
        "regsPerBlock": model.registers_per_block,
        "regsPerMultiprocessor": model.registers_per_sm,
        "sharedMemPerBlock": device.STATIC_SHARED_BYTES,
        "sharedMemPerBlockOptin": model.shared_optin,
        "sharedMemPerMultiprocessor": model.shared_per_sm,
        "reservedSharedMemPerBlock": model.reserved_shared,
    }
    assert found == {name: wanted[name] for name in found}
    assert len(found) >= 8


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "limited_by", "fraction", "why"),
    [
        (256, 32, 0, ("threads", "registers"), 1.0, "8 blocks fit an SM of the H200: 8 warps"),
        (256, 33, 0, ("registers",), 0.75, "33 registers a thread, 10,240 a block, of 65,536"),
        (128, 32, 20000, ("shared memory",), 11 * 4 / 64, "21,120 bytes of shared memory"),
        (32, 16, 0, ("blocks",), 0.5, "an SM holds at most 32 blocks"),
        (1024, 65, 0, ("registers",), 0.0, "0 blocks fit an SM"),
        (768, 32, 0, ("threads", "registers"), 0.75, "2 blocks fit"),
    ],
)
def test_theoretical_names_what_limits(threads, registers, shared, limited_by, fraction, why):
    found = occupancy.theoretical(threads, registers, shared, device.named("H200"))
    assert found.limited_by == limited_by
    assert found.fraction == pytest.approx(fraction)
    assert found.active_warps == fraction * 64
    assert why in found.why


def test_theoretical_unknown_registers_are_no_limit():
    found = occupancy.theoretical(32, 0, 0, device.named("T4"))
    assert found.limited_by == ("blocks",)


def test_theoretical_more_registers_than_a_thread_can_have_fit_nowhere():
    assert occupancy.theoretical(32, 255, 0, device.named("H200")).blocks_per_sm == 8
    assert occupancy.theoretical(32, 256, 0, device.named("H200")).blocks_per_sm == 0


def test_theoretical_without_threads_is_refused():
    with pytest.raises(ValueError, match="at least one thread"):
        occupancy.theoretical(0, 32)


@pytest.mark.parametrize("name", ["H200", "h200", "RTX 4090", "rtx4090", "rtx-4090", "T4", "L4"])
def test_named_finds_a_model_however_it_is_written(name):
    assert device.named(name).name.lower().replace(" ", "") == name.lower().replace(
        " ", ""
    ).replace("-", "")


@pytest.mark.parametrize(
    ("name", "capability", "sms", "threads", "blocks", "opt_in"),
    [
        ("H200", (9, 0), 132, 2048, 32, 232448),
        ("A100", (8, 0), 108, 2048, 32, 166912),
        ("L4", (8, 9), 58, 1536, 24, 101376),
        ("RTX 4090", (8, 9), 128, 1536, 24, 101376),
        ("T4", (7, 5), 40, 1024, 16, 65536),
    ],
)
def test_model_has_the_published_numbers(name, capability, sms, threads, blocks, opt_in):
    model = device.named(name)
    found = model.compute_capability, model.multiprocessors, model.threads_per_sm
    assert found == (capability, sms, threads)
    assert (model.blocks_per_sm, model.shared_optin) == (blocks, opt_in)
    assert model.warps_per_sm * 32 == threads
