"""cushim from Python, by ctypes: the preload, if it is in this process, and pools and arenas of libcushim.so."""
from . import allocators
from ._files import __version__, include_folder, library_folder, preload_path
from ._library import Arena, Error, Memory, OutOfMemory, Pool
from ._preload import Stats, active, arena_reset, mark, report, reset_peak, stats, trim

__all__ = ["Arena", "Error", "Memory", "OutOfMemory", "Pool", "Stats", "__version__", "active", "allocators", "arena_reset",
           "include_folder", "library_folder", "mark", "preload_path", "report", "reset_peak", "stats", "trim"]
