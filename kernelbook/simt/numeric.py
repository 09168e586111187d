"""Numba's rules for the type of a result: ``kind("add", "uint8", "int64")`` is "int64".

Integers of any width compute in 64 bits, unsigned only where both are. A float32 stays one beside
a float32 or an integer that it holds exactly, and becomes a float64 beside any other.

Source: numba-cuda 0.30.4, what ``resolve_function_type`` and ``unify_pairs`` of its typing context
answer for each pair.
"""

from __future__ import annotations

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = ("bool", *SIGNED, *UNSIGNED)
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = (*INTEGERS, *FLOATS, *COMPLEX)

WIDTH = {"bool": 1, **{kind: int(kind.strip("uintfloacmpex")) for kind in KINDS[1:]}}
# The float that an integer computes in beside a float16 or a float32; a float64 for the rest.
_BESIDE = {
    "float16": {"bool": "float16", "int8": "float16", "int16": "float32", "uint8": "float32"},
    "float32": {"bool": "float32", "int8": "float32", "int16": "float32", "uint8": "float32"},
}
# The same where a variable may be either.
_EITHER = {
    "float16": {
        "bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32",
        "uint16": "float32",
    },
    "float32": dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16"), "float32"),
}  # fmt: skip


def kind(operation: str, left: str, right: str) -> str:
    """The type of ``left operation right``. operation: the name of an AST operator in lower case.

    Returns "" where the compiler refuses the pair.
    """
    if left in INTEGERS and right in INTEGERS:
        return _of_integers(operation, left, right)
    if operation in ("lshift", "rshift", "bitand", "bitor", "bitxor"):
        return ""
    result = _widest(left, right, _BESIDE)
    if operation in ("floordiv", "mod"):
        return "" if result in COMPLEX else max(result, "float32", key=WIDTH.__getitem__)
    if operation == "pow" and left in FLOATS and right in INTEGERS:
        return max(left, "float32", key=WIDTH.__getitem__)
    if operation == "pow" and result == "float16":
        return "float32"
    return result


def either(left: str, right: str) -> str:
    """The type of a variable that is assigned a ``left`` on one way and a ``right`` on another."""
    if left == right:
        return left
    if left not in INTEGERS or right not in INTEGERS:
        return _widest(left, right, _EITHER)
    if "bool" in (left, right):
        return right if left == "bool" else left
    signs = left in SIGNED, right in SIGNED
    if signs[0] == signs[1]:
        return max(left, right, key=WIDTH.__getitem__)
    signed, unsigned = (left, right) if signs[0] else (right, left)
    if WIDTH[signed] > WIDTH[unsigned]:
        return signed
    return "float64" if unsigned == "uint64" else f"int{2 * WIDTH[unsigned]}"


def _of_integers(operation: str, left: str, right: str) -> str:
    if operation == "div":
        return "float64"
    if operation in ("lshift", "rshift"):
        return "uint64" if left in UNSIGNED else "int64"
    if left == right == "bool" and operation in ("bitand", "bitor", "bitxor"):
        return "bool"
    return "uint64" if left in UNSIGNED and right in UNSIGNED else "int64"


def _widest(left: str, right: str, beside: dict[str, dict[str, str]]) -> str:
    parts = {"complex64": "float32", "complex128": "float64"}
    a, b = parts.get(left, left), parts.get(right, right)
    if a in INTEGERS:
        a, b = b, a
    found = (
        beside.get(a, {}).get(b, "float64") if b in INTEGERS else max(a, b, key=WIDTH.__getitem__)
    )
    if left in COMPLEX or right in COMPLEX:
        return "complex128" if found == "float64" else "complex64"
    return found
