"""What the preload offers by name (cushim/preload.h): looked up in this process, never loaded."""
import ctypes
from typing import Any, Optional


def _function(name: str) -> Optional[Any]:
    return getattr(ctypes.CDLL(None), name, None)


def active() -> bool:
    """Is the preload in this process?"""
    return _function("cushim_preload_capturing") is not None


def arena_reset() -> int:
    """Say that a pass is over.  Returns how many chunks are kept for a block in them; 0 without a preload."""
    reset = _function("cushim_preload_arena_reset")
    return reset() if reset else 0
