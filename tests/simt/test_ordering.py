"""Host code, streams and events: what is read before it is waited for is reported, no more."""

import json
import re
from pathlib import Path

import host_order
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from kernelbook import poison, simt
from kernelbook.simt import ordering, spans
from kernelbook.simt.clocks import LEGACY, Clocks
from kernelbook.simt.errors import HostOrderError

N = 8
RECORDED = Path(__file__).parent / "host-order-h200.json"


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@cuda.jit
def copy_half(x, out, first):
    i = cuda.grid(1) + first
    out[i] = x[i]


@pytest.fixture(autouse=True)
def diagnosed():
    ordering.forget()
    with simt.diagnosis():
        yield
    ordering.forget()


def ones(make=np.ones):
    x = make(N, np.float32)
    x[:] = 1
    return x


MAKERS = pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])


@pytest.mark.parametrize("look", [np.shape, np.empty_like, lambda x: x[1:], lambda x: x.nbytes])
def test_shape_and_slices_of_a_mapped_array_read_no_element(look):
    x = ones(cuda.mapped_array)
    double[1, N](x)
    look(x)


@MAKERS
def test_mapped_array_read_after_a_launch_names_both_lines_and_the_call(make, line_of):
    x = ones(make)

    def host():
        double[1, N](x)
        return x[3]

    host.py_func = host
    with pytest.raises(HostOrderError) as caught:
        host()
    message = str(caught.value)
    reads, launches = line_of(host, "return x"), line_of(host, "double[1")
    assert message.startswith(f"line {reads}: the host reads x while double (line {launches}, ")
    assert f"Call cuda.synchronize() before line {reads}." in message
    assert f"{reads} | return x[3]" in message
    assert f"{launches} | double[1, N](x)" in message


def waits():
    """Ways to wait for the launch of ``double`` on a stream of a name."""

    def for_event(stream):
        event = cuda.event()
        event.record(stream)
        event.synchronize()

    def by_asking(stream):
        event = cuda.event()
        event.record(stream)
        while not event.query():
            pass

    def by_another_stream(stream):
        event, other = cuda.event(), cuda.stream()
        event.record(stream)
        event.wait(other)
        other.synchronize()

    def by_copying(stream):
        cuda.to_device(np.ones(1)).copy_to_host()

    def by_a_pageable_copy_on_the_stream(stream):
        cuda.device_array(1).copy_to_host(stream=stream)

    def by_an_element(stream):
        assert cuda.to_device(np.ones(1))[0] == 1

    def by_a_plain_launch(stream):
        double[1, N](np.ones(N))

    def by_a_callback(stream):
        stream.add_callback(lambda *_: None)

    return [
        lambda stream: cuda.synchronize(),
        lambda stream: stream.synchronize(),
        lambda stream: cuda.default_stream().synchronize(),
        lambda stream: cuda.current_context().synchronize(),
        for_event,
        by_asking,
        by_another_stream,
        by_copying,
        by_a_pageable_copy_on_the_stream,
        by_an_element,
        by_a_plain_launch,
        by_a_callback,
    ]


@pytest.mark.parametrize("wait", waits())
@MAKERS
def test_mapped_array_read_after_waiting_is_accepted(make, wait):
    x, stream = ones(make), cuda.stream()
    double[1, N, stream](x)
    wait(stream)
    assert x.tolist() == [2] * N


def test_auto_synchronize_waits_at_its_end():
    x, stream = ones(cuda.mapped_array), cuda.stream()
    with stream.auto_synchronize():
        double[1, N, stream](x)
        with pytest.raises(HostOrderError):
            x[0]
    assert x[0] == 2


def early_event(stream):
    event = cuda.event()
    event.record(stream)
    return event.synchronize


def other_stream(stream):
    return cuda.stream().synchronize


def event_of_another_stream(stream):
    def wait():
        event = cuda.event()
        event.record(cuda.stream())
        event.synchronize()

    return wait


@pytest.mark.parametrize("prepare", [early_event, other_stream, event_of_another_stream])
def test_mapped_array_read_after_waiting_for_something_else_is_reported(prepare):
    x, stream = ones(cuda.mapped_array), cuda.stream()
    wait = prepare(stream)
    double[1, N, stream](x)
    wait()
    with pytest.raises(HostOrderError, match=r"stream stream\).*Call stream\.synchronize\(\)"):
        x[0]


READS = {
    "item": lambda x: x[0],
    "list": lambda x: x.tolist(),
    "sum": lambda x: x.sum(),
    "function": np.sum,
    "operator": lambda x: x + 1,
    "comparison": lambda x: x == 2,
    "mask": lambda x: x[np.ones(N, np.bool_)],
    "indices": lambda x: x[[0, 1]],
    "slice": lambda x: float(x[1:2].sum()),
    "iteration": list,
    "text": str,
    "repr": repr,
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(np.float64),
    "mean": lambda x: x.mean(),
    "argmax": lambda x: x.argmax(),
    "dot": lambda x: x @ x,
    "into": lambda x: np.copyto(np.zeros(N, np.float32), x),
    "concatenate": lambda x: np.concatenate([x, x]),
    "testing": lambda x: np.testing.assert_array_less(np.zeros(N), x),
    "allclose": lambda x: np.allclose(x, 2),
    "contains": lambda x: 2 in x,
    "reshape": lambda x: x.reshape(2, 4)[1, 1],
}
WRITES = {
    "item": lambda x: x.__setitem__(0, 5),
    "slice": lambda x: x[2:4].__setitem__(slice(None), 5),
    "in_place": lambda x: x.__iadd__(1),
    "fill": lambda x: x.fill(0),
    "sort": lambda x: x.sort(),
    "copyto": lambda x: np.copyto(x, np.ones(N, np.float32)),
    "out": lambda x: np.add(np.ones(N), 1, out=x, casting="unsafe"),
    "at": lambda x: np.add.at(x, [0], 1),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_way_to_read_a_mapped_array_is_checked(read):
    x = ones(cuda.mapped_array)
    read(x)
    double[1, N](x)
    with pytest.raises(HostOrderError, match="the host reads x"):
        read(x)
    cuda.synchronize()
    read(x)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_way_to_overwrite_a_mapped_array_is_checked(write):
    x, out = ones(cuda.mapped_array), cuda.device_array(N, np.float32)
    write(x)
    copy[1, N](x, out)
    assert x[0] is not None, "a launch that only reads does not keep the host from reading"
    with pytest.raises(HostOrderError, match=r"overwrites x while copy .* may still be reading it"):
        write(x)
    cuda.synchronize()
    write(x)


def test_other_elements_of_a_mapped_array_are_free():
    x, out = ones(cuda.mapped_array), ones(cuda.mapped_array)
    copy_half[1, N // 2](x, out, 0)
    assert out[N // 2 :].tolist() == [1] * (N // 2)
    out[N // 2] = 3
    with pytest.raises(HostOrderError):
        out[N // 2 - 1]


def test_elements_between_those_that_a_launch_writes_are_free():
    @cuda.jit
    def ends(out):
        out[cuda.threadIdx.x * (N - 1)] = 5

    out = ones(cuda.mapped_array)
    ends[1, 2](out)
    assert out[1 : N - 1].tolist() == [1] * (N - 2)
    for end in (0, N - 1):
        with pytest.raises(HostOrderError):
            out[end]


def test_result_of_arithmetic_on_a_mapped_array_is_an_array_of_its_own():
    x = ones(cuda.mapped_array)
    y = x + 1
    double[1, N](x)
    assert y.tolist() == [2] * N


@pytest.mark.parametrize("stream_is", ["stream", "default"])
def test_pinned_array_read_before_the_copy_is_waited_for_is_reported(stream_is):
    stream = cuda.stream() if stream_is == "stream" else cuda.default_stream()
    x = cuda.to_device(np.arange(N, dtype=np.float32))
    out = cuda.pinned_array(N, np.float32)
    x.copy_to_host(out, stream=stream)
    with pytest.raises(HostOrderError, match="reads out while the copy to out"):
        out[0]
    assert poison.untouched(np.asarray(out)).all(), "however it is read, nothing is there yet"
    stream.synchronize()
    assert out.tolist() == list(range(N))


def test_pinned_array_keeps_the_values_of_the_time_of_the_copy():
    stream = cuda.stream()
    x, out = cuda.to_device(ones()), cuda.pinned_array(N, np.float32)
    x.copy_to_host(out, stream=stream)
    double[1, N, stream](x)
    stream.synchronize()
    assert out.tolist() == [1] * N


def test_pinned_copy_without_a_stream_is_synchronous():
    out = cuda.pinned_array(N, np.float32)
    cuda.to_device(ones()).copy_to_host(out)
    assert out[0] == 1


def test_ordinary_array_pinned_for_a_while_holds_poison_until_the_wait():
    stream = cuda.stream()
    x, out = cuda.to_device(ones()), np.zeros(N, np.float32)
    with cuda.pinned(out):
        x.copy_to_host(out, stream=stream)
        assert poison.untouched(out).all()
        stream.synchronize()
        assert out[0] == 1
    x.copy_to_host(out, stream=stream)
    assert out[0] == 1, "pageable again"


def test_pageable_copies_on_a_stream_are_staged():
    stream = cuda.stream()
    source = ones()
    x = cuda.to_device(source, stream=stream)
    source[:] = 7
    double[1, N, stream](x)
    assert x.copy_to_host(stream=stream).tolist() == [2] * N


def test_pinned_source_overwritten_before_the_wait_is_reported():
    stream = cuda.stream()
    source = ones(cuda.pinned_array)
    cuda.to_device(source, stream=stream)
    assert source[0] == 1, "reading it is harmless"
    with pytest.raises(HostOrderError, match="overwrites source while the copy of source"):
        source[0] = 2
    stream.synchronize()
    source[0] = 2


def test_pinned_source_overwritten_unseen_is_reported_at_the_wait():
    stream = cuda.stream()
    source = ones()
    with cuda.pinned(source):
        cuda.to_device(source, stream=stream)
        source[0] = 2
        with pytest.raises(HostOrderError, match=r"source of the copy of source .* overwritten"):
            stream.synchronize()
    cuda.synchronize()


def test_pinned_argument_that_is_only_read_is_not_overwritten_before_the_wait():
    stream = cuda.stream()
    x, out = ones(cuda.pinned_array), cuda.device_array(N, np.float32)
    copy[1, N, stream](cuda.In(x), out)
    with pytest.raises(HostOrderError, match="overwrites x while the copy of x"):
        x.fill(3)
    stream.synchronize()
    x.fill(3)


def test_pinned_buffer_there_and_back_on_one_stream_is_accepted():
    stream = cuda.stream()
    buffer = ones(cuda.pinned_array)
    for _ in range(3):
        x = cuda.to_device(buffer, stream=stream)
        double[1, N, stream](x)
        x.copy_to_host(buffer, stream=stream)
    stream.synchronize()
    assert buffer.tolist() == [8] * N


def test_pinned_argument_of_a_launch_on_a_stream_comes_back_with_the_wait():
    stream = cuda.stream()
    x = ones(cuda.pinned_array)
    double[1, N, stream](x)
    with pytest.raises(HostOrderError):
        x[0]
    stream.synchronize()
    assert x.tolist() == [2] * N


@pytest.mark.parametrize("stream_is", ["none", "stream"])
def test_ordinary_arrays_come_back_with_the_launch(stream_is):
    x = ones()
    double[1, N, cuda.stream() if stream_is == "stream" else 0](x)
    assert x.tolist() == [2] * N


def test_device_arrays_without_streams_need_no_waiting():
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    double[1, N](x)
    copy[1, N](x, out)
    assert out.copy_to_host().tolist() == [2] * N
    assert not ordering.outstanding()


def test_two_streams_with_nothing_between_are_reported_with_both_lines(line_of):
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)

    def host():
        double[1, N, a](x)
        copy[1, N, b](x, out)

    host.py_func = host
    with pytest.raises(HostOrderError) as caught:
        host()
    message = str(caught.value)
    first, second = line_of(host, "double[1"), line_of(host, "copy[1")
    assert message.startswith(f"line {second}: copy (stream b) reads x while double (line {first}")
    assert re.search(rf"event after line {first} .* or call a\.synchronize\(\)", message)
    assert f"{first} | double[1, N, a](x)" in message


def test_two_streams_that_write_the_same_are_reported():
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    copy[1, N, a](x, out)
    with pytest.raises(HostOrderError, match=r"stream b\) writes out while .* still be writing"):
        copy[1, N, b](x, out)


def test_two_streams_one_reads_what_the_other_then_writes_are_reported():
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    copy[1, N, a](x, out)
    with pytest.raises(HostOrderError, match=r"stream b\) writes x while .* still be reading"):
        double[1, N, b](x)


def test_two_streams_that_only_read_the_same_are_accepted():
    a, b = cuda.stream(), cuda.stream()
    x = cuda.to_device(ones())
    for stream in (a, b):
        copy[1, N, stream](x, cuda.device_array(N, np.float32))


def by_event(a, b):
    event = cuda.event()
    event.record(a)
    event.wait(b)


def by_events_through_a_third(a, b):
    third = cuda.stream()
    by_event(a, third)
    by_event(third, b)


def by_host(a, b):
    a.synchronize()


def by_default_stream(a, b):
    double[1, N](cuda.to_device(np.ones(N)))


@pytest.mark.parametrize(
    "between", [by_event, by_events_through_a_third, by_host, by_default_stream]
)
def test_two_streams_with_an_order_between_are_accepted(between):
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    double[1, N, a](x)
    between(a, b)
    copy[1, N, b](x, out)
    assert out.copy_to_host().tolist() == [2] * N


def test_event_waited_for_in_the_wrong_stream_is_reported():
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    double[1, N, a](x)
    by_event(b, a)
    with pytest.raises(HostOrderError):
        copy[1, N, b](x, out)


def test_two_streams_on_halves_of_one_array_are_accepted():
    a, b = cuda.stream(), cuda.stream()
    x, out = cuda.to_device(ones()), cuda.device_array(N, np.float32)
    copy_half[1, N // 2, a](x, out, 0)
    copy_half[1, N // 2, b](x, out, N // 2)
    double[1, N // 2, a](out[: N // 2])
    double[1, N // 2, b](out[N // 2 :])
    assert out.copy_to_host().tolist() == [2] * N


def test_copy_on_one_stream_and_launch_on_another_are_reported():
    a, b = cuda.stream(), cuda.stream()
    x = cuda.to_device(ones(), stream=a)
    with pytest.raises(HostOrderError, match="while the copy of"):
        double[1, N, b](x)


def test_copy_to_host_on_another_stream_than_the_launch_is_reported():
    a, b = cuda.stream(), cuda.stream()
    x = cuda.to_device(ones())
    double[1, N, a](x)
    with pytest.raises(HostOrderError, match=r"the copy to .* reads .* while double"):
        x.copy_to_host(stream=b)


def test_copy_on_the_device_and_launch_on_another_stream_are_reported():
    a, b = cuda.stream(), cuda.stream()
    x, y, out = (cuda.to_device(ones()) for _ in range(3))
    x.copy_to_device(y, stream=a)
    copy[1, N, b](y, out)
    with pytest.raises(HostOrderError, match=r"copy \(stream b\) reads x while a copy on the"):
        copy[1, N, b](x, out)


def test_span_of_memory_that_is_gone_meets_nothing():
    here, there = np.zeros(4), np.zeros(4)
    span = spans.whole(here, "x")
    elsewhere = spans.Span("y", spans.whole(there, "y").root, span.runs)
    assert span.meets(spans.whole(here[1:2], "x"))
    assert not span.meets(elsewhere)
    gone = spans.Span("x", span.root, span.runs)
    del here
    assert not gone.meets(gone)


def test_array_made_with_a_stream_copies_on_it():
    a = cuda.stream()
    x, out = cuda.to_device(ones(), stream=a), cuda.pinned_array(N, np.float32)
    x[:4].copy_to_host(out[:4])
    with pytest.raises(HostOrderError):
        out[0]
    x.bind(0).copy_to_host(out)
    assert out[0] == 1


def test_memory_of_an_array_that_is_gone_is_forgotten():
    a, b = cuda.stream(), cuda.stream()
    for stream in (a, b) * 20:
        x = cuda.to_device(np.ones(N))
        double[1, N, stream](x)
        stream.synchronize()
        y = cuda.device_array(N)
        del x
        double[1, N, b if stream is a else a](cuda.to_device(np.ones(N)))
        assert y.size == N


def test_many_launches_without_a_wait_are_kept_once():
    x, stream = ones(cuda.mapped_array), cuda.stream()
    for _ in range(20):
        double[1, N](x)
        double[1, N, stream](x)
    assert len(ordering._outstanding) <= 2


def test_without_diagnosis_nothing_is_kept():
    x, stream = ones(cuda.mapped_array), cuda.stream()
    out = cuda.pinned_array(N, np.float32)
    with simt.diagnosis(False):
        double[1, N, stream](x)
        cuda.to_device(ones()).copy_to_host(out, stream=stream)
        assert (x[0], out[0]) == (2, 1)
    assert not ordering.outstanding()


RIGHT = json.loads(RECORDED.read_text())["right"]
REFUSED = json.loads(RECORDED.read_text())["refused"]  # calls that numba-cuda itself does not take


def test_record_covers_every_case():
    assert {*RIGHT, *REFUSED} == set(host_order.NAMES)
    assert len(RIGHT) >= 25


@pytest.mark.parametrize(("name", "right"), RIGHT.items())
def test_host_code_is_reported_just_where_an_h200_gives_another_value(name, right):
    case = getattr(host_order.Cases(0), name)
    if right:
        assert case() == host_order.AFTER
        cuda.synchronize()
    else:
        with pytest.raises(HostOrderError):
            case()


# Clocks against the transitive closure of the edges that the CUDA manual names.

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("work"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("record"), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.just("host event"), st.just(0), st.integers(0, 1)),
        st.tuples(st.just("host stream"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("host all"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_clocks_random_programs_agree_with_reachability(steps):
    clocks = Clocks()
    events = [{}, {}]
    marks = []
    # The oracle: sets of work that is done before whatever comes next in a stream or on the host.
    done = {stream: set() for stream in range(4)}
    host: set[int] = set()
    recorded = [set(), set()]

    def at_end(stream):
        known = done[stream] | host | done[LEGACY]
        return known.union(*done.values()) if stream == LEGACY else known

    for what, stream, event in steps:
        if what == "work":
            before = at_end(stream)
            mark = clocks.submit(stream)
            assert {n for n, old in enumerate(marks) if mark.follows(old)} == before
            done[stream] = before | {len(marks)}
            marks.append(mark)
        elif what == "record":
            recorded[event], events[event] = at_end(stream), clocks.record(stream)
        elif what == "wait":
            done[stream] = done[stream] | recorded[event]
            clocks.wait(stream, events[event])
        elif what == "host event":
            host |= recorded[event]
            clocks.host_waits(events[event])
        elif what == "host stream":
            host |= at_end(stream)
            clocks.host_waits(clocks.record(stream))
        else:
            host |= set(range(len(marks)))
            clocks.host_waits_for_all()
        assert {n for n, old in enumerate(marks) if clocks.host_follows(old)} == host
