"""The player is one self-contained piece of HTML, made of the recording's steps."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from numba import cuda
from recordings import Builder

from kernelbook.simt import observed, player
from kernelbook.simt.record import Kind

ROOT = Path(__file__).resolve().parents[2]


@cuda.jit
def pair_sum(x, out):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(8, np.float32)
    tile[i] = x[i]
    cuda.syncthreads()
    if i < 4:
        out[i] = tile[i] + tile[i + 4]


@cuda.jit
def pair_sum_without_barrier(x, out):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(8, np.float32)
    tile[i] = x[i]
    if i < 4:
        out[i] = tile[i] + tile[i + 4]


@cuda.jit(device=True)
def twice(value):
    return value * 2


@cuda.jit
def calls_twice(x):
    i = cuda.threadIdx.x
    x[i] = twice(x[i])


@cuda.jit
def nothing(x):
    pass


@cuda.jit
def count_all(x, total):
    cuda.atomic.add(total, 0, x[cuda.grid(1)])


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def played(launch, *args) -> player.Player:
    recording, _ = observed.run(launch, args, lines=True)
    return player.play(recording)


def unpacked(packed) -> list[int]:
    if isinstance(packed, list):
        return packed
    return [packed["from"] + n * packed["by"] for n in range(packed["n"])]


def test_player_needs_nothing_from_outside() -> None:
    html = played(pair_sum[1, 8], floats(8), floats(4)).to_page()
    assert not re.search(r"https?:|\bsrc=|<link|@import|url\(|\bfetch\(|\beval\(", html)


def test_player_data_survive_the_page_even_with_a_closing_tag_in_the_source() -> None:
    built = Builder('def k(x):\n    x[0] = 1  # </script><b>"')
    built.store(0, built.array("x", 4), 0, 2)
    made = player.play(built.recording())
    html = made.to_html()
    text = re.search(r'class="kb-data">(.*?)</script>', html, re.S)
    assert text is not None
    assert json.loads(text[1]) == json.loads(json.dumps(made.data))
    assert made.data["source"][0]["lines"][1].endswith('</script><b>"')


def test_player_without_scripts_leaves_a_table_of_the_steps() -> None:
    made = played(pair_sum[1, 8], floats(8), floats(4))
    html = made._repr_mimebundle_()["text/html"]
    left = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.S)
    assert left.count("<tr>") == 1 + len(made.said)
    assert "{" not in left
    assert "threads 0–7 have met" in left


def test_player_steps_say_who_does_what_on_which_line(line_of) -> None:
    made = played(pair_sum[1, 8], floats(8), floats(4))
    load, barrier = line_of(pair_sum, "= x[i]"), "syncthreads: threads 0–7 have met"
    assert f"Warp 0, lanes 0–7, line {load}: read x[0–7]; write tile[0–7]." in made.said
    assert any(said.startswith(barrier) for said in made.said)
    last = line_of(pair_sum, "tile[i + 4]")
    assert made.said[-1] == f"Warp 0, lanes 0–3, line {last}: read tile[0–7]; write out[0–3]."


def test_player_cells_are_those_of_the_recording() -> None:
    recording, _ = observed.run(pair_sum[1, 8], (floats(8), floats(4)), lines=True)
    made = player.play(recording)
    names = [array["short"] for array in made.data["arrays"]]
    shown = sorted(
        (kind, names[array], thread, cell)
        for step in made.data["steps"]
        for kind, array, threads, cells in step["does"]
        for thread, cell in zip(unpacked(threads), unpacked(cells), strict=True)
    )
    wanted = []
    for row in np.flatnonzero(recording.kind != Kind.LINE):
        memory = recording.allocations[recording.allocation[row]]
        cell = int(recording.address[row] - memory.address) // 4
        wanted.append((int(recording.kind[row]), memory.name, int(recording.thread[row]), cell))
    assert shown == sorted(wanted)


def test_player_shows_the_lines_of_kernel_and_device_function(line_of) -> None:
    made = played(calls_twice[1, 4], floats(4))
    firsts = [place["lines"][0] for place in made.data["source"]]
    assert firsts == ["@cuda.jit", "@cuda.jit(device=True)"]
    inside = [step for step in made.data["steps"] if step["at"] and step["at"][0] == 1]
    assert {step["at"][1] for step in inside} == {line_of(twice, "value * 2")}


def test_player_race_marks_the_steps_and_cells_that_the_error_names() -> None:
    recording, failure = observed.run(
        pair_sum_without_barrier[1, 8], (floats(8), floats(4)), lines=True
    )
    made = player.play(recording)
    assert made.remarks[0].startswith("Data race: pair_sum_without_barrier")
    marks = [mark for step in made.data["steps"] for mark in step["bad"]]
    names = [array["short"] for array in made.data["arrays"]]
    assert len(marks) == 2
    assert {names[array] for _, array, _ in marks} == {"tile"}
    assert len({cell for _, _, cell in marks}) == 1
    assert len({thread for thread, _, _ in marks}) == 2
    assert failure is None or "tile[" in str(failure)


def test_player_large_launch_is_cut_and_says_so() -> None:
    made = played(count_all[4, 64], floats(256), np.zeros(1, np.float32))
    assert len(made.data["threads"]) == player.MOST_THREADS
    assert "64 of 256 threads are shown." in made.remarks
    assert len(made.to_html()) < 40_000


def test_player_long_launch_is_cut_and_says_so() -> None:
    built = Builder("def k(x):\n    x[0] = 1")
    x = built.array("x", 1000)
    for n in range(player.MOST_STEPS + 50):
        built.store(0, x, n, 2)
    made = player.play(built.recording())
    assert len(made.data["steps"]) == player.MOST_STEPS
    assert not made.data["finished"]
    assert any("first 300 steps" in remark for remark in made.remarks)
    assert any("Not all arrays or elements" in remark for remark in made.remarks)


def test_player_without_a_step_shows_the_table_alone() -> None:
    built = Builder("def k(x):\n    pass")
    made = player.play(built.recording())
    assert made.data["steps"] == []
    assert "kb-static" in made.to_html()


def test_player_has_names_for_those_who_do_not_see_it() -> None:
    html = played(pair_sum[1, 8], floats(8), floats(4)).to_html()
    script = (ROOT / "kernelbook/simt/player.js").read_text()
    assert 'role="group"' in html
    assert 'aria-label="Step through pair_sum"' in html
    for needed in ("aria-live", "aria-valuetext", "ArrowLeft", "ArrowRight", "Home:", "End:"):
        assert needed in script


def test_two_players_of_one_launch_have_keys_of_their_own() -> None:
    made = played(pair_sum[1, 8], floats(8), floats(4))
    keys = [re.search(r'data-kb-player="([^"]+)"', made.to_html())[1] for _ in range(2)]
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "3"),
        ([0, 1, 2, 3], "0–3"),
        ([0, 2, 4, 6], "0, 2 … 6"),
        ([1, 2, 5], "1, 2, 5"),
        ([1, 2, 5, 6, 9, 11, 40], "1, 2, 5 … 40 (7)"),
    ],
)
def test_ranges_are_short_and_complete(numbers: list[int], text: str) -> None:
    assert player._ranges(numbers) == text


@pytest.mark.parametrize("numbers", [[], [4], [5, 3], [0, 1, 2, 3, 4], [7, 7, 7, 7], [1, 2, 4, 8]])
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    assert unpacked(player._packed(numbers)) == numbers


def test_player_files_are_part_of_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "simt/player.*" in data["package-data"]["kernelbook"]
