"""The kernels' first use, each way in its own process: in a capture, without a context, in two contexts, by dlopen.

    kernels_first_use.py BUILD [--steps N]    BUILD/kernels and BUILD/src/companion hold the libraries
    kernels_first_use.py BUILD --way WAY      one of them, in this process

Prints TAP.  Needs only the driver, which is CUSHIM_LIBCUDA if that is set.  The last tests compare a chain of
functions that read each other's results: eager and as a graph, with dependent launches and without, N steps each
(a multiple of 4 and one more), must give the same bits.
"""
import argparse
import array
import ctypes
import hashlib
import math
import os
import pathlib
import random
import subprocess
import sys
import threading
from ctypes import byref, c_bool, c_float, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import tap  # noqa: E402

N = 131072
ONE_BITS, THREE_BITS = 0x3F800000, 0x40400000
NON_BLOCKING = 1
TIMEOUT_S = 60
STEPS_A_GRAPH = 4
D, HEADS, HEAD_DIM, KEPT = 4096, 32, 128, 64  # of the chain
GROUP, SMALL_DIM, POSITIONS = 8, 32, KEPT * D // 32  # the same rows as a long cache of one head

cuda = companion = kernels = dropin = None


def load(build):
    global cuda, companion, kernels, dropin
    cuda = ctypes.CDLL(os.environ.get("CUSHIM_LIBCUDA", "libcuda.so.1"))
    companion = ctypes.CDLL(str(build / "src" / "companion" / "libcushim.so.0"), mode=ctypes.RTLD_GLOBAL)
    companion.cushim_last_error.restype = ctypes.c_char_p
    kernels = ctypes.CDLL(str(build / "kernels" / "libcushim-kernels.so.0"))
    dropin = ctypes.CDLL(str(build / "kernels" / "dropin" / "libkernels.so"))
    cu("cuInit", 0)


def cu(name, *values):
    result = getattr(cuda, name)(*values)
    assert result == 0, f"{name}: error {result}"


def ours(name, *values):
    status = getattr(kernels, "cushim_" + name)(*values)
    assert status == 0, f"{name}: status {status}, {companion.cushim_last_error().decode()}"


# ---- the driver ----

def primary():
    context = c_void_p()
    cu("cuDevicePrimaryCtxRetain", byref(context), 0)
    cu("cuCtxSetCurrent", context)


def new_stream():
    stream = c_void_p()
    cu("cuStreamCreate", byref(stream), NON_BLOCKING)
    return stream


def alloc(n_bytes):
    address = c_uint64()
    cu("cuMemAlloc_v2", byref(address), c_size_t(n_bytes))
    return address.value


def write(address, values):
    """Write an array of ctypes or of the array module."""
    host, n_bytes = (values, ctypes.sizeof(values)) if isinstance(values, ctypes.Array) else \
        (c_void_p(values.buffer_info()[0]), len(values) * values.itemsize)
    cu("cuMemcpyHtoD_v2", c_uint64(address), host, c_size_t(n_bytes))


def read(address, n):
    values = (c_float * n)()
    cu("cuMemcpyDtoH_v2", values, c_uint64(address), c_size_t(4 * n))
    return values


def set_words(address, word, n):
    cu("cuMemsetD32_v2", c_uint64(address), c_uint(word), c_size_t(n))
    cu("cuCtxSynchronize")


def without_context(function):
    """Call it on a thread without a current context, and return its result."""
    said = []

    def run():
        try:
            current = c_void_p()
            cu("cuCtxGetCurrent", byref(current))
            assert not current.value
            said.append((function(), None))
        except BaseException as error:
            said.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = said[0]
    if error:
        raise error
    return result


class Work:
    """Work of three families: a kernel in clusters, one with much shared memory, one with two dependent launches."""

    N_QKV = 2 * 512 * 128

    def __init__(self):
        self.x, self.y = alloc(4 * N), alloc(4 * N)
        self.q, self.v, self.o = (alloc(4 * self.N_QKV) for _ in range(3))
        set_words(self.q, 0, self.N_QKV)
        set_words(self.v, ONE_BITS, self.N_QKV)
        self.reset()

    def reset(self):
        set_words(self.x, 0, N)
        for address, n in ((self.y, N), (self.o, self.N_QKV)):
            set_words(address, 0xFFFFFFFF, n)

    def queue(self, stream):
        x, y, q, v, o = map(c_void_p, (self.x, self.y, self.q, self.v, self.o))
        ours("softmax_f32", x, y, c_int64(1), c_int64(N), c_int64(1), stream)
        ours("attention_f32", q, q, v, o, c_int64(1), c_int64(2), c_int64(512), c_int64(128), c_bool(False), stream)
        ours("sum_axis_f32", y, x, c_int64(1), c_int64(N), c_int64(1), None, c_size_t(0), stream)

    def check(self):
        cu("cuCtxSynchronize")
        y, o, total = read(self.y, N), read(self.o, self.N_QKV), read(self.x, 1)[0]
        assert all(abs(value * N - 1) < 1e-5 for value in y), ("softmax", y[0], y[N - 1])
        assert all(abs(value - 1) < 1e-5 for value in o), ("attention", o[0], o[self.N_QKV - 1])
        assert abs(total - 1) < 1e-5, ("sum_axis", total)


# ---- the ways; in each, the first call of a family is the first in this process ----

def capture(mode):
    primary()
    work, stream, graph, executable = Work(), new_stream(), c_void_p(), c_void_p()
    cu("cuStreamBeginCapture_v2", stream, mode)
    work.queue(stream)
    cu("cuStreamEndCapture", stream, byref(graph))
    cu("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for _ in range(2):
        work.reset()
        cu("cuGraphLaunch", executable, stream)
        work.check()


def loaded_before_a_context():
    ours("kernels_load")
    primary()
    work = Work()
    work.queue(None)
    work.check()


def stream_without_context():
    primary()
    work, stream = Work(), new_stream()
    without_context(lambda: work.queue(stream))
    work.check()


def two_contexts():
    primary()
    first, other = Work(), c_void_p()
    first.queue(None)
    first.check()
    cu("cuCtxCreate_v2", byref(other), 0, 0)
    second, stream = Work(), new_stream()
    second.queue(None)
    second.check()
    second.reset()
    cu("cuCtxPopCurrent_v2", byref(c_void_p()))
    second.queue(stream)  # while the primary one is current
    cu("cuCtxPushCurrent_v2", other)
    second.check()


def dropin_fill(has_stream):
    primary()
    data, stream = alloc(4 * N), new_stream() if has_stream else None
    answer = without_context(lambda: dropin.launch_fill(c_void_p(data), c_uint(THREE_BITS), c_int(N), stream))
    assert answer == 0, answer
    cu("cuCtxSynchronize")
    assert all(value == 3.0 for value in read(data, N))


def dropin_transpose(has_stream):
    """Strides and order of the axes lie in device memory."""
    primary()
    x, y, stream = alloc(24), alloc(24), new_stream() if has_stream else None
    arrays = [alloc(8) for _ in range(3)]
    for address, values in zip(arrays, ((3, 1), (2, 1), (1, 0))):
        write(address, (c_int * 2)(*values))
    write(x, (c_float * 6)(*range(6)))
    answer = without_context(lambda: dropin.launch_transpose_nd(c_void_p(x), c_void_p(y), *map(c_void_p, arrays),
                                                                c_int(2), c_int(6), stream))
    assert answer == 0, answer
    cu("cuCtxSynchronize")
    assert list(read(y, 6)) == [0, 3, 1, 4, 2, 5], list(read(y, 6))


# ---- the chain ----

class Chain:
    """Each step changes the row x a little, through twelve functions."""

    def __init__(self, stream):
        draw = random.Random(1)

        def tensor(n, scale=1.0):
            address, some = alloc(4 * n), array.array("f", (draw.gauss(0, scale) for _ in range(min(n, 1 << 16))))
            write(address, some * (n // len(some)))
            return c_void_p(address)

        self.stream = stream
        self.x, self.w, self.y, self.z, self.u, self.v, self.row = (tensor(D) for _ in range(7))
        self.m, self.kept, self.counter = tensor(D * D, 0.02), tensor(KEPT * D), c_void_p(alloc(4))
        set_words(self.counter.value, 0, 1)
        self.by_position, self.one_head = (c_int64 * 3)(KEPT * D, HEAD_DIM, D), (c_int64 * 3)(KEPT * D, KEPT * D, SMALL_DIM)
        sizes = map(c_int64, (1, GROUP, 1, SMALL_DIM, POSITIONS))
        kernels.cushim_attention_decode_f32_scratch.restype = c_size_t
        self.scratch_bytes = kernels.cushim_attention_decode_f32_scratch(*sizes)
        self.scratch = c_void_p(alloc(self.scratch_bytes))

    def step(self):
        i, x, w, y, z, u, v, row = c_int64, self.x, self.w, self.y, self.z, self.u, self.v, self.row
        ours("rms_norm_f32", x, w, y, None, c_float(1e-5), i(1), i(D), self.stream)
        ours("gemv_f32", self.m, y, z, i(D), i(D), self.stream)
        ours("swiglu_f32", z, y, u, i(D), self.stream)
        ours("qk_norm_rope_f32", u, w, w, w, w, v, c_float(1e-5), i(HEADS), i(HEAD_DIM), i(HEADS // 2), i(HEAD_DIM // 2),
             self.stream)
        ours("offset_memcpy_f32", v, self.counter, self.kept, i(D), i(KEPT), self.stream)
        ours("sum_axis_f32", self.kept, row, i(1), i(KEPT), i(D), None, c_size_t(0), self.stream)
        ours("attention_decode_f32", v, self.kept, self.kept, self.counter, z, i(1), i(HEADS), i(HEADS), i(HEAD_DIM), i(0),
             i(KEPT), self.by_position, None, c_size_t(0), self.stream)
        ours("attention_decode_f32", z, self.kept, self.kept, None, y, i(1), i(GROUP), i(1), i(SMALL_DIM), i(POSITIONS),
             i(POSITIONS), self.one_head, self.scratch, c_size_t(self.scratch_bytes), self.stream)
        ours("add_f32", row, z, row, i(D), self.stream)
        ours("add_f32", row, y, row, i(GROUP * SMALL_DIM), self.stream)
        ours("softmax_f32", row, u, i(HEADS), i(HEAD_DIM), i(1), self.stream)
        ours("tanh_f32", row, v, i(D), self.stream)
        ours("mul_f32", u, v, u, i(D), self.stream)
        ours("add_f32", x, u, x, i(D), self.stream)
        ours("counter_add_i32", self.counter, c_int(1), self.stream)


def chain(is_graph, n_steps):
    """Print the result."""
    primary()
    stream = new_stream()
    work, graph, executable = Chain(stream), c_void_p(), c_void_p()
    before = bytes(read(work.x.value, D))
    work.step()
    if is_graph:
        cu("cuCtxSynchronize")
        cu("cuStreamBeginCapture_v2", stream, 1)
        for _ in range(STEPS_A_GRAPH):
            work.step()
        cu("cuStreamEndCapture", stream, byref(graph))
        cu("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for _ in range(n_steps // STEPS_A_GRAPH):
        if is_graph:
            cu("cuGraphLaunch", executable, stream)
        else:
            for _ in range(STEPS_A_GRAPH):
                work.step()
    cu("cuCtxSynchronize")
    after = read(work.x.value, D)
    assert all(map(math.isfinite, after)) and bytes(after) != before
    print(hashlib.md5(bytes(after)).hexdigest())


WAYS = {
    "a first use inside a global capture": lambda: capture(0),
    "a first use inside a thread-local capture": lambda: capture(1),
    "a first use inside a relaxed capture": lambda: capture(2),
    "loaded before there is a context": loaded_before_a_context,
    "a stream on a thread without a context": stream_without_context,
    "two contexts": two_contexts,
    "libkernels.so without a context": lambda: dropin_fill(False),
    "libkernels.so with a stream without a context": lambda: dropin_fill(True),
    "libkernels.so transposes by arrays on the device without a context": lambda: dropin_transpose(False),
    "libkernels.so transposes by arrays on the device with a stream": lambda: dropin_transpose(True),
}


# ---- each in its own process ----

def in_process(arguments, way, timeout_s, **variables):
    """What it prints; an error contains its last lines."""
    command = [sys.executable, __file__, arguments.build, "--steps", str(arguments.steps), "--way", way]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env={**os.environ, **variables})
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end in {timeout_s} s") from None
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr.strip()[-400:]}"
    return done.stdout.strip()


def add_tests(arguments):
    def add(name, function):
        function.__name__ = name
        tap.test(function)

    for way in WAYS:
        add(way, lambda way=way: in_process(arguments, way, TIMEOUT_S))
    wanted = {}

    def chain_test(way, pdl):
        said = in_process(arguments, way, 2 * TIMEOUT_S, CUSHIM_KERNEL_PDL=pdl)
        wanted.setdefault("bits", said)
        assert said == wanted["bits"], f"{said}, but the first chain that ended gave {wanted['bits']}"

    for way in ("chain eager", "chain graph"):
        for pdl, name in (("0", "without dependent launches"), ("1", "with dependent launches"),
                          ("1", "with dependent launches again")):
            add(f"{way}, {name}", lambda way=way, pdl=pdl: chain_test(way, pdl))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--steps", type=int, default=61, help="of each chain (61)")
    parser.add_argument("--way", help="this one alone, in this process")
    arguments = parser.parse_args()
    if arguments.way is None:
        add_tests(arguments)
        tap.run()
    load(pathlib.Path(arguments.build))
    if arguments.way.startswith("chain"):
        chain(arguments.way == "chain graph", arguments.steps)
    else:
        WAYS[arguments.way]()


main()
