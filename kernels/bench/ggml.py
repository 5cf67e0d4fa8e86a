"""ggml as a peer (--ggml FOLDER): its operations on copies of a set's tensors, through the C interface of its libraries.

ggml queues on a stream of its own. Around a row of calls that stream and the caller's wait for each other, so ggml's kernels
are captured and replayed as ours are.
"""
import contextlib
import ctypes
import os
import subprocess
import sys

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q5_0": 6, "q8_0": 8, "q4k": 12, "q5k": 13, "q6k": 14, "i32": 26}
MOST_NODES = 8  # of an operation
BOUND = 1e-3  # for the NMSE: ggml rounds the columns of a product to eight bits, and q and v of attention to halves
P, I, N, F, B = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_float, ctypes.c_bool


class InitParams(ctypes.Structure):
    """struct ggml_init_params."""
    _fields_ = [("mem_size", N), ("mem_buffer", P), ("no_alloc", B)]


FUNCTIONS = {  # the result, then the parameters
    "init": (P, InitParams), "free": (None, P), "version": (ctypes.c_char_p,), "tensor_overhead": (N,),
    "graph_overhead_custom": (N, N, B), "new_tensor": (P, P, I, I, P), "new_graph_custom": (P, P, N, B),
    "build_forward_expand": (None, P, P), "get_data": (P, P), "nbytes": (N, P), "mul_mat": (P, P, P, P), "mul": (P, P, P, P),
    "rms_norm": (P, P, P, F), "soft_max": (P, P, P), "get_rows": (P, P, P, P), "flash_attn_ext": (P, P, P, P, P, P, F, F, F),
    "backend_get_device": (P, P), "backend_alloc_ctx_tensors": (P, P, P), "backend_buffer_free": (None, P),
    "backend_supports_op": (B, P, P), "backend_graph_compute_async": (I, P, P), "backend_event_new": (P, P),
    "backend_event_wait": (None, P, P), "backend_event_record": (None, P, P)}


def find(folder, backend):
    """Two libraries in the folder or below it, built there if it is ggml's source."""
    def libraries():
        return [min(folder.absolute().rglob(f"libggml-{name}.so*"), default=None) for name in ("base", backend)]

    if not all(libraries()) and (folder / "CMakeLists.txt").exists():
        build = folder / "build"
        is_cuda = "ON" if backend == "cuda" else "OFF"  # for the device that is there, which is CMake's default
        subprocess.run(["cmake", "-S", folder, "-B", build, "-DCMAKE_BUILD_TYPE=Release", f"-DGGML_CUDA={is_cuda}"], check=True)
        subprocess.run(["cmake", "--build", build, "--target", f"ggml-{backend}", "-j", str(os.cpu_count())], check=True)
    if not all(libraries()):
        sys.exit(f"kernels.py: {folder} has no libggml-base.so and libggml-{backend}.so, and is no source of ggml "
                 "(https://github.com/ggml-org/ggml)")
    return libraries()


class Ggml:
    loaded = None

    def __init__(self, libraries, backend):
        import torch  # find() works without it
        self.torch = torch
        os.environ["GGML_CUDA_DISABLE_GRAPHS"] = "1"  # otherwise it begins a capture within ours
        base, own = (ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL) for path in libraries)
        for name, (result, *taken) in FUNCTIONS.items():
            function = getattr(base, f"ggml_{name}")
            function.restype, function.argtypes = result, taken
            setattr(self, name, function)
        start = getattr(own, f"ggml_backend_{backend}_init")
        start.restype = P
        self.backend = start(0) if backend == "cuda" else start()
        self.context_bytes = 2 * MOST_NODES * self.tensor_overhead() + self.graph_overhead_custom(MOST_NODES, False)
        self.events = [self.event() for _ in range(2)] if backend == "cuda" else []

    def event(self):
        """An event of PyTorch's, and the same as ggml's struct: its device, and the event of CUDA."""
        event, device = self.torch.cuda.Event(), self.backend_get_device(self.backend)
        event.record()
        if P.from_address(self.backend_event_new(device)).value != device:
            raise RuntimeError("this ggml has another struct ggml_backend_event")
        return event, (P * 2)(device, event.cuda_event)

    def tensor(self, owner, kind, sizes, values):
        """A copy of the values, the innermost size first. The owner, a tensor of the set, keeps it for all sets that share it."""
        if not hasattr(owner, "of_ggml"):
            context = Context(self)
            tensor = self.new_tensor(context.pointer, TYPES[kind], len(sizes), (ctypes.c_int64 * len(sizes))(*sizes))
            context.allocate()
            self.bytes(tensor, owner.device).copy_(values.contiguous().view(-1).view(self.torch.uint8))
            if self.events:
                self.torch.cuda.current_stream().synchronize()  # the stream of ggml's may have been joined before
            owner.of_ggml = context, tensor
        return owner.of_ggml[1]

    def bytes(self, tensor, device):
        """The memory of ggml's tensor as a tensor of PyTorch's."""
        storage = self.torch._C._construct_storage_from_data_pointer(self.get_data(tensor), device, self.nbytes(tensor))
        return self.torch.empty(0, dtype=self.torch.uint8, device=device).set_(storage)

    @contextlib.contextmanager
    def joined(self):
        """Calls within are behind what the current stream of PyTorch's has queued, and ahead of what it will."""
        if self.events:
            event, of_ggml = self.events[0]
            event.record()
            self.backend_event_wait(self.backend, of_ggml)
        try:
            yield
        finally:
            if self.events:
                event, of_ggml = self.events[1]
                self.backend_event_record(of_ggml, self.backend)
                event.wait()

    def compute(self, graph):
        if self.backend_graph_compute_async(self.backend, graph) != 0:
            raise RuntimeError("ggml failed")


class Context:
    """Tensors or nodes of ggml's, and their memory, which end with it."""

    def __init__(self, ggml):
        self.ggml, self.buffer = ggml, None
        self.pointer = ggml.init(InitParams(ggml.context_bytes, None, True))

    def allocate(self):
        self.buffer = self.ggml.backend_alloc_ctx_tensors(self.pointer, self.ggml.backend)
        if not self.buffer:
            raise RuntimeError("ggml got no memory")

    def __del__(self):
        if self.buffer:
            self.ggml.backend_buffer_free(self.buffer)
        self.ggml.free(self.pointer)


class Operation:
    def __init__(self, ggml, make, t):
        self.ggml, self.context = ggml, Context(ggml)
        node = make(ggml, self.context.pointer, t)
        if not ggml.backend_supports_op(ggml.backend, node):
            raise RuntimeError("this ggml has no such operation")
        self.graph = ggml.new_graph_custom(self.context.pointer, MOST_NODES, False)
        ggml.build_forward_expand(self.graph, node)
        self.context.allocate()
        self.result = ggml.bytes(node, t["y"].device).view(ggml.torch.float32)


def peer(make, shown=lambda y: y):
    """A function of a set, which gives the result, shown in our order, of the node that make(ggml, context, set) returns."""
    def run(t):
        if "ggml" not in t:
            t["ggml"] = Operation(Ggml.loaded, make, t)
        Ggml.loaded.compute(t["ggml"].graph)
        return shown(t["ggml"].result)

    run.joined = lambda: Ggml.loaded.joined()
    return run


def mul_mat(kind, m, k, n):
    def make(ggml, context, t):
        w = ggml.torch.cat((t["d"].view(ggml.torch.uint8), t["w"]), 1) if "d" in t else t["w"]
        return ggml.mul_mat(context, ggml.tensor(t["w"], kind, (k, m), w), ggml.tensor(t["x"], "f32", (k, n), t["x"].t()))
    return peer(make, lambda y: y.view(n, m).t())


def rms_norm(rows, d, epsilon):
    return peer(lambda ggml, context, t: ggml.mul(
        context, ggml.rms_norm(context, ggml.tensor(t["x"], "f32", (d, rows), t["x"]), epsilon), ggml.tensor(t["w"], "f32", (d,), t["w"])))


def soft_max(rows, d):
    return peer(lambda ggml, context, t: ggml.soft_max(context, ggml.tensor(t["x"], "f32", (d, rows), t["x"])))


def get_rows(n, d, rows):
    return peer(lambda ggml, context, t: ggml.get_rows(
        context, ggml.tensor(t["a"], "f32", (d, rows), t["a"]), ggml.tensor(t["i"], "i32", (n,), t["i"].int())))


def attention(q_sizes, kv_sizes, halves):
    """Of the keys and values that `halves` gives."""
    def make(ggml, context, t):
        k, v = (ggml.tensor(t[name], "f16", kv_sizes, values) for name, values in zip("kv", halves(t)))
        t["mask"] = t["k"].new_zeros(kv_sizes[1])  # without one it takes slower kernels
        mask = ggml.tensor(t["mask"], "f16", (kv_sizes[1], 1), t["mask"])
        return ggml.flash_attn_ext(context, ggml.tensor(t["q"], "f32", q_sizes, t["q"]), k, v, mask, q_sizes[0] ** -0.5, 0, 0)
    return peer(make)
