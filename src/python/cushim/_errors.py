"""The exceptions: one class for each kind of failure, as cushim_status_class() says it."""
import builtins
from typing import Any

from ._api import Status

_MEMORY, _LOGIC, _LAUNCH, _RUNTIME, _COMPILE = 1, 2, 4, 8, 16  # enum cushim_class


class Error(Exception):
    """A call that failed.

    status: its number, of Status if it is known.  call: the function that failed.  text: what happened, in words.
    args: (name of the status, text).
    """

    def __init__(self, name: str, text: str, status: int = Status.UNKNOWN, call: str = "") -> None:
        super().__init__(name, text)
        self.status, self.call, self.text = status, call, text

    def __str__(self) -> str:
        return self.text or str(self.args[0])

    def __reduce__(self) -> Any:
        return type(self), (*self.args, self.status, self.call)


class LogicError(Error):
    """A call that was wrong: an argument, a handle, a state, an address; and a fault that damaged the context."""


class CompileError(LogicError):
    """An image or PTX that the driver does not take; the text has the compiler's log."""


class LaunchError(Error):
    """A kernel that could not start, or died."""


class MemoryError(Error, builtins.MemoryError):
    """There is no memory for this request, or a limit was reached."""


class RuntimeError(Error, builtins.RuntimeError):
    """What the machine lacks: a driver, a device, a file."""


OutOfMemory = MemoryError


def kind_of(bits: int) -> "type[Error]":
    """The exception for a class of statuses."""
    for bit, kind in ((_COMPILE, CompileError), (_MEMORY, MemoryError), (_LAUNCH, LaunchError), (_RUNTIME, RuntimeError), (_LOGIC, LogicError)):
        if bits & bit:
            return kind
    return Error


def refusal(status: Status, call: str, text: str) -> LogicError:
    """A failure that is seen before the library is asked."""
    name = f"CUSHIM_{status.name}"
    return LogicError(name, f"{call} failed: {name}: {text}", status, call)
