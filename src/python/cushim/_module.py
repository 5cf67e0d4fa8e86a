"""Modules, functions, and launches."""
import ctypes
import os
import re
import struct as packing
from ctypes import c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _api
from ._api import FunctionAttribute, LinkKind
from ._context import Context, kept, number_of
from ._exchange import address_of
from ._library import Handle, ask, ask_two, library, struct, tell
from ._memory import AsyncMemory, Memory, nothing
from ._stream import Stream, stream_number

Shape = Union[int, Sequence[int]]  # up to three extents; those that are missing are 1


class LinkInput(NamedTuple):
    """Code for Module.link(); name is for its log."""
    data: bytes
    kind: LinkKind = LinkKind.PTX
    name: str = ""


class Module(Handle):
    """Device code and its variables: an image (a cubin, a fatbin or PTX) as text or bytes, loaded into a context.

    max_registers: of a thread; 0: the compiler's choice.  level: of optimisation, 0 to 4.  lines: keep line numbers for tools.
    cache: 0 none said, 1 L2 only, 2 L1 too.  CompileError has the log of the compiler; RuntimeError with NOBINARY: no code for this device.
    """

    _ends_by = "cushim_module_unload"

    def __init__(self, image: Union[bytes, bytearray, memoryview, str], context: Optional[Context] = None, *, max_registers: int = 0, level: int = 4,
                 lines: bool = False, cache: int = 0) -> None:
        code = image.encode() if isinstance(image, str) else bytes(image)
        options = _options(max_registers, level, lines, cache)
        super().__init__(ask(c_void_p, "cushim_module_load", number_of(context), code, len(code), ctypes.byref(options)), kept(context))

    @classmethod
    def from_file(cls, path: "Union[str, os.PathLike[str]]", context: Optional[Context] = None, *, max_registers: int = 0, level: int = 4, lines: bool = False,
                  cache: int = 0) -> "Module":
        """The image in a file.  RuntimeError with NOFILE and the reason if it cannot be read."""
        options = _options(max_registers, level, lines, cache)
        return cls._made(ask(c_void_p, "cushim_module_load_file", number_of(context), os.fsencode(path), ctypes.byref(options)), kept(context))

    @classmethod
    def link(cls, inputs: Iterable[LinkInput], context: Optional[Context] = None, *, max_registers: int = 0, level: int = 4, lines: bool = False,
             cache: int = 0) -> "Module":
        """Link images and load the result.  CompileError, or LogicError with NOTFOUND: the linker's log names the symbol."""
        given = list(inputs)
        array = (_api.cushim_link_input * len(given))(*(
            _api.cushim_link_input(kind, ctypes.cast(ctypes.c_char_p(data), c_void_p), len(data), name.encode() or None) for data, kind, name in given))
        options = _options(max_registers, level, lines, cache)
        return cls._made(ask(c_void_p, "cushim_module_link", number_of(context), array, len(given), ctypes.byref(options)), kept(context))

    @property
    def log(self) -> str:
        """What the compiler or linker said about the image."""
        buffer = ctypes.create_string_buffer(1 << 16)
        library().cushim_module_log(self._handle, buffer, len(buffer))
        return buffer.value.decode(errors="replace")

    def unload(self) -> None:
        """End it, its functions and its variables; waits for the context's work.  Again is nothing."""
        self.close()

    def get_function(self, name: str) -> "Function":
        """A kernel by its name, as in the image.  LogicError with NOTFOUND if there is none."""
        return Function(self, name, ask(c_void_p, "cushim_module_function", self._handle, name.encode()))

    def get_global(self, name: str) -> Tuple[int, int]:
        """Address and bytes of a variable, which lives as long as the module.  LogicError with NOTFOUND if there is none."""
        return ask_two(c_uint64, c_size_t, "cushim_module_global", self._handle, name.encode())

    def get_variable(self, name: str) -> Memory:
        """The same as Memory, which keeps the module alive."""
        return Memory(*self.get_global(name), nothing, self)


def _options(max_registers: int, level: int, lines: bool, cache: int) -> Any:
    return struct(_api.cushim_module_options, max_registers=max_registers, level=level, lines=lines, cache=cache)


class Staged:
    """A host buffer as an argument: it is in device memory while the kernel runs.  The launch waits, so that results are there.  In, Out, InOut."""

    def __init__(self, data: Any, is_in: bool, is_out: bool) -> None:
        self.data, self.is_in, self.is_out = data, is_in, is_out


def In(data: Any) -> Staged:
    """A buffer that a kernel reads."""
    return Staged(data, True, False)


def Out(data: Any) -> Staged:
    """A writable buffer that a kernel fills."""
    return Staged(data, False, True)


def InOut(data: Any) -> Staged:
    """A writable buffer that a kernel reads and changes."""
    return Staged(data, True, True)


def _extents(shape: Shape) -> Tuple[int, ...]:
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"a grid or a block has one to three extents, not {len(extents)}")
    return extents + (1,) * (3 - len(extents))


def _launch(grid: Shape, block: Shape, stream: Optional[Stream], shared: int, cooperative: bool) -> Any:
    return struct(_api.cushim_launch, grid=_extents(grid), block=_extents(block), shared_bytes=shared, cooperative=cooperative, stream=stream_number(stream))


_LETTERS = {1: "b", 2: "h", 4: "i", 8: "q"}  # of prepare(), by size


def _cell(argument: Any) -> Tuple[Any, str]:
    """A ctypes object with what a kernel gets, and its type for prepare()."""
    if isinstance(argument, Memory):
        return c_uint64(argument.address), "P"
    if isinstance(argument, ctypes._SimpleCData):
        return argument, _LETTERS[ctypes.sizeof(argument)]
    if isinstance(argument, (ctypes.Structure, ctypes.Array)):
        return argument, f"{{{ctypes.sizeof(argument)},{ctypes.alignment(argument)}}}"
    if hasattr(argument, "__cuda_array_interface__"):
        return c_uint64(address_of(argument)[0]), "P"
    if hasattr(argument, "dtype") and getattr(argument, "shape", None) == ():  # a scalar of NumPy
        argument = argument.tobytes()
    if isinstance(argument, (bytes, bytearray)):
        n_bytes = len(argument)
        cell = (ctypes.c_char * n_bytes).from_buffer_copy(argument)
        return cell, _LETTERS.get(n_bytes) or f"{{{n_bytes},{min(n_bytes & -n_bytes, 8)}}}"
    raise TypeError(f"{type(argument).__name__} has no size that a kernel knows: give Memory, a ctypes or NumPy scalar, In() or Out() of a buffer, or prepare()")


def _addresses(cells: List[Any]) -> Any:
    return (c_void_p * len(cells))(*map(ctypes.addressof, cells))


def _attribute(attribute: FunctionAttribute) -> Any:
    return property(lambda function: function.get_attribute(attribute))


class Function:
    """A kernel of a module, which it keeps alive.

    function(*arguments, grid=..., block=...) launches it.  An argument is Memory or an object of the CUDA array interface (its address), a
    ctypes or NumPy scalar, a ctypes struct or array, bytes with as much alignment as their number has (at most 8), or In(), Out(), InOut() of a
    host buffer.  Each is held against the kernel's parameters.  prepare() takes Python's own numbers.
    """

    def __init__(self, module: Module, name: str, handle: int) -> None:
        self.module, self.name, self._handle = module, name, handle
        self._launches: Dict[str, "_Launches"] = {}  # by types of arguments

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    def __call__(self, *arguments: Any, grid: Shape = 1, block: Shape = 1, stream: Optional[Stream] = None, shared: int = 0, cooperative: bool = False) -> None:
        """Queue it on a stream.  grid: blocks; block: threads of each; shared: dynamic bytes; cooperative: all blocks run at once.

        LogicError with INVALID: not the kernel's parameters, or a shape that the device has not.  A fault of the kernel is raised by the next wait.
        """
        launch = _launch(grid, block, stream, shared, cooperative)
        staged = [(argument, AsyncMemory(memoryview(argument.data).nbytes, stream)) for argument in arguments if isinstance(argument, Staged)]
        for argument, memory in staged:
            if argument.is_in:
                _wait(stream)
                memory.write(argument.data)
        taken = iter(staged)
        prepared, cells = self._prepared([next(taken)[1] if isinstance(argument, Staged) else argument for argument in arguments])
        library().cushim_prepared_launch(prepared._handle, ctypes.byref(launch), _addresses(cells))
        if staged:
            _wait(stream)
        for argument, memory in staged:
            if argument.is_out:
                memory.read_into(argument.data)
            memory.free()

    def _prepared(self, arguments: Sequence[Any]) -> Tuple["_Launches", List[Any]]:
        """The library's object for arguments of these types, and the arguments."""
        cells = [_cell(argument) for argument in arguments]
        types = "".join(letter for _, letter in cells)
        if types not in self._launches:
            self._launches[types] = _Launches._made(ask(c_void_p, "cushim_function_prepare", self._handle, types.encode()), self.module)
        return self._launches[types], [cell for cell, _ in cells]

    def timed(self, *arguments: Any, grid: Shape = 1, block: Shape = 1, stream: Optional[Stream] = None, shared: int = 0, cooperative: bool = False) -> float:
        """Launch it, wait for it, and return its milliseconds on the device."""
        launch, cells = _launch(grid, block, stream, shared, cooperative), self._prepared(arguments)[1]
        return float(ask(c_float, "cushim_function_launch_timed", self._handle, ctypes.byref(launch), _addresses(cells), len(cells)))

    def launch_packed(self, arguments: Union[bytes, bytearray], *, grid: Shape = 1, block: Shape = 1, stream: Optional[Stream] = None, shared: int = 0,
                      cooperative: bool = False) -> None:
        """Queue it with all arguments in one buffer, each at the offset that the kernel has for it."""
        launch = _launch(grid, block, stream, shared, cooperative)
        library().cushim_function_launch_packed(self._handle, ctypes.byref(launch), bytes(arguments), len(arguments))

    def prepare(self, arguments: str) -> "PreparedFunction":
        """Say the types of the arguments once: a letter each as in Python's struct module, P for an address; {bytes,align} for a struct.

        LogicError with INVALID if that is not the kernel's layout.
        """
        return PreparedFunction(self, arguments)

    def get_attribute(self, attribute: int) -> int:
        """Of FunctionAttribute."""
        return int(ask(c_int, "cushim_function_attribute", self._handle, attribute))

    def set_attribute(self, attribute: int, value: int) -> None:
        """For later launches; MAX_DYNAMIC_SHARED_SIZE_BYTES, and others that CUDA lets be set."""
        tell("cushim_function_attribute_set", self._handle, attribute, value)

    def set_cache_config(self, config: int) -> None:
        """Of CacheConfig, for later launches."""
        tell("cushim_function_cache", self._handle, config)

    def occupancy(self, threads: int, shared: int = 0) -> int:
        """How many blocks of this many threads a multiprocessor holds at once."""
        return int(ask(c_int, "cushim_function_occupancy", self._handle, threads, shared))

    def suggest(self, shared: int = 0, limit: int = 0) -> Tuple[int, int]:
        """Blocks, and threads of each (at most `limit`; 0: any), that fill the device."""
        return ask_two(c_int, c_int, "cushim_function_suggest", self._handle, shared, limit)

    num_regs: int = _attribute(FunctionAttribute.NUM_REGS)
    shared_size_bytes: int = _attribute(FunctionAttribute.SHARED_SIZE_BYTES)
    local_size_bytes: int = _attribute(FunctionAttribute.LOCAL_SIZE_BYTES)
    const_size_bytes: int = _attribute(FunctionAttribute.CONST_SIZE_BYTES)
    max_threads_per_block: int = _attribute(FunctionAttribute.MAX_THREADS_PER_BLOCK)


def _wait(stream: Optional[Stream]) -> None:
    library().cushim_stream_synchronize(stream_number(stream))


class _Launches(Handle):
    """Launches whose arguments have known types."""

    _ends_by = "cushim_prepared_destroy"


class PreparedFunction(_Launches):
    """A function whose arguments have known types: launches take numbers, Memory, and bytes for a struct."""

    def __init__(self, function: Function, arguments: str) -> None:
        super().__init__(ask(c_void_p, "cushim_function_prepare", function._handle, arguments.encode()), function.module)
        self.function = function
        self._letters = re.findall(r"\{[^}]*\}|\S", arguments)

    def _cells(self, arguments: Sequence[Any]) -> List[Any]:
        if len(arguments) != len(self._letters):
            raise TypeError(f"{self.function.name} takes {len(self._letters)} arguments, not {len(arguments)}")
        cells = []
        for letter, argument in zip(self._letters, arguments):
            if letter[0] == "{":
                data = bytes(argument)
            elif letter == "P":
                data = packing.pack("P", address_of(argument)[0] if hasattr(argument, "__cuda_array_interface__") else int(argument))
            else:
                try:
                    data = packing.pack("=" + letter, argument)
                except packing.error as error:
                    raise TypeError(f"{argument!r} is no argument of type {letter}: {error}") from None
            cells.append((ctypes.c_char * len(data)).from_buffer_copy(data))
            if letter[0] == "{" and len(data) != int(letter[1:].split(",")[0]):
                raise TypeError(f"{len(data)} bytes are no struct {letter}")
        return cells

    def __call__(self, *arguments: Any, grid: Shape = 1, block: Shape = 1, stream: Optional[Stream] = None, shared: int = 0, cooperative: bool = False) -> None:
        """Queue it, as Function does."""
        launch, cells = _launch(grid, block, stream, shared, cooperative), self._cells(arguments)
        library().cushim_prepared_launch(self._handle, ctypes.byref(launch), _addresses(cells))

    def prepared_call(self, grid: Shape, block: Shape, *arguments: Any, shared: int = 0) -> None:
        """The same as PyCUDA orders it, on the legacy stream."""
        self(*arguments, grid=grid, block=block, shared=shared)

    def prepared_async_call(self, grid: Shape, block: Shape, stream: Optional[Stream], *arguments: Any, shared: int = 0) -> None:
        self(*arguments, grid=grid, block=block, stream=stream, shared=shared)

    def prepared_timed_call(self, grid: Shape, block: Shape, *arguments: Any, shared: int = 0) -> float:
        """Launch it, wait for it, and return its milliseconds on the device."""
        launch, cells = _launch(grid, block, None, shared, False), self._cells(arguments)
        return float(ask(c_float, "cushim_function_launch_timed", self.function._handle, ctypes.byref(launch), _addresses(cells), len(cells)))
