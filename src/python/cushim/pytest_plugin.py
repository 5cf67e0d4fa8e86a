"""pytest's fixture `cushim_memory`: a limit on the CUDA memory that a test has at its peak and leaves behind.

A wheel registers it with pytest; otherwise use `-p cushim.pytest_plugin`.
"""
import gc
from typing import Any, Dict, Generator, List, Optional, Tuple

import pytest

from ._preload import active, report, reset_peak, stats

Stack = Tuple[Tuple[str, str, str], ...]  # file, function and line of each frame, innermost first


def _sites() -> Dict[Stack, int]:
    """The live bytes of each stack; none without --sites."""
    found: Dict[Stack, int] = {}
    for site in (report() or {}).get("sites", []):
        stack = tuple((frame["file"], frame["function"], frame.get("line", "")) for frame in site["stack"])
        found[stack] = found.get(stack, 0) + site["live_bytes"]
    return found


def _place(stack: Stack, path: str) -> str:
    """The lines of Python, up to the last one of the test's file."""
    lines = [frame for frame in stack if frame[0].endswith(".py")]
    last = max((i for i, frame in enumerate(lines) if frame[0] == path), default=len(lines) - 1)
    return " < ".join(f"{function} {line}" for _, function, line in lines[:last + 1])


class Budget:
    """Limits above what was live before the test, for all devices and kinds: `peak_bytes` (None: no limit) and `left_bytes`."""

    __slots__ = "peak_bytes", "left_bytes", "before_bytes", "_sites"  # a mistyped limit is an error

    def __init__(self) -> None:
        self.peak_bytes: Optional[int] = None
        self.left_bytes = self.before_bytes = 0
        self._sites: Dict[Stack, int] = {}

    def begin(self) -> None:
        gc.collect()
        reset_peak()
        self.before_bytes, self._sites = stats().live_bytes, _sites()

    def faults(self, path: str) -> List[str]:
        """What is wrong after a test of that file, with the lines that allocated what it leaves."""
        gc.collect()
        read = stats()
        left, peak = read.live_bytes - self.before_bytes, read.recent_peak_live_bytes - self.before_bytes
        found = []
        if left > self.left_bytes:
            found.append(f"the test leaves {left:,} bytes of CUDA memory; {self.left_bytes:,} are allowed")
            more = sorted(((n_bytes - self._sites.get(stack, 0), _place(stack, path)) for stack, n_bytes in _sites().items()), reverse=True)
            places = [f"    {n_bytes:,} bytes: {place}" for n_bytes, place in more if n_bytes > 0 and place]
            found += places[:10] or ["    `cushim run --sites=1 -- pytest` names the lines that allocated them"]
        if self.peak_bytes is not None and peak > self.peak_bytes:
            found.append(f"the test had {peak:,} bytes of CUDA memory; {self.peak_bytes:,} are allowed")
        return found


@pytest.fixture
def cushim_memory() -> Budget:
    """Fail a test that leaves CUDA memory behind or had more than its budget; skip it without the preload."""
    if not active():
        pytest.skip("cushim does not serve this process; start it with `cushim run pytest`")
    return Budget()


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    budget = pyfuncitem.funcargs.get("cushim_memory")
    if not isinstance(budget, Budget):
        yield
        return
    budget.begin()  # without what other fixtures allocated
    outcome = yield
    faults = [] if outcome.excinfo else budget.faults(str(pyfuncitem.path))
    if faults:
        path, line, _ = pyfuncitem.location
        outcome.force_exception(pytest.fail.Exception("\n".join([f"{path}:{(line or 0) + 1}: {faults[0]}", *faults[1:]]), pytrace=False))
