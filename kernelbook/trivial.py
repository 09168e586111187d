"""Answers that compute nothing: do nothing, write a constant, echo an input.

Every hidden test must reject all three; a test that does not is one that an accident could pass.
They are made from what the source says of an exercise, so that no author has to think of them.
"""

from __future__ import annotations

import ast
import re

from kernelbook.source import Exercise, Kind

CONSTANT = 1


def trivial_answers(exercise: Exercise) -> dict[str, str]:
    """``{"does nothing": source, "writes a constant": …, "echoes its input": …}``."""
    bodies = {
        Kind.KERNEL: _kernel_bodies,
        Kind.FUNCTION: _function_bodies,
        Kind.SOURCE: _cuda_bodies,
    }
    return bodies[exercise.kind](exercise)


def _kernel_bodies(exercise: Exercise) -> dict[str, str]:
    definition = _definition(exercise)
    names = [argument.arg for argument in definition.args.args]
    ndims = {
        name: _ndim(text) for name, text in zip(names, _types(exercise.signature), strict=True)
    }
    arrays = [name for name in names if ndims[name]]
    if not arrays:  # a device function on scalars: nothing is written, something is returned
        return _value_bodies(exercise, names)
    out = exercise.out or arrays[-1]
    source = next((name for name in arrays if name != out), out)
    same = ndims[source] == ndims[out]
    index = [f"i{axis}" for axis in range(ndims[out])]
    echo = [f"{i} % {source}.shape[{axis}]" for axis, i in enumerate(index)]
    echo = echo if same else ["0"] * ndims[source]
    return {
        "does nothing": _kernel(exercise.id, names, "pass"),
        "writes a constant": _kernel(exercise.id, names, _filled(out, index, str(CONSTANT))),
        "echoes its input": _kernel(
            exercise.id, names, _filled(out, index, f"{source}[{', '.join(echo)}]")
        ),
    }


def _kernel(name: str, arguments: list[str], body: str) -> str:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return f"@cuda.jit\ndef {name}({', '.join(arguments)}):\n{indented}\n"


def _filled(out: str, index: list[str], value: str) -> str:
    """One thread of the grid writes ``value`` to every element of ``out``."""
    lines = ["if cuda.grid(1) == 0 and cuda.blockIdx.y == 0 and cuda.threadIdx.y == 0:"]
    for depth, name in enumerate(index):
        lines.append("    " * (depth + 1) + f"for {name} in range({out}.shape[{depth}]):")
    lines.append("    " * (len(index) + 1) + f"{out}[{', '.join(index)}] = {value}")
    return "\n".join(lines)


def _value_bodies(exercise: Exercise, names: list[str]) -> dict[str, str]:
    head = f"@cuda.jit(device=True)\ndef {exercise.id}({', '.join(names)}):\n    return "
    return {
        "does nothing": f"{head}0\n",
        "writes a constant": f"{head}{CONSTANT}\n",
        "echoes its input": f"{head}{names[0]}\n",
    }


def _function_bodies(exercise: Exercise) -> dict[str, str]:
    definition = _definition(exercise)
    names = [argument.arg for argument in definition.args.args]
    head = f"def {exercise.id}({', '.join(names)}):\n    "
    return {
        "does nothing": f"{head}pass\n",
        "writes a constant": f"{head}return {CONSTANT}\n",
        "echoes its input": f"{head}return {names[0] if names else None}\n",
    }


def _cuda_bodies(exercise: Exercise) -> dict[str, str]:
    """The solution's own signature over an empty body, or one store to each pointer's start."""
    head = re.search(
        rf'extern\s+"C"\s+__global__[^{{;]*\b{exercise.entry}\s*\(([^)]*)\)', exercise.solution
    )
    if head is None:
        raise ValueError(
            f'{exercise.id}: no extern "C" __global__ {exercise.entry}(…) in the source'
        )
    pointers = re.findall(r"(const\s+)?\w+\s*\*\s*(?:__restrict__\s+)?(\w+)", head[1])
    outputs = [name for const, name in pointers if not const] or [pointers[-1][1]]
    inputs = [name for const, name in pointers if const] or outputs
    bodies = {
        "does nothing": "",
        "writes a constant": f"{outputs[0]}[blockIdx.x] = {CONSTANT};",
        "echoes its input": f"{outputs[0]}[blockIdx.x] = {inputs[0]}[blockIdx.x];",
    }
    return {
        name: f"{exercise.id} = r'''\n{head[0]} {{ {body} }}\n'''\n"
        for name, body in bodies.items()
    }


def _definition(exercise: Exercise) -> ast.FunctionDef:
    for node in ast.parse(exercise.solution).body:
        if isinstance(node, ast.FunctionDef) and node.name == exercise.id:
            return node
    raise ValueError(f"{exercise.id}: the solution defines no function of that name")


def _types(signature: str) -> list[str]:
    """``"float32[:, ::1], int32"`` → one text per argument; commas inside brackets don't count."""
    return [
        part.strip() for part in re.split(r",(?![^\[]*\])", signature.strip("()")) if part.strip()
    ]


def _ndim(text: str) -> int:
    inside = re.search(r"\[(.*)\]", text)
    return len(inside[1].split(",")) if inside else 0
