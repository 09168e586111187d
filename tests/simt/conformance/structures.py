"""Tuples, named tuples and records as arguments and locals."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import cuda

from conformance.case import Out, array, conformance, out

Point = namedtuple("Point", ("x", "y"))
PAIR = np.dtype([("count", "int32"), ("weight", "float32")], align=True)
RECORDS = np.array([(1, 0.1), (2, 0.7), (-3, 3.3)], PAIR)


@conformance(1, 1, args=((1, 2.5, np.float32(0.1)), out("float64", 4)))
def tuple_argument(values, result):
    result[0] = values[0] / 2
    result[1] = values[1] * values[2]
    result[2] = values[2] * values[2]
    result[3] = len(values)


@conformance(
    1, 3, args=((array([1, 2, 3], "int32"), array([0.1, 0.2, 0.3], "float32")), out("float64", 3))
)
def tuple_of_arrays(arrays, result):
    i = cuda.grid(1)
    result[i] = arrays[0][i] * arrays[1][i]


@conformance(1, 1, args=(Point(3, 0.5), out("float64", 3)))
def named_tuple(point, result):
    result[0] = point.x * point.y
    result[1] = point[0] // 2
    x, y = point
    result[2] = x + y


@conformance(1, 4, args=(array([1, 2, 3, 4], "int32"), out("int64", 4)))
def local_tuples(a, result):
    i = cuda.grid(1)
    pair = (a[i], a[3 - i])
    triple = (pair[1], *pair) if False else (pair[1], pair[0], i)
    offsets = (10, 20, 30, 40)
    result[i] = triple[0] * 100 + triple[1] * 10 + triple[2] + offsets[i]


@conformance(1, 3, args=(RECORDS, *(out("float64", 3) for _ in "123")))
def record_fields(records, count, weight, product):
    i = cuda.grid(1)
    count[i] = records[i].count - 1
    weight[i] = records[i].weight * records[i].weight
    product[i] = records[i]["weight"] * records[i]["count"]


@conformance(1, 3, args=(RECORDS, Out(np.zeros(3, np.float32)), out("int32", 3)))
def record_stores(records, weights, counts):
    i = cuda.grid(1)
    records[i].count = records[i].count * 2
    records[i].weight = i * 0.1
    weights[i] = records[i].weight
    counts[i] = records[i].count


@conformance(1, 3, args=(RECORDS, Out(np.zeros(3, np.float32)), out("int32", 3)))
def record_assignment(records, weights, counts):
    i = cuda.grid(1)
    if i == 0:
        records[0] = records[2]
    weights[i] = records[i].weight
    counts[i] = records[i].count


@conformance(1, 1, args=(None, 5, out("int64", 2)))
def optional_argument(missing, number, result):
    result[0] = 1 if missing is None else 2
    result[1] = 1 if number is None else number
