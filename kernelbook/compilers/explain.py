"""A compiler's refusal in plain words.

Numba's messages run to pages, and name types where the learner wrote words. Each rule here turns
one kind into a sentence that says what was found and what to write instead. Source: messages of
numba-cuda 0.30.4, each seen on a failing kernel of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kernelbook.lift.vocabulary import CUDA_NAMES, did_you_mean

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

ARRAY_NAMES = (
    "T", "dtype", "flat", "itemsize", "nbytes", "ndim", "ravel", "reshape", "shape", "size",
    "strides", "transpose", "view",
)  # fmt: skip
LOCAL_ARRAY = "use cuda.local.array or cuda.shared.array"
WHOLE_ARRAYS = "computes with whole arrays, which needs new memory; work on single elements"
FORMATS = "formats a string, which a kernel cannot; print values apart: print('i', i)"

OPCODES = {
    "IMPORT_NAME": "imports inside a kernel; put the import at the top of a cell",
    "LOAD_BUILD_CLASS": "defines a class inside a kernel",
    "STORE_GLOBAL": "assigns a global; a kernel returns results through its array arguments",
    "UNPACK_EX": "unpacks with a star; give each value its own name",
}
OWN_NAMES = re.compile(r"\$\w[\w.]*|<kernel>|<[\w.]+ object at [^>]*>|\bunknown location\b")
OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "and_": "&", "or_": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "neg": "-", "matmul": "@",
}  # fmt: skip


def explain(error: BaseException, source: str = "") -> str:
    """The cause of a compiler's error in one or two sentences.

    source: the learner's text; names that do not stand in it are the compiler's own.
    """
    message = str(error)
    for pattern, sentence in RULES:
        if match := pattern.search(message):
            if sentence is _untyped_global and match[1] not in source:
                return f"calls something that a kernel cannot (inside: {match[1]})"
            return sentence if isinstance(sentence, str) else sentence(match)
    return _first_words(message) or type(error).__name__


def plain_type(name: str) -> str:
    """A Numba type as a reader says it: "a 1-dimensional array of float32"."""
    name = re.sub(r"Literal\[(\w+)\]\([^)]*\)", r"\1", name.strip())
    if match := re.fullmatch(r"array\((.+), (\d)d, \w+\)", name):
        return f"a {match[2]}-dimensional array of {match[1]}"
    if match := re.fullmatch(r"UniTuple\((.+) x (\d+)\)", name):
        return f"a tuple of {match[2]} {plain_type(match[1])}"
    if match := re.fullmatch(r"Tuple\((.*)\)", name):
        return f"a tuple of {match[1]}"
    if match := re.fullmatch(r"class\((.+)\)", name):
        return f"the type {match[1]}"
    if match := re.fullmatch(
        r"(?:type)?Function\(<class '(?:\w+\.)*(\w+)'>\)", name, re.IGNORECASE
    ):
        return f"the type {match[1]}"
    if match := re.search(r"Function\(<[\w -]*?(?:built-in )?function (\w+)", name):
        return f"the function {match[1]}"
    if name.startswith("DictType"):
        return "a dict"
    if name.startswith(("list(", "reflected list(")):
        return "a list"
    words = {
        "none": "None", "unicode_type": "a string", "str": "a string",
        "Dim3": "a triple of x, y and z",
    }  # fmt: skip
    return words.get(name, name)


def split_types(text: str) -> list[str]:
    """The arguments of a Numba signature, split at the commas outside all brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _unknown_attribute(match: re.Match[str]) -> str:
    name, kind = match[1], match[2]
    if kind.startswith("list("):
        return f"builds a list, which a kernel cannot; {LOCAL_ARRAY}"
    names = ARRAY_NAMES if kind.startswith("array(") else ("x", "y", "z") if kind == "Dim3" else ()
    meant = did_you_mean(name, names, ".")
    return f"reads .{name} of {plain_type(kind)}, which has no such attribute{meant}"


def _module_attribute(match: re.Match[str]) -> str:
    where, name = match[1] or match[2], match[3]
    where = {"numba.cuda": "cuda", "numpy": "np", "atomic": "cuda.atomic"}.get(where, where)
    known = CUDA_NAMES if where == "cuda" else ()
    return f"uses {where}.{name}, which does not exist{did_you_mean(name, known, 'cuda.')}"


def _untyped_global(match: re.Match[str]) -> str:
    name, kind = match[1], match[2]
    if kind == "function":
        return f"calls {name}(), a plain Python function; put @cuda.jit(device=True) above its def"
    if kind in ("builtin_function_or_method", "type"):
        return f"uses {name}, which runs only on the host"
    return f"uses {name}, a {kind}, which a kernel cannot; pass what it holds as an argument"


def _no_implementation(match: re.Match[str]) -> str:
    """The type errors proper: a function or operator applied to types that it does not take."""
    name, types = match[1], split_types(match[2])
    if name == "setitem" and len(types) == 3:
        return _bad_store(types, match.string)
    if name == "getitem" and len(types) == 2:
        return _bad_index("reads from", types[0], types[1], match.string)
    if name == "array":
        return _bad_array(types, match.string)
    if name in ("zeros", "empty", "ones", "full", "arange", "array_like", "_ol_array_allocate"):
        return f"makes a new array, which a kernel cannot; {LOCAL_ARRAY}"
    if name in ("str", "mod") and ("str" in match[2] or name == "str"):
        return FORMATS
    if name == "grid" or name == "gridsize":
        return f"gives cuda.{name} something other than a plain 1, 2 or 3"
    if name.startswith("syncthreads_") and types == ["bool"]:
        return f"gives cuda.{name} a bool; it takes an int32: write int32(...) around it"
    if name == "bool" and types[0].startswith("array("):
        return f"asks whether {plain_type(types[0])} is true; test a single element"
    given = " and ".join(plain_type(t) for t in types) or "nothing"
    if name in OPERATORS:
        return f"applies {OPERATORS[name]} to {given}, which is not defined"
    if "too many positional" in match.string or "missing a required" in match.string:
        return f"calls {name} with the wrong number of arguments ({given})"
    return f"calls {name} with {given}, which it does not take"


def _bad_store(types: list[str], message: str) -> str:
    target, index, value = types
    if target.startswith("DictType"):
        return f"uses a dict, which a kernel cannot; {LOCAL_ARRAY}"
    if "Unsupported array index" in message or "cannot index" in message:
        return _bad_index("writes to", target, index, message)
    if not target.startswith("array("):
        return f"writes to an element of {plain_type(target)}, which cannot be changed"
    hint = "; give the value an index too, one for each axis" if value.startswith("array(") else ""
    return f"stores {plain_type(value)} in one element of {plain_type(target)}{hint}"


def _bad_index(verb: str, target: str, index: str, message: str) -> str:
    if target.startswith("DictType"):
        return f"uses a dict, which a kernel cannot; {LOCAL_ARRAY}"
    if many := re.search(r"cannot index .* with (\d+) indices", message):
        return f"{verb} {plain_type(target)} with {many[1]} indices"
    hint = "; an index is an integer: divide by //, or write int(...) around it"
    return f"{verb} {plain_type(target)} with {plain_type(index)} as index" + (
        hint if "float" in index else ""
    )


def _bad_array(types: list[str], message: str) -> str:
    if "missing a required argument: 'dtype'" in message:
        return "makes an array without its type: cuda.shared.array(shape, dtype), say float32"
    sizes = types[0] if types else ""
    if re.search(r"u?int\d+", re.sub(r"Literal\[int\]\(\d+\)", "", sizes)):
        return (
            "makes a shared or local array whose size is computed; write the size as a number, or "
            "as one name that the top of a cell sets (PADDED = TILE + 1)"
        )
    if len(types) == 2 and plain_type(types[1]) in ("the type float", "the type int"):
        kind = plain_type(types[1]).removeprefix("the type ")
        return f"makes an array of {kind}, which has no fixed width; name one: {kind}32 or {kind}64"
    return f"makes an array from {' and '.join(plain_type(t) for t in types)}"


def _needs_memory(match: re.Match[str]) -> str:
    doing = match[1]
    if "build_list" in doing:
        return f"builds a list, which a kernel cannot; {LOCAL_ARRAY}"
    if "slice(" in doing:
        return "copies a whole slice at once; write a loop over its elements"
    return "needs new memory inside a kernel, which is not to be had; work on single elements"


def _opcode(match: re.Match[str]) -> str:
    if match[1].startswith("MATCH_"):
        return "matches a pattern, which a kernel cannot; write if and elif"
    return OPCODES.get(match[1], "uses a statement or expression that a kernel cannot")


def _untyped(match: re.Match[str]) -> str:
    name = match[1]
    if name.startswith("$"):
        return (
            "holds a value whose type the compiler cannot find; a name set inside an expression "
            "(:=) can cause this: write each assignment on its own line"
        )
    return f"uses {name.split('.')[0]}, whose type the compiler cannot find; give it one type"


def _bad_call(match: re.Match[str]) -> str:
    name, types = match[1], split_types(match[2])
    given = " and ".join(plain_type(t) for t in types)
    if name == "getiter":
        hint = "; write range(...) around a number" if re.search("int|float", given) else ""
        return f"loops over {given}, which cannot be looped over{hint}"
    if name == "setattr" or name == "static_setattr":
        return f"sets an attribute of {given}; a kernel writes to the elements of its arrays"
    return f"calls {plain_type(name)} as if it were a function; an index stands in [ ]"


def _cannot_unify(match: re.Match[str]) -> str:
    first, second, name = plain_type(match[1]), plain_type(match[2]), match[3].split(".")[0]
    return (
        f"{name!r} is {first} on one path and {second} on another; give it one type, "
        "or use two names"
    )


def _first_words(message: str) -> str:
    for line in message.splitlines():
        line = line.strip()
        if line and not line.startswith(("Failed in", "During:", "File ", "- Resolution")):
            line = re.sub(r"\s*\(\d+:\d+\)|[,;]?\s*(?:operation|location):.*", "", line)
            said = OWN_NAMES.sub("…", line).strip(" .:,")
            return f"the compiler says: {said[:200]}" if said else ""
    return ""


RULES: list[Rule] = [
    (re.compile(r"set_try_status|exception_match"),
     "uses try/except, which a kernel cannot; test with if"),
    (re.compile(r">>> (?:str|format)\(|build_string"), FORMATS),
    (re.compile(r"build_set"), f"builds a set, which a kernel cannot; {LOCAL_ARRAY}"),
    (re.compile(r"with \(context manager\)|terminator_types|BEFORE_WITH"),
     "uses a with block, which a kernel cannot"),
    (re.compile(r"get_function_type'"), "yields, which a kernel cannot"),
    (re.compile(r"void return type"),
     "returns a value; a kernel writes its results into an array argument"),
    (re.compile(r"scipy|matmul\("),
     "multiplies whole arrays with @; a kernel computes single elements: write the loop"),
    (re.compile(r"cannot unify (.+) and (.+?) for '([^']+)'", re.IGNORECASE), _cannot_unify),
    (re.compile(r"re-entrant|[Rr]ecursion"), "calls itself; write a loop"),
    (re.compile(r"name '(\w+)' is not defined"),
     lambda m: f"uses {m[1]!r}, which is not defined"),
    (re.compile(r"Variable '(\w+)' is not defined|[Vv]ariable '(\w+)' referenced before"),
     lambda m: f"uses {(m[1] or m[2])!r} before it has a value"),
    (re.compile(r"Untyped global name '([^']+)':.*?<class '(?:[\w.]*\.)?(\w+)'>", re.DOTALL),
     _untyped_global),
    (re.compile(r"Unknown attribute '(\w+)' of type (.+)"), _unknown_attribute),
    (re.compile(r"(?:module '([\w.]+)'|type object '(\w+)') has no attribute '(\w+)'"),
     _module_attribute),
    (re.compile(r"failed to unpack (.+)"),
     lambda m: f"unpacks {plain_type(m[1])} into several names; cuda.grid(2) gives two"),
    (re.compile(r"Cannot bind .*?signature '\((.*?)\)'"),
     lambda m: f"calls a device function with the wrong number of arguments; it takes ({m[1]})"),
    (re.compile(r"(\w+)\(\) missing \d+ required positional arguments?: (.+)"),
     lambda m: f"calls {m[1]} without {m[2]}"),
    (re.compile(r"not enough values to unpack \(expected (\d), got (\d)\)"),
     lambda m: f"gives {m[2]} arguments for {m[1]}; atomics take (array, index, value)"),
    (re.compile(r"_ol_array_allocate|^<ufunc "), WHOLE_ARRAYS),
    (re.compile(r"Illegal IR, del"), "deletes a name; leave the del out"),
    (re.compile(r"Invalid use of (.+) with parameters \((.*)\)"), _bad_call),
    (re.compile(r"Casting array\(.+\) to (\w+) directly"),
     lambda m: f"makes a {m[1]} of a whole array; give the array an index"),
    (re.compile(r"Type of variable '([^']+)' cannot be determined"), _untyped),
    (re.compile(r"Cannot resolve setattr: \((.+)\)\.(\w+) ="),
     lambda m: f"sets .{m[2]} of {plain_type(m[1])}; a kernel writes to elements of arrays"),
    (re.compile(r"(\w+)\(\) takes (\d+) positional arguments? but (\d+) (?:was|were) given"),
     lambda m: f"calls {m[1]} with too many arguments"),
    (re.compile(r"print\(\) function implementation does not support keyword"),
     "prints with a keyword such as end=; a kernel's print takes values alone"),
    (re.compile(r"object has no attribute 'dtype'"),
     "gives an element where an array is wanted; atomics take (array, index, value)"),
    (re.compile(r"ERROR_INVALID_IR"),
     "is refused by the compiler's last step, without a line; a float where an integer is wanted "
     "can cause this, such as the distance of a shuffle"),
    (re.compile(r"Cannot cast (.+) to (\w+)"),
     lambda m: f"uses {plain_type(m[1])} where {m[2]} is wanted"),
    (re.compile(r"printing unimplemented for values of type (.+)"),
     lambda m: f"prints {plain_type(m[1])}; a kernel prints single numbers and strings"),
    (re.compile(r"OverloadSelector.*\(List\("),
     "uses a list from outside, which a kernel cannot; pass an array as an argument"),
    (re.compile(r"Keyword arguments are not supported"),
     "passes an argument by name, which this function does not take"),
    (re.compile(r"No implementation of function (?:Function\(<[^>]*>\)|\S+) found for signature:"
                r"\s*>>> ([\w.]+)\s*\((.*)\)\s*$", re.MULTILINE), _no_implementation),
    (re.compile(r"NRT required but not enabled\s*(?:During: lowering \"(.*)\")?"),
     lambda m: _needs_memory(m) if m[1] else
     "needs new memory inside a kernel, which is not to be had; work on single elements"),
    (re.compile(r"unsupported opcode \((\w+)\)"), _opcode),
    (re.compile(r"[Uu]se of a (\w+) (?:is )?not supported"), lambda m: f"uses a {m[1]}"),
]  # fmt: skip
