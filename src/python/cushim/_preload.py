"""The functions of the preload (cushim/preload.h).  They are looked up in this process and never loaded."""
import ctypes
import json
import os
import tempfile
from typing import Any, Dict, Optional

from . import _api
from ._library import struct

KINDS = ("device", "managed", "pinned", "async", "mapped", "array", "graph", "spilled", "imported", "context")


class Stats(_api.PreloadStats):
    """The counters, with the names that the report uses."""


def _function(name: str) -> Optional[Any]:
    return getattr(ctypes.CDLL(None), name, None)


def active() -> bool:
    """Whether the preload serves this process."""
    ask = _function("cushim_preload_active")
    return bool(ask and ask())


def _needed(name: str) -> Any:
    if not active():
        raise RuntimeError("the preload does not serve this process; start it with `cushim run`")
    return _function(name)


def _device(device: Optional[int]) -> int:
    if device is None:
        return -1
    if not 0 <= device < 64:
        raise ValueError(f"there is no device {device}")
    return device


def stats(device: Optional[int] = None, kind: Optional[str] = None) -> Stats:
    """The counters of a device or of all, for one of KINDS or for all.  RuntimeError without a preload."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of memory; there are {', '.join(KINDS)}")
    read = struct(_api.cushim_preload_stats)
    ask = _needed("cushim_preload_stats")
    if ask(_device(device), -1 if kind is None else KINDS.index(kind), ctypes.byref(read)):
        raise RuntimeError("the preload does not answer")
    return Stats(*(getattr(read, name) for name in Stats._fields))


def reset_peak(device: Optional[int] = None) -> None:
    """Begin the recent peaks again from what is live and held now.  RuntimeError without a preload."""
    _needed("cushim_preload_reset_peak")(_device(device))


def mark(name: str) -> None:
    """Name this moment in the report.  Without a preload it does nothing."""
    enter = _function("cushim_preload_mark")
    if enter:
        enter(os.fsencode(name))


def report(path: Optional["os.PathLike[str] | str"] = None) -> Optional[Dict[str, Any]]:
    """Write the report of this moment to `path`, or return it.  RuntimeError without a preload, OSError without a file."""
    if path is None:
        with tempfile.TemporaryDirectory(prefix="cushim-") as folder:
            file = os.path.join(folder, "report.json")
            report(file)
            with open(file, encoding="utf-8") as stream:
                read: Dict[str, Any] = json.load(stream)
                return read
    error = _needed("cushim_preload_report")(os.fsencode(path))
    if error:
        raise OSError(error, os.strerror(error), os.fspath(path))
    return None


def trim() -> int:
    """Give all idle memory of the process back to the driver.  Returns how many bytes; 0 without a preload."""
    give = _function("cushim_preload_trim")
    if not give:
        return 0
    give.restype = ctypes.c_size_t
    n_bytes: int = give()
    return n_bytes


def arena_reset() -> int:
    """End a pass.  Returns how many chunks are kept because they contain a block; 0 without a preload."""
    reset = _function("cushim_preload_arena_reset")
    return reset() if reset else 0
