"""What tests of this folder have in common."""
import contextlib
import ctypes
import gc
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples"


@contextlib.contextmanager
def raises(kind, status=None):
    """The body raises this kind of exception; of the library's, with this status."""
    try:
        yield
    except kind as error:
        if status is not None:
            assert (error.status, error.args[0]) == (status, f"CUSHIM_{status.name}"), (error.status, error.args)
            assert error.call and error.text and error.text == str(error) == error.args[1], (error.call, error.text)
    else:
        raise AssertionError(f"no {kind.__name__}")


def dropped(reference):
    """Has Python dropped what a weak reference names?"""
    gc.collect()
    return reference() is None


def device():
    """The software device, whose own functions tools/sim/sim.h lists."""
    return ctypes.CDLL(os.environ["CUSHIM_LIBCUDA"])


def numpy():
    """NumPy where it is installed, else None: nothing of the module needs it."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy
