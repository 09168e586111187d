"""The comparison outside the learner's process: right answers in odd dress, wrong ones in good."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from kernelbook.grade.compare import decode, mismatch


def wire(value: Any, **about: Any) -> dict[str, Any]:
    array = np.asarray(value)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "data": base64.b64encode(array.tobytes()).decode(),
        "rtol": 1e-5,
        "atol": None,
        "equal_nan": False,
        **about,
    }


def differs(got: Any, wanted: Any, **about: Any) -> bool:
    return mismatch(decode(wire(got)), decode(wire(wanted, **about))) is not None


VALUES = np.random.default_rng(1).standard_normal(1000).astype(np.float32)


def test_mismatch_equal_values_agree() -> None:
    assert not differs(VALUES, VALUES)


def test_mismatch_rounding_agrees_half_precision_does_not() -> None:
    assert not differs(VALUES * np.float32(1 + 2e-7), VALUES)
    assert differs(VALUES.astype(np.float16).astype(np.float32), VALUES)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros_like(VALUES),
        np.full_like(VALUES, VALUES.mean()),
        np.full_like(VALUES, np.nan),
        np.concatenate([VALUES[:-1], [np.float32(0)]]),
        VALUES[:-1],
        VALUES.reshape(10, 100),
        VALUES[::-1].copy(),
        VALUES.astype(np.complex64),
        VALUES > 0,
        np.concatenate([VALUES[:-1], [np.float32(np.inf)]]),
    ],
    ids=[
        "zeros", "constant", "nan", "missing tail", "short", "shape", "order", "complex",
        "boolean", "infinity",
    ],
)  # fmt: skip
def test_mismatch_wrong_values_differ(wrong: Any) -> None:
    assert differs(wrong, VALUES)


def test_mismatch_nan_agrees_only_where_declared() -> None:
    wanted = np.array([1.0, np.nan])
    assert differs(wanted, wanted)
    assert not differs(wanted, wanted, equal_nan=True)
    assert differs(np.array([np.nan, np.nan]), wanted, equal_nan=True)


def test_mismatch_infinity_agrees_only_with_itself() -> None:
    wanted = np.array([np.inf, 1.0])
    assert not differs(wanted, wanted)
    assert differs(np.array([-np.inf, 1.0]), wanted)
    assert differs(np.array([1e308, 1.0]), wanted)


def test_mismatch_integers_compare_exactly_in_any_width() -> None:
    assert not differs(np.array([1, 2], np.int32), np.array([1, 2], np.int64))
    assert differs(np.array([1, 3], np.int64), np.array([1, 2], np.int64))
    assert differs(np.array([1.0, 2.0]), np.array([1, 2]))


def test_mismatch_integer_may_stand_for_a_float_a_boolean_may_not() -> None:
    assert not differs(2, 2.0)
    assert differs(3, 2.0)
    assert differs(np.array([True]), np.array([1.0]))


def test_mismatch_tolerance_is_the_references_own() -> None:
    lax = decode(wire(VALUES + 1, rtol=1e9, atol=1e9))
    assert mismatch(lax, decode(wire(VALUES))) is not None


def test_mismatch_empty_agrees_with_empty() -> None:
    assert not differs(np.zeros((0,), np.float32), np.zeros((0,), np.float32))


@pytest.mark.parametrize(
    "item",
    [
        None,
        "text",
        wire([1.0], dtype="O"),
        wire([1.0], dtype="|S8"),
        wire([1.0], dtype="<f8,<f8"),
        wire([1.0], dtype=["a"]),
        wire([1.0], shape=[2]),
        wire([1.0], shape=[-1]),
        wire([1.0], shape=[True]),
        wire([1.0], shape=[10**30]),
        wire([1.0], shape=[1] * 40),
        wire([1.0], data="????"),
        wire([1.0], data=5),
        wire([1.0], rtol=float("nan")),
        wire([1.0], rtol="big"),
        wire([1.0], atol=-1),
    ],
)
def test_decode_malformed_item_is_a_value_error(item: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(item)
