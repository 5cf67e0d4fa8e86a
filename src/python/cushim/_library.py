"""libcushim.so.0 by ctypes: each function of _api.py, and what all objects of the library have in common."""
import ctypes
import functools
import pathlib
import weakref
from typing import Any, Callable, ClassVar, Optional, Tuple, Type, TypeVar

from . import _api
from ._api import Status
from ._errors import kind_of
from ._files import library_folder

_Self = TypeVar("_Self", bound="Handle")
_Tuple = TypeVar("_Tuple")


def library_path() -> str:
    return str(pathlib.Path(library_folder(), "libcushim.so.0"))


def _checked(status: int, function: Any, arguments: Any) -> int:
    if status:
        raise failure(status, function.__name__)
    return status


def failure(status: int, call: str) -> Exception:
    """The exception for a status that a call of this thread gave just now."""
    known = library()
    kind = kind_of(known.cushim_status_class(status))
    number = Status(status) if status in Status.__members__.values() else status
    return kind(known.cushim_status_name(status).decode(), known.cushim_last_error().decode(errors="replace"), number, call)


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """The library, loaded at first use.  A function that returns a status raises Error if that is a failure."""
    loaded = ctypes.CDLL(library_path())
    for name, (result, arguments, is_status) in _api.FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
        if is_status:
            function.errcheck = _checked
    return loaded


def _wrong_type(error: ctypes.ArgumentError, name: str, arguments: Tuple[Any, ...]) -> TypeError:
    """For what ctypes refused: its own exception is no TypeError, and does not say the type."""
    number = int(str(error).split()[1].rstrip(":"))
    return TypeError(f"{name}: argument {number} cannot be of type {type(arguments[number - 1]).__name__}")


def size(n_bytes: int) -> int:
    """A size as the library can take and refuse it: of a larger number ctypes takes the lower bits."""
    largest = ctypes.c_size_t(-1).value
    return n_bytes if 0 <= n_bytes <= largest else largest


def tell(name: str, *arguments: Any) -> Any:
    """Call a function with what the user gave."""
    try:
        return getattr(library(), name)(*arguments)
    except ctypes.ArgumentError as error:
        raise _wrong_type(error, name, arguments) from None


def ask(kind: Any, name: str, *arguments: Any) -> Any:
    """What a function writes to its last parameter, of this ctypes type.  It is in the stack of each allocation, so it has no function between."""
    out = kind()
    try:
        getattr(library(), name)(*arguments, ctypes.byref(out))
    except ctypes.ArgumentError as error:
        raise _wrong_type(error, name, arguments) from None
    return out.value


def asked(of: Any, kind: Any, name: str, doc: Optional[str], handle: str = "_handle") -> Any:
    """A property: what a function of the library says of an object, by its handle."""
    return property(lambda made: of(ask(kind, name, getattr(made, handle))), doc=doc)


def ask_two(first_kind: Any, second_kind: Any, name: str, *arguments: Any) -> Tuple[int, int]:
    """What a function writes to its last two parameters."""
    first, second = first_kind(), second_kind()
    try:
        getattr(library(), name)(*arguments, ctypes.byref(first), ctypes.byref(second))
    except ctypes.ArgumentError as error:
        raise _wrong_type(error, name, arguments) from None
    return first.value, second.value


def put(options: Any, **values: Any) -> None:
    """Set fields of a struct; None leaves one as it is.  ValueError for a number that the field cannot have."""
    for name, value in values.items():
        if value is not None:
            setattr(options, name, value)
            if getattr(options, name) != value:
                raise ValueError(f"{name} cannot be {value}")


def struct(kind: Any, **fields: Any) -> Any:
    """A struct of the library that says its size."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def filled(kind: Callable[..., _Tuple], name: str, *arguments: Any) -> _Tuple:
    """The tuple of what a function writes to its last parameter, a struct of the same name."""
    found = struct(getattr(_api, name))
    tell(name, *arguments, ctypes.byref(found))
    return kind(*(getattr(found, field) for field, _ in found._fields_[1:]))


def quietly(name: str, *arguments: Any) -> None:
    """What a finalizer calls: nobody is there to take an exception."""
    try:
        getattr(library(), name)(*arguments[:1])
    except Exception:
        pass


def not_copied(thing: Any) -> TypeError:
    """For copy and pickle: a second object would end what it has again, and no other process has it."""
    return TypeError(f"cannot copy or pickle a {type(thing).__name__}")


class Handle:
    """An object of the library.  It ends with close(), with a `with` statement, or when Python drops it, and keeps what it needs alive."""

    _ends_by: ClassVar[str]

    def __init__(self, handle: int, *kept: Any) -> None:
        self._handle = handle
        self._finalizer = weakref.finalize(self, quietly, self._ends_by, handle, kept)

    @classmethod
    def _made(cls: Type[_Self], handle: int, *kept: Any) -> _Self:
        made = cls.__new__(cls)
        Handle.__init__(made, handle, *kept)
        return made

    @classmethod
    def _borrowed(cls: Type[_Self], handle: Optional[int]) -> Optional[_Self]:
        """An object that somebody else ends; None for none."""
        if not handle:
            return None
        made = cls._made(handle)
        made._finalizer.detach()
        return made

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """End the object now; again is nothing."""
        if self._finalizer.alive:
            getattr(library(), self._ends_by)(self._handle)
            self._finalizer.detach()

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
