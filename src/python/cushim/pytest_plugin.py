"""pytest's fixture `cushim_memory`: a limit on the CUDA memory that a test has at its peak and leaves behind.

A wheel registers it with pytest; otherwise use `-p cushim.pytest_plugin`.
"""
import gc
from typing import Iterator, Optional

import pytest

from ._preload import active, reset_peak, stats


class Budget:
    """Limits above what was live before the test, for all devices and kinds: `peak_bytes` (None: no limit) and `left_bytes`."""

    def __init__(self, live_bytes: int) -> None:
        self.before_bytes = live_bytes
        self.peak_bytes: Optional[int] = None
        self.left_bytes = 0

    def check(self) -> None:
        read = stats()
        left, peak = read.live_bytes - self.before_bytes, read.recent_peak_live_bytes - self.before_bytes
        assert left <= self.left_bytes, f"the test leaves {left:,} bytes of CUDA memory; {self.left_bytes:,} are allowed"
        assert self.peak_bytes is None or peak <= self.peak_bytes, f"the test had {peak:,} bytes of CUDA memory; {self.peak_bytes:,} are allowed"


@pytest.fixture
def cushim_memory() -> Iterator[Budget]:
    """Fail a test that leaves CUDA memory behind or had more than its budget; skip it without the preload."""
    if not active():
        pytest.skip("cushim does not serve this process; start it with `cushim run pytest`")
    gc.collect()
    reset_peak()
    budget = Budget(stats().live_bytes)
    yield budget
    gc.collect()
    budget.check()
