"""pytest's fixture `cushim_memory`: holds what a test may have at its peak and leave behind.

A wheel makes it known to pytest; elsewhere `-p cushim.pytest_plugin` does.
"""
import gc
from typing import Iterator, Optional

import pytest

from ._preload import active, reset_peak, stats


class Budget:
    """Of all devices and kinds, over what was live before the test: `peak_bytes` (None: any) and `left_bytes`."""

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
    """Fails, after the test, where it leaves CUDA memory or had more than its budget; skips it without the preload."""
    if not active():
        pytest.skip("cushim does not serve this process; start it with `cushim run pytest`")
    gc.collect()
    reset_peak()
    budget = Budget(stats().live_bytes)
    yield budget
    gc.collect()
    budget.check()
