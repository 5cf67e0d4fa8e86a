"""Captures, graphs and executables."""
import array
import pathlib
import tempfile
import weakref

from expect import EXAMPLES, dropped, raises

import cushim
import tap
from cushim import Arena, Capture, DeviceMemory, Graph, GraphFlag, GraphMemory, GraphMode, Pool, Status, Stream


def filled(block, value, stream):
    return Graph.capture(lambda s: block.fill(value, stream=s), stream)


@tap.test
def what_is_captured_is_launched_again_and_again():
    stream, block = Stream(), DeviceMemory(8)
    log, counter = DeviceMemory(64), DeviceMemory(4)
    log.fill(0)
    counter.fill(0)
    advance = cushim.Module.from_file(EXAMPLES / "kernels.ptx").get_function("advance")
    with Capture(stream) as captured:
        assert stream.is_capturing()
        advance(counter, log, stream=stream)
        block.fill(7, stream=stream)
    graph = captured.graph
    assert not stream.is_capturing() and (graph.info().nodes, graph.info().kernels, graph.info().sets) == (2, 1, 1)
    with graph.instantiate() as executable:
        executable.upload(stream)
        for i in range(4):
            executable.launch(stream)
        executable()
        cushim.synchronize()
        assert array.array("I", log.read(24)).tolist() == [100, 101, 102, 103, 104, 0] and block.read() == b"\7" * 8
        info = executable.info()
        assert info.launches == 5 and info.updates == 0 and graph.info().executables == 1 and executable.handle and graph.handle
    graph.close()
    with raises(cushim.LogicError, Status.BADHANDLE):
        executable.launch(stream)


@tap.test
def an_executable_takes_a_graph_of_the_same_shape():
    stream, block = Stream(), DeviceMemory(8)
    executable = filled(block, 1, stream).instantiate()
    executable.update(filled(block, 2, stream))
    executable.launch(stream)
    stream.synchronize()
    assert block.read() == b"\2" * 8 and executable.info().updates == 1

    def two(stream):
        block.fill(1, stream=stream)
        block.fill(2, stream=stream)

    with raises(cushim.LogicError, Status.UPDATE):
        executable.update(Graph.capture(two, stream))


@tap.test
def a_capture_that_cannot_be_raises_and_the_stream_goes_on():
    stream, block = Stream(), DeviceMemory(8)
    with raises(cushim.LogicError, Status.EMPTYGRAPH):
        with Capture(stream):
            pass
    assert Graph.capture(lambda stream: None, stream, allow_empty=True).info().nodes == 0
    with raises(KeyError):
        with Capture(stream):
            block.fill(1, stream=stream)
            raise KeyError
    assert not stream.is_capturing()
    with raises(cushim.LogicError, Status.INVALID):
        Capture(Stream.LEGACY).begin()
    capture = Capture(stream, mode=GraphMode.RELAXED)
    capture.begin()
    with raises(cushim.LogicError, Status.CAPTURE):
        Capture(stream).begin()
    with raises(cushim.LogicError, Status.CAPTURE):
        stream.synchronize()
    block.fill(1, stream=stream)
    assert capture.end() is capture.graph
    with raises(cushim.LogicError, Status.STATE):
        capture.end()
    with raises(cushim.LogicError, Status.STATE):
        capture.abort()
    stream.synchronize()


@tap.test
def a_graph_keeps_memory_of_pools_and_arenas():
    stream, pool, arena = Stream(), Pool(), Arena(1 << 20)
    with Capture(stream, pools=[pool], arenas=[arena]) as captured:
        assert pool.frozen() == 1
        block, span = pool.alloc(1000, stream), arena.alloc(1000, stream)
        block.fill(5, stream=stream)
        span.fill(6, stream=stream)
        address = block.address
        block.free()
    info = captured.graph.info()
    assert pool.frozen() == 0 and info.pool_bytes >= 1000 and info.arena_bytes >= 1000
    assert pool.alloc(1000, stream).address != address
    executable = captured.graph.instantiate()
    executable.launch(stream)
    stream.synchronize()
    assert span.read(2) == b"\6\6" and executable.info().pool_bytes == info.pool_bytes
    with raises(cushim.LogicError, Status.CAPTURE):
        with Capture(stream, pools=[pool], memory=GraphMemory.REFUSE):
            pool.alloc(50 << 20, stream)


@tap.test
def node_memory_belongs_to_each_launch():
    stream, pool = Stream(), Pool()
    with Capture(stream, pools=[pool], memory=GraphMemory.NODES) as captured:
        block = pool.alloc(1000, stream)
        block.fill(5, stream=stream)
    assert captured.graph.info().allocs == 1
    executable = captured.graph.instantiate(GraphFlag.AUTO_FREE)
    for i in range(2):
        executable.launch(stream)
    stream.synchronize()
    assert executable.info().has_node_memory == 1 and executable.info().flags == GraphFlag.AUTO_FREE
    executable.close()
    used, reserved = cushim.graph_memory()
    assert 0 <= used <= reserved
    cushim.graph_memory_trim()


@tap.test
def a_graph_keeps_what_it_is_told_to():
    stream, block, called = Stream(), DeviceMemory(8), []
    graph = filled(block, 3, stream)
    graph.keep(block)
    graph.attach(lambda: called.append(True))
    reference = weakref.ref(block)
    executable = graph.instantiate()
    graph.close()
    del block
    assert not dropped(reference) and not called
    executable.launch(stream)
    executable.close()
    stream.synchronize()
    assert called == [True] and dropped(reference)
    with raises(cushim.LogicError, Status.BADHANDLE):
        graph.attach(print)


@tap.test
def a_graph_is_written_and_wrapped():
    graph = filled(DeviceMemory(8), 1, Stream())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "graph.dot")
        graph.dot(file)
        assert "digraph" in file.read_text()
        with raises(cushim.RuntimeError, Status.NOFILE):
            graph.dot(file / "below")
    with Graph.wrap(graph.handle) as wrapped:
        assert wrapped.info().nodes == 1
    assert graph.info().nodes == 1


tap.run()
