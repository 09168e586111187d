"""The simulator's counters against what ncu counted on an H200: benchmarks/counters-h200.json."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kernelbook import simt

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def folder():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def script(folder) -> ModuleType:
    return importlib.import_module("counters")


@pytest.fixture(scope="module")
def recorded(script) -> tuple[dict, dict]:
    """(what the simulator counted, what ncu counted), from the files in benchmarks/."""
    read = (script.SIMULATED.read_text("utf-8"), script.MEASURED.read_text("utf-8"))
    return json.loads(read[0]), json.loads(read[1])


def test_comparison_simulator_still_counts_what_was_recorded(script, recorded):
    assert script.simulated_launches() == recorded[0]["launches"]
    assert script.simulated_probes() == recorded[0]["probes"]


def test_comparison_another_schedule_changes_no_counter(script, recorded):
    with simt.schedule(5):
        assert script.simulated_launches() == recorded[0]["launches"]


def test_comparison_with_ncu_is_equal_or_has_a_reason(script, recorded):
    pairs = script.compared(recorded[0]["launches"], recorded[1]["launches"])
    assert len({pair.launch for pair in pairs}) == len(
        importlib.import_module("counters_kernels").CASES
    )
    different = [pair for pair in pairs if not pair.equal]
    assert [pair for pair in different if not pair.reason] == []
    assert {(p.launch, p.counter.rsplit(" ", 1)[0]) for p in different} == set(script.REASONS)
    assert len(different) <= 0.05 * len(pairs)


def test_comparison_every_probe_of_shared_memory_is_equal(script, recorded):
    found = script.probed_equal(recorded[0]["probes"], recorded[1]["probes"])
    assert len(found) == 8
    assert all(len(results) == len(script.probes()) for results in found.values())
    assert all(all(results) for results in found.values())


def test_comparison_written_is_the_one_computed(script, recorded, tmp_path, monkeypatch):
    assert script.compare(tmp_path / "counters.md") == 0
    written = (script.HERE / "counters.md").read_text("utf-8")
    assert written == (tmp_path / "counters.md").read_text("utf-8")
    monkeypatch.delitem(script.REASONS, ("matmul, tiled", "shared load"))
    assert script.compare(tmp_path / "counters.md") == 1
