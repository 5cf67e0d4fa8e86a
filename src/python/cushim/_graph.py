"""Graphs: work captured from a stream, made executable, and launched again and again."""
import ctypes
import itertools
import os
from ctypes import c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple, Union

from . import _api
from ._api import GraphMemory, GraphMode
from ._context import DeviceLike, ordinal_of
from ._library import Handle, ask, ask_two, asked, filled, library
from ._stream import Stream, stream_number

if TYPE_CHECKING:
    from ._arena import Arena
    from ._pool import Pool


class GraphInfo(_api.GraphInfo):
    """Nodes by kind, and bytes that the graph keeps, as struct cushim_graph_info has them."""


class GraphExecInfo(_api.GraphexecInfo):
    """What an executable graph keeps, in bytes, and how often it was launched and updated."""


_attached: Dict[int, Any] = {}  # functions that graphs will call, by their cookie
_cookies = itertools.count(1)


def _call(cookie: int) -> None:
    _attached.pop(cookie)()


_call_attached = _api.cushim_graph_attach_fn(_call)


class Graph(Handle):
    """Captured work.  It keeps pool blocks and arena spans that the work uses; other memory stays the caller's to keep: see keep()."""

    _ends_by = "cushim_graph_destroy"

    @classmethod
    def capture(cls, work: Callable[[Stream], Any], stream: Stream, **options: Any) -> "Graph":
        """What a function submits to a stream, called once with it.  options: as Capture has them."""
        with Capture(stream, **options) as captured:
            work(stream)
        return captured.graph

    @classmethod
    def wrap(cls, address: int) -> "Graph":
        """Of a CUgraph or cudaGraph_t that others made, and keep longer than this object."""
        return cls._made(ask(c_void_p, "cushim_graph_wrap", address))

    handle: int = asked(int, c_void_p, "cushim_graph_handle", "The driver's CUgraph.")

    def instantiate(self, flags: int = 0) -> "GraphExec":
        """Make it executable.  flags: bits of GraphFlag.  LogicError with STATE if it has nodes that allocate, and an executable is alive."""
        return GraphExec._made(ask(c_void_p, "cushim_graph_instantiate", self._handle, flags))

    def info(self) -> GraphInfo:
        return filled(GraphInfo, "cushim_graph_info", self._handle)

    def attach(self, function: Callable[[], Any]) -> None:
        """Call a function when all that the graph keeps goes back: in a later call on graphs, or a wait."""
        cookie = next(_cookies)
        _attached[cookie] = function
        try:
            library().cushim_graph_attach(self._handle, _call_attached, cookie)
        except Exception:
            del _attached[cookie]
            raise

    def keep(self, *things: Any) -> None:
        """Keep Python objects that the captured work uses (memory, buffers) alive as long as the graph and its executables."""
        self.attach(lambda: things and None)

    def dot(self, path: "Union[str, os.PathLike[str]]", flags: int = 1) -> None:
        """Write it as DOT text.  RuntimeError with NOFILE if that cannot be written."""
        library().cushim_graph_dot(self._handle, os.fsencode(path), flags)


class GraphExec(Handle):
    """An executable graph.  Launches of one run one after another."""

    _ends_by = "cushim_graphexec_destroy"

    handle: int = asked(int, c_void_p, "cushim_graphexec_handle", "The driver's CUgraphExec.")

    def launch(self, stream: Optional[Stream] = None) -> None:
        """Queue it.  LogicError with STATE if node memory of the last launch was not freed, without GraphFlag.AUTO_FREE."""
        library().cushim_graphexec_launch(self._handle, stream_number(stream))

    __call__ = launch

    def upload(self, stream: Optional[Stream] = None) -> None:
        """Prepare it on the device, so that the first launch is as short as the others."""
        library().cushim_graphexec_upload(self._handle, stream_number(stream))

    def update(self, graph: Graph) -> None:
        """Take the parameters of another graph of the same shape.  LogicError with UPDATE if the shapes differ; then it is as before."""
        library().cushim_graphexec_update(self._handle, graph._handle, None)

    def info(self) -> GraphExecInfo:
        return filled(GraphExecInfo, "cushim_graphexec_info", self._handle)


class Capture:
    """`with Capture(stream) as captured:` captures what is submitted inside; captured.graph has it afterwards.  An exception drops it.

    pools, arenas: attached while it is open, at most 16 each.  memory: what the pools do for allocations, of GraphMemory.  mode: which threads'
    calls it forbids, of GraphMode.  LogicError with EMPTYGRAPH for a capture of nothing without allow_empty, with CAPTURE for one that
    was invalidated.
    """

    graph: Graph

    def __init__(self, stream: Stream, *, pools: "Sequence[Pool]" = (), arenas: "Sequence[Arena]" = (), memory: int = GraphMemory.HOLD,
                 mode: int = GraphMode.DEFAULT, allow_empty: bool = False) -> None:
        self.stream = stream
        self._options = _api.cushim_graph_options()
        library().cushim_graph_options_default(ctypes.byref(self._options))
        self._options.mode, self._options.memory, self._options.allow_empty = mode, memory, allow_empty
        self._options.n_pools, self._options.pools = len(pools), _handles(pools)
        self._options.n_arenas, self._options.arenas = len(arenas), _handles(arenas)

    def begin(self) -> None:
        """LogicError with INVALID for the legacy stream, with CAPTURE for one that captures already."""
        library().cushim_graph_begin(self.stream._handle, ctypes.byref(self._options))

    def end(self) -> Graph:
        self.graph = Graph._made(ask(c_void_p, "cushim_graph_end", self.stream._handle))
        return self.graph

    def abort(self) -> None:
        """Drop what was captured."""
        library().cushim_graph_abort(self.stream._handle)

    def __enter__(self) -> "Capture":
        self.begin()
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            self.end()
        else:
            self.abort()


def _handles(things: Sequence[Handle]) -> Any:
    return (c_void_p * len(things))(*(thing._handle for thing in things))


def graph_memory(device: DeviceLike = None) -> Tuple[int, int]:
    """Bytes behind the allocation nodes of all graphs on a device: used, and reserved by the driver."""
    return ask_two(c_size_t, c_size_t, "cushim_graph_memory", ordinal_of(device))


def graph_memory_trim(device: DeviceLike = None) -> None:
    """Give what no allocation node uses back to the system."""
    library().cushim_graph_memory_trim(ordinal_of(device))

