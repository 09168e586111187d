"""Rows, percentiles, sampling order and the physical floor: what needs no GPU."""

from __future__ import annotations

import dataclasses
import json

import pytest

from kernelbook.bench import roofline, rows, timers
from kernelbook.errors import KernelbookError

ROW = rows.Row(
    kernel="reduce_many",
    peer="",
    shape=(1 << 25,),
    dtype="float32",
    gpu="NVIDIA H200",
    versions={"numba-cuda": "0.30.4"},
    date="2026-01-01",
    p20_us=40.0,
    p50_us=41.5,
    p80_us=43.0,
    bytes=4 << 25,
    flops=1 << 25,
    fraction_of_copy=0.75,
)
RECORDING = rows.Recording(
    benchmark="reduce",
    gpu="NVIDIA H200",
    driver="580.1",
    versions={"numba-cuda": "0.30.4"},
    date="2026-01-01",
    command="python benchmarks/reduce.py",
    copy_gbps=4200.0,
    rows=(ROW, dataclasses.replace(ROW, kernel="torch.sum", peer="torch")),
    notes={"reduce_many": "264 blocks, then 1"},
)


def test_recording_written_reads_back_equal(tmp_path):
    path = tmp_path / "deep" / "reduce.json"
    rows.write(RECORDING, path)
    assert rows.read(path) == RECORDING
    assert [p.name for p in path.parent.iterdir()] == ["reduce.json"]


def test_recording_file_holds_the_row_type_of_the_book(tmp_path):
    path = tmp_path / "reduce.json"
    rows.write(RECORDING, path)
    row = json.loads(path.read_text("utf-8"))["rows"][0]
    about = ["kernel", "peer", "shape", "dtype", "gpu", "versions", "date"]
    measured = ["p20_us", "p50_us", "p80_us", "bytes", "flops", "fraction_of_copy"]
    assert list(row) == about + measured


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": [{"kernel": "x"}]}', '{"rows": 3}'])
def test_recording_malformed_is_refused_with_its_path(tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(KernelbookError, match=r"broken\.json: not a recording"):
        rows.read(path)


def test_percentiles_of_a_ramp_are_its_quantiles():
    assert timers.percentiles([float(v) for v in range(100, -1, -1)]) == timers.Percentiles(
        20.0, 50.0, 80.0
    )


def test_percentiles_of_nothing_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        timers.percentiles([])


def test_interleaved_samples_every_launch_each_round_in_changing_order():
    now, calls = [0.0], []

    def launch(name, cost):
        def run():
            calls.append(name)
            now[0] += cost

        return run

    def clock(run):
        before = now[0]
        run()
        return now[0] - before

    launches = {"a": launch("a", 10.0), "b": launch("b", 20.0), "c": launch("c", 40.0)}
    times = timers.interleaved(launches, clock, samples=8, repeats=10)
    assert times == {"a": [1.0] * 8, "b": [2.0] * 8, "c": [4.0] * 8}
    rounds = [tuple(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len(set(rounds)) > 1


def test_time_below_the_floor_is_refused_with_both_times():
    floor = roofline.floor_us(4 << 25, 4800.0)
    assert floor == pytest.approx(27.96, abs=0.01)
    with pytest.raises(roofline.ImpossibleTime, match=r"sum: 27\.00 µs .* 27\.96 µs"):
        roofline.require_possible("sum", 27.0, 4 << 25, 4800.0)
    roofline.require_possible("sum", floor, 4 << 25, 4800.0)


def test_time_that_is_no_number_is_refused():
    with pytest.raises(roofline.ImpossibleTime):
        roofline.require_possible("sum", float("nan"), 4, 4800.0)


def test_rate_and_floor_are_inverse():
    assert roofline.rate_gbps(10**9, roofline.floor_us(10**9, 3350.0)) == pytest.approx(3350.0)


def test_peak_takes_the_most_exact_name():
    assert roofline.peak_gbps("NVIDIA H100 PCIe") == 2000.0
    assert roofline.peak_gbps("NVIDIA H100 80GB HBM3") == 3350.0
    assert roofline.peak_gbps("NVIDIA A100-SXM4-80GB") == 2039.0
    assert roofline.peak_gbps("NVIDIA L40S") == 864.0


@pytest.mark.parametrize("gpu", ["Abacus", "NVIDIA GH200 480GB"])
def test_peak_of_an_unknown_gpu_is_refused(gpu):
    with pytest.raises(KernelbookError, match=f"no peak bandwidth is known for '{gpu}'"):
        roofline.peak_gbps(gpu)
