"""cushim from Python: where its parts are, and whether its preload is in this process.  ctypes alone."""
from ._files import __version__, include_folder, library_folder, preload_path
from ._preload import active, arena_reset

__all__ = ["__version__", "active", "arena_reset", "include_folder", "library_folder", "preload_path"]
