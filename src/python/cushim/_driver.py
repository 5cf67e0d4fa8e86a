"""The driver: whether there is one, what it can do, and its profiler."""
import ctypes
from ctypes import c_int, c_void_p
from typing import Optional

from ._api import Feature, Status
from ._errors import LogicError
from ._library import ask, library, tell


def available() -> bool:
    """Does CUDA work here, with a device?  Never raises for that."""
    return bool(library().cushim_available())


def init(path: Optional[str] = None) -> None:
    """Load the driver now, which the first call does else.  RuntimeError with NOCUDA says what was tried."""
    library().cushim_load(None if path is None else path.encode())


def has(feature: Feature) -> bool:
    """Has the driver a feature?"""
    return bool(tell("cushim_has", feature))


def driver_version() -> int:
    """The driver's CUDA: 1000 * major + 10 * minor."""
    return int(ask(c_int, "cushim_driver_version"))


def start_profiler() -> None:
    """Begin what a profiler records of this process; nothing without one."""
    _profiler("cuProfilerStart")


def stop_profiler() -> None:
    """End what a profiler records of this process; nothing without one."""
    _profiler("cuProfilerStop")


def _profiler(name: str) -> None:
    result = ctypes.CFUNCTYPE(c_int)(ask(c_void_p, "cushim_symbol", name.encode()))()
    if result:
        raise LogicError("CUSHIM_UNKNOWN", f"{name} failed: CUresult {result}", Status.UNKNOWN, name)
