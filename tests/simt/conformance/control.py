"""Branches, loops, device functions, and what a variable is after them."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from conformance.case import array, conformance, out


@cuda.jit(device=True)
def scaled(x, factor):
    return x * factor


@cuda.jit(device=True)
def quotient_and_rest(a, b):
    return a // b, a % b


@cuda.jit(device=True)
def early(x):
    if x < 0:
        return -1
    for k in range(10):
        if k * k >= x:
            return k
    return 10


@cuda.jit(device=True)
def put(values, i, value):
    values[i] = value


@cuda.jit(device=True)
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


FACTOR = 3
WEIGHT = 0.1
NAMES = (1, 2.5, 3)


@conformance(3, 32, args=(array(range(500), "int32"), out("int64", 500)))
def grid_stride_loop(a, result):
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        result[i] = a[i] * 2 + 1


@conformance(
    1, 4, args=(array([0.1, 0.7, 3.3, -1.1], "float32"), *(out("float64", 4) for _ in "123"))
)
def device_function(a, by_int, by_float, by_load):
    i = cuda.grid(1)
    by_int[i] = scaled(a[i], 3)
    by_float[i] = scaled(a[i], 1.5)
    by_load[i] = scaled(a[i], a[0])


@conformance(1, 8, args=(array([-7, 7, -8, 9, 0, 5], "int32"), out("int64", 6), out("int64", 6)))
def device_function_of_two_results(a, quotient, rest):
    i = cuda.grid(1)
    if i < a.size:
        q, r = quotient_and_rest(a[i], 3)
        quotient[i] = q
        rest[i] = r
        put(rest, i, r * 10)


@conformance(1, 8, args=(array([-7, 7, 0, 50, 81, 1000], "int32"), out("int64", 6)))
def device_function_with_early_returns(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = early(a[i])


@conformance(1, 8, args=(out("int64", 8),))
def recursion(result):
    i = cuda.grid(1)
    result[i] = factorial(i + 14)


@conformance(1, 8, args=(array([-2.0, -0.5, 0.0, 0.5, 3.0], "float32"), out("float64", 5)))
def chain_of_branches(a, result):
    i = cuda.grid(1)
    if i < a.size:
        if a[i] < -1:
            result[i] = 1
        elif a[i] < 0:
            result[i] = a[i] * 2
        elif a[i] == 0:
            result[i] = -0.5
        else:
            result[i] = a[i] if a[i] > 1 else a[i] + 1


@conformance(1, 8, args=(out("int64", 8),))
def loops_with_break_continue_else(result):
    i = cuda.grid(1)
    total = 0
    for k in range(20, 0, -3):
        if k % 2 == i % 2:
            continue
        total += k
        if total > 25 + i:
            break
    else:
        total = -total
    while True:
        total += 7
        if total > 30:
            break
    result[i] = total


@conformance(1, 8, args=(out("int64", 8), out("int64", 8)))
def boolean_operators(chosen, chained):
    i = cuda.grid(1)
    chosen[i] = (i > 2 and i < 6) + 2 * (i == 0 or i == 7) + 4 * (not i)
    chained[i] = 1 if 2 < i <= 5 else 0
    if i in (1, 3, 5):
        chained[i] += 10


@conformance(
    1, 4, args=(array([0.1, 0.7, 3.3, -1.1], "float32"), *(out("float64", 4) for _ in "123"))
)
def global_constants(a, by_int, by_float, by_tuple):
    i = cuda.grid(1)
    by_int[i] = a[i] * FACTOR
    by_float[i] = a[i] * WEIGHT
    by_tuple[i] = a[i] * NAMES[0] + NAMES[1]


@conformance(1, 4, args=(array([5, 6, 7, 8], "int32"), out("int64", 4), out("float64", 4)))
def loop_variable_after_the_loop(a, result, as_float):
    i = cuda.grid(1)
    k = 100
    for k in range(i):
        result[i] += k
    result[i] = result[i] * 1000 + k
    as_float[i] = np.float32(0.1) * k


@conformance(1, 4, args=(array([5, 6, 7, 8], "int32"), out("int64", 4)))
def swap_and_multiple_assignment(a, result):
    i = cuda.grid(1)
    x, y = a[i], a[3 - i]
    x, y = y, x
    p = q = x * 10 + y
    p += 1
    result[i] = p * 1000 + q


@conformance(
    1, 4, args=(array([1.5, 2.5, 3.5, 4.5], "float32"), out("float32", 4), out("int64", 4))
)
def conditional_expression_of_two_types(a, result, parity):
    i = cuda.grid(1)
    x = a[i] if i % 2 else 1
    result[i] = x / 3
    parity[i] = x * 2


@conformance(1, 1, args=(out("float64", 6),))
def halving_and_counting(result):
    n = 100
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    result[0] = steps
    x = float32(1)
    count = 0
    while float32(1) + x > float32(1):
        x = float32(x / float32(2))
        count += 1
    result[1] = count
    result[2] = x
    y = 1.0
    count = 0
    while 1.0 + y > 1.0:
        y /= 2
        count += 1
    result[3] = count
    z = 1
    for _ in range(70):
        z *= 2
    result[4] = z
    w = 1
    for _ in range(70):
        w = w * 3
    result[5] = w


@conformance(1, 2, args=(out("int64", 2), out("float64", 2)))
def fibonacci_that_wraps(result, ratio):
    i = cuda.grid(1)
    a, b = 0, 1
    for _ in range(100 + i):
        a, b = b, a + b
    result[i] = a
    ratio[i] = a / b


@conformance(1, 4, args=(out("float64", 4), 4))
def loop_to_an_argument(result, n):
    for i in range(n):
        total = 0
        for k in range(i, n):
            total += k * n
        result[i] = total / n


@conformance(1, 4, args=(array([0.5, 1.5, 2.5, 3.5], "float32"), out("float64", 4)))
def horner(a, result):
    i = cuda.grid(1)
    value = 0.0
    for c in (0.5, 0.25, 1.0):
        value = value * a[i] + c
    result[i] = value
