"""Devices, contexts, streams, events, the profiler, and exceptions."""
import builtins
import copy
import ctypes
import pathlib
import pickle
import re
import subprocess
import sys
import threading
import weakref

from expect import device, dropped, raises

import cushim
import tap
from cushim import Context, Device, Event, EventFlag, Status, Stream, StreamFlag


@tap.test
def a_device_tells_what_it_is():
    assert cushim.available() and Device.count() == 2
    first = Device(0)
    assert first.name() == "cushim software device" and first.compute_capability() >= (7, 5) and first.total_memory() > 1 << 20
    assert first.get_attribute(cushim.DeviceAttribute.WARP_SIZE) == 32 and first.get_attribute(16) > 0
    assert len(first.uuid()) == 16 and first.uuid() != Device(1).uuid()
    assert Device(first.pci_bus_id()) == first != Device(1) and len({first, Device(0), Device(1)}) == 2
    assert isinstance(first.has_managed_memory(), bool) and not first.shares_memory()
    assert int(cushim.driver_version()) >= 12000 and cushim.has(cushim.Feature.GRAPH)
    cushim.init()


@tap.test
def what_is_no_device_is_refused():
    for wrong in 2, -5, "ffff:00:00.0":
        with raises(cushim.LogicError, Status.BADDEVICE):
            Device(wrong)
    with raises(cushim.LogicError):
        Device(0).get_attribute(100000)


@tap.test
def peers_are_asked_and_enabled():
    assert Device(0).can_access_peer(1) and not Device(0).can_access_peer(Device(0))
    Device(0).enable_peer_access(1)
    Device(0).enable_peer_access(Device(1))
    with raises(cushim.LogicError, Status.INVALID):
        Device(0).enable_peer_access(0)
    with Device(1).retain_primary_context() as context:
        context.enable_peer_access(0)


@tap.test
def a_made_context_is_current_until_it_is_popped():
    context = Device(0).make_context(cushim.ContextFlag.SPIN)
    assert Context.current() is context is Context.get_current() and context.get_device() == Device(0)
    other = Context(1)
    assert Context.current() is other and Context.pop() is other and Context.current() is context
    with other.pushed():
        assert Context.current().get_device() == Device(1)
    assert other.id != context.id and other.handle != context.handle
    other.detach()
    other.detach()
    context.synchronize()
    context.check()
    cushim.synchronize()
    context.detach()
    assert Context.current() is None
    with raises(cushim.LogicError, Status.NOCONTEXT):
        Context.pop()
    with raises(cushim.LogicError, Status.BADHANDLE):
        context.synchronize()


@tap.test
def a_with_statement_ends_a_context():
    with Device(0).make_context() as context:
        stream = Stream()
    assert context.closed and Context.current() is None
    with raises(cushim.LogicError, Status.DEADCONTEXT):
        stream.synchronize()
    stream.close()
    with Device(1).retain_primary_context() as primary:
        assert Context.current() is primary and Context.current().get_device().ordinal == 1
        with Device(1).retain_primary_context() as same:
            assert same is primary
        assert not primary.closed and Context.current() is primary
    assert Context.current() is None and primary.closed


@tap.test
def a_context_lives_while_it_is_on_the_stack_or_its_objects_live():
    Context(0)
    kept = weakref.ref(Context.current())
    assert not dropped(kept)
    block = cushim.DeviceMemory(16)
    Context.pop()
    assert not dropped(kept)
    block.write(b"there")
    assert block.read(5) == b"there"
    del block
    assert dropped(kept)


@tap.test
def each_thread_has_a_stack():
    found = []
    with Device(0).make_context():
        thread = threading.Thread(target=lambda: found.append(Context.current()))
        thread.start()
        thread.join()
    assert found == [None]


@tap.test
def a_context_has_limits_and_preferences():
    with Device(0).make_context() as context:
        context.set_limit(cushim.Limit.STACK_SIZE, 4096)
        assert context.get_limit(cushim.Limit.STACK_SIZE) == 4096
        context.set_cache_config(cushim.CacheConfig.L1)
        assert context.get_cache_config() in list(cushim.CacheConfig)  # a device may not let it be chosen
        assert Context.wrap(context.handle) is context and context.n_captures() == 0
        with raises(cushim.LogicError):
            context.get_limit(1000)


@tap.test
def a_stream_does_what_it_is_told():
    least, greatest = Stream.priority_range()
    with Stream(StreamFlag.NON_BLOCKING, priority=greatest) as stream:
        assert stream.flags == StreamFlag.NON_BLOCKING and stream.priority == greatest <= least
        assert stream.is_done() and not stream.is_capturing() and stream.__cuda_stream__() == (0, stream.handle)
        block = cushim.DeviceMemory(1 << 20)
        block.fill(1, stream=stream)
        stream.wait_for_event(Event().record())
        stream.synchronize()
        with Stream.wrap(stream.handle) as wrapped:
            assert wrapped.handle == stream.handle
        stream.synchronize()
    assert stream.closed
    stream.close()
    with raises(cushim.LogicError, Status.BADHANDLE):
        stream.synchronize()
    assert Stream.LEGACY.handle == 0 and Stream.PER_THREAD.is_done()


@tap.test
def events_measure_milliseconds():
    with Stream() as stream, Event() as start, Event(EventFlag.BLOCKING_SYNC) as end:
        assert start.query()
        with raises(cushim.LogicError, Status.BADHANDLE):
            start.time_till(end)
        block = cushim.DeviceMemory(1 << 20)
        start.record(stream)
        block.fill(1, stream=stream)
        assert end.record(stream).synchronize() is end and end.query()
        assert 0 < start.time_till(end) == end.time_since(start) < 1e5
        untimed = Event(EventFlag.NO_TIMING).record(stream).synchronize()
        with raises(cushim.LogicError, Status.BADHANDLE):
            untimed.time_since(start)
        assert Event.wrap(start.handle).query()


CHILD = "import cushim, sys; event = cushim.Event.from_ipc_handle(bytes.fromhex(sys.argv[1])); print(event.synchronize().query())"


@tap.test
def another_process_waits_for_an_event():
    event = Event(EventFlag.INTERPROCESS | EventFlag.NO_TIMING).record()
    done = subprocess.run([sys.executable, "-c", CHILD, event.ipc_handle().hex()], text=True, capture_output=True)
    assert done.stdout == "True\n", done.stderr
    with raises(ValueError):
        Event.from_ipc_handle(b"short")
    with raises(cushim.Error):
        Event().ipc_handle()


@tap.test
def a_profiler_is_told_where_to_begin():
    cushim.start_profiler()
    cushim.stop_profiler()


@tap.test
def each_class_of_status_has_its_exception():
    from cushim._errors import kind_of
    from cushim._library import library
    kinds = {Status.NOMEM: cushim.MemoryError, Status.LIMIT: cushim.MemoryError, Status.INVALID: cushim.LogicError, Status.COMPILE: cushim.CompileError,
             Status.LAUNCH: cushim.LaunchError, Status.NODEVICE: cushim.RuntimeError, Status.UNKNOWN: cushim.Error, Status.FAULT: cushim.LogicError}
    for status, kind in kinds.items():
        assert kind_of(library().cushim_status_class(status)) is kind, status
    assert issubclass(cushim.MemoryError, builtins.MemoryError) and issubclass(cushim.RuntimeError, builtins.RuntimeError)
    assert issubclass(cushim.CompileError, cushim.LogicError) and all(issubclass(kind, cushim.CudaError) for kind in kinds.values())
    assert cushim.OutOfMemory is cushim.MemoryError


@tap.test
def an_exception_tells_status_call_and_text():
    try:
        cushim.mem_alloc(10**15)
    except MemoryError as error:
        assert (error.status, error.call, error.args[0]) == (Status.NOMEM, "cushim_memory_alloc", "CUSHIM_NOMEM")
        assert "asked=1000000000000000" in error.text and str(error) == error.text == error.args[1]
        for other in copy.copy(error), pickle.loads(pickle.dumps(error)):
            assert (type(other), other.args, other.status, other.call) == (type(error), error.args, error.status, error.call)
    else:
        raise AssertionError("no MemoryError")


@tap.test
def a_wrong_argument_is_an_error_of_python():
    for call, kind, said in ((lambda: cushim.DeviceMemory(1.5), TypeError, "cushim_memory_alloc: argument 2 cannot be of type float"),
                             (lambda: Stream("x"), TypeError, "cushim_stream_create: argument 2 cannot be of type str"),
                             (lambda: cushim.Pool().trim(keep_bytes="x"), TypeError, "cushim_pool_trim: argument 3 cannot be of type str"),
                             (lambda: cushim.Pool(keep_bytes=-1), ValueError, "keep_bytes cannot be -1"),
                             (lambda: cushim.Pool(poll_us=1 << 32), ValueError, "poll_us cannot be 4294967296"),
                             (lambda: cushim.DeviceMemory(8).view(typestr="f4"), ValueError, "f4 is no typestr"),
                             (lambda: cushim.DeviceMemory(8).view(shape=(-1, -8)), ValueError, "is no shape"),
                             (lambda: cushim.has("x"), TypeError, "argument 1 cannot be of type str"),
                             (lambda: cushim.DeviceMemory(8).view(4).fill(1, offset=-1), ValueError, "negative"),
                             (lambda: cushim.DeviceMemory(8).fill(1, width=4, offset=4, count=2), ValueError, "8 bytes do not fit into 4"),
                             (lambda: cushim.fill_2d(cushim.DeviceMemory(8), 1, rows=2, row_words=2, pitch_bytes=8), ValueError, "10 bytes do not fit into 8"),
                             (lambda: cushim.Arena(-1), ValueError, "capacity_bytes cannot be -1")):
        try:
            call()
        except kind as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)


@tap.test
def what_the_driver_has_is_neither_copied_nor_pickled():
    for made in cushim.DeviceMemory(8), cushim.DeviceMemory(8).view(), Stream(), Event(), cushim.Pool(), cushim.Pool().alloc(8):
        for twin in copy.copy, copy.deepcopy, pickle.dumps:
            with raises(TypeError):
                twin(made)


@tap.test
def a_kernel_that_dies_is_a_launch_error_at_the_next_wait():
    context, stream = Device(0).make_context(), Stream()
    device().sim_fault(719)  # CUDA_ERROR_LAUNCH_FAILED
    for wait in stream.synchronize, context.synchronize, context.check:
        with raises(cushim.LaunchError, Status.LAUNCH):
            wait()
    context.detach()


@tap.test
def the_layer_below_is_that_of_the_headers():
    """All functions that libcushim exports; structs as large as the library says."""
    root = pathlib.Path(sys.argv[1])
    declared = re.findall(r"^CUSHIM_API [^;]*?\b(cushim_\w+)\(", "\n".join(path.read_text() for path in (root / "src/include/cushim").glob("*.h")), re.MULTILINE)
    assert len(declared) > 150 and set(cushim._api.FUNCTIONS) == set(declared)
    for name in "pool_options", "arena_options", "graph_options", "module_options", "client_options", "launch":
        found = getattr(cushim._api, f"cushim_{name}")()
        getattr(cushim._library.library(), f"cushim_{name}_default")(ctypes.byref(found))
        assert found.struct_size == ctypes.sizeof(found), name


@tap.test
def the_names_of_the_reference_are_there():
    names = """init Device Context mem_alloc mem_get_info memcpy_htod memcpy_dtoh memcpy_dtod DeviceAllocation mem_host_alloc HostAllocation Stream Event
        Module Function PreparedFunction CudaError CompileError MemoryError LaunchError ctx_flags host_alloc_flags event_flags stream_flags""".split()
    assert not [name for name in names if not hasattr(cushim, name)]
    assert not [name for name in cushim.__all__ if not hasattr(cushim, name)]
    assert cushim.ctx_flags.LMEM_RESIZE_TO_MAX == cushim.ContextFlag.RESIZE_LMEM and cushim.ctx_flags.SCHED_AUTO == 0
    assert [cushim.ctx_flags[f"SCHED_{name}"] for name in ("SPIN", "YIELD", "BLOCKING_SYNC")] == [1, 2, 4] and cushim.ctx_flags.MAP_HOST == 8
    assert list(cushim.host_alloc_flags) == [cushim.HostFlag.PORTABLE, cushim.HostFlag.MAPPED, cushim.HostFlag.COMBINED]
    assert cushim.event_flags.DISABLE_TIMING == EventFlag.NO_TIMING and cushim.event_flags.INTERPROCESS == EventFlag.INTERPROCESS
    assert cushim.event_flags.BLOCKING_SYNC == EventFlag.BLOCKING_SYNC and cushim.event_flags.DEFAULT == cushim.stream_flags.DEFAULT == 0
    assert cushim.stream_flags.NON_BLOCKING == StreamFlag.NON_BLOCKING


@tap.test
def every_public_name_says_what_it_is():
    inherited = {"__doc__"}
    for name in cushim.__all__:
        thing = getattr(cushim, name)
        if isinstance(thing, type) and not issubclass(thing, int) and name not in inherited:
            assert thing.__doc__, name
        elif callable(thing):
            assert thing.__doc__ or issubclass(thing, int), name


@tap.test
def python_drops_objects_of_all_kinds_at_its_end_without_a_word():
    done = subprocess.run([sys.executable, "-c", """
import cushim
context = cushim.Device(0).make_context()
stream, event, block, pinned = cushim.Stream(), cushim.Event(), cushim.DeviceMemory(100), cushim.PinnedMemory(100)
pool, arena = cushim.Pool(context), cushim.Arena(1 << 20)
of_pool, of_arena, part = pool.alloc(100, stream), arena.alloc(100, stream), block.view(10)
with cushim.Capture(stream, pools=[pool]) as captured:
    of_pool.fill(1, stream=stream)
captured.graph.keep(block)
executable = captured.graph.instantiate()
executable.launch(stream)
capsule = of_pool.__dlpack__()
"""], text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


@tap.test
def the_library_comes_in_at_first_use():
    script = 'import cushim; print("/libcushim" in open("/proc/self/maps").read())'
    assert subprocess.run([sys.executable, "-c", script], text=True, capture_output=True).stdout == "False\n"
    missing = 'import cushim\ntry:\n    cushim.Device.count()\nexcept RuntimeError as error:\n    print(type(error).__module__, error.status.name, error)'
    import os
    said = subprocess.run([sys.executable, "-c", missing], text=True, capture_output=True, env={**os.environ, "CUSHIM_LIBCUDA": "/nonexistent"}).stdout
    assert re.match(r"cushim\._errors NOCUDA .*/nonexistent", said), said


tap.run()
