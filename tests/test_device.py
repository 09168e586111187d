"""Finding a GPU through the driver alone, with a stand-in for libcuda."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from kernelbook import device
from kernelbook.errors import KernelbookError

H200 = device.Gpu("NVIDIA H200", 150_000_000_000, (9, 0), (13, 0))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(device.VARIABLE, raising=False)
    device.probe.cache_clear()
    yield
    device.probe.cache_clear()


class FakeDriver:
    """libcuda with one H200, or with ``status`` as cuInit's answer."""

    def __init__(self, status=0, count=1):
        self.status, self.count, self.initialised = status, count, 0

    def cuDriverGetVersion(self, out):
        return _set(out, 13000)

    def cuInit(self, flags):
        self.initialised += 1
        return self.status

    def cuDeviceGetCount(self, out):
        return _set(out, self.count)

    def cuDeviceGet(self, out, ordinal):
        return _set(out, ordinal)

    def cuDeviceGetName(self, buffer, size, handle):
        buffer.value = b"NVIDIA H200"
        return 0

    def cuDeviceTotalMem_v2(self, out, handle):
        return _set(out, 150_000_000_000)

    def cuDeviceGetAttribute(self, out, attribute, handle):
        return _set(out, {75: 9, 76: 0}[attribute])


def _set(out, value):
    out._obj.value = value
    return 0


def _use(monkeypatch, driver):
    monkeypatch.setattr(device, "_load_driver", lambda: driver)
    return driver


def test_probe_driver_answers_gives_name_memory_and_versions(monkeypatch):
    _use(monkeypatch, FakeDriver())
    assert device.gpus() == (H200,)
    assert device.probe().problem == ""


def test_probe_asked_twice_asks_driver_once(monkeypatch):
    driver = _use(monkeypatch, FakeDriver())
    assert device.gpu_count() == device.gpu_count() == 1
    assert driver.initialised == 1


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        pytest.param(None, "no NVIDIA driver", id="no-driver"),
        pytest.param(FakeDriver(status=803), "different versions", id="driver-mismatch"),
        pytest.param(FakeDriver(status=12345), "12345", id="unknown-status"),
        pytest.param(FakeDriver(count=0), "no GPU is visible", id="no-device"),
    ],
)
def test_choose_gpu_without_gpu_says_why(monkeypatch, driver, words):
    _use(monkeypatch, driver)
    assert device.gpu_count() == 0
    with pytest.raises(KernelbookError, match=words) as raised:
        device.choose("gpu")
    assert "doctor" in str(raised.value)


@pytest.mark.parametrize(
    ("wish", "variable", "count", "chosen"),
    [
        ("auto", None, 0, "sim"),
        ("auto", None, 1, "gpu"),
        ("auto", "sim", 1, "sim"),
        ("auto", " GPU ", 1, "gpu"),
        ("auto", "auto", 0, "sim"),
        ("sim", "gpu", 1, "sim"),
        ("gpu", "sim", 1, "gpu"),
    ],
)
def test_choose_wish_and_variable_gives_device(monkeypatch, wish, variable, count, chosen):
    _use(monkeypatch, FakeDriver(count=count))
    if variable is not None:
        monkeypatch.setenv(device.VARIABLE, variable)
    assert device.choose(wish) == chosen


def test_choose_variable_of_another_word_names_the_variable(monkeypatch):
    _use(monkeypatch, None)
    monkeypatch.setenv(device.VARIABLE, "cpu")
    with pytest.raises(KernelbookError, match=r"KERNELBOOK_DEVICE is 'cpu'.*sim, gpu or auto"):
        device.choose()


def test_load_driver_uses_plain_library_name_second(monkeypatch):
    asked = []

    def load(name):
        asked.append(name)
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert device._load_driver() is None
    assert asked == ["libcuda.so.1", "libcuda.so"]


def test_gpu_count_imports_no_gpu_library():
    code = (
        "import sys; from kernelbook import device; device.gpu_count();"
        "print([m for m in sys.modules if m in ('numba', 'numba.cuda', 'cupy', 'torch')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
