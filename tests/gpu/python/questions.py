"""Undocumented behaviour of the driver: one question after the other, one line of JSON each.

    questions.py              all of them, in about a minute; needs a GPU, and no preload
    questions.py open         a second process, which opens the handles that it reads, one per line

Each answer says what it counts; docs/results has the latest ones.
"""
import ctypes
import json
import os
import random
import subprocess
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
PAGE = 2 * MIB
SPIN = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry spin(.param .u64 ns) {
    .reg .u64 %now, %end, %ns;
    .reg .pred %p;
    ld.param.u64 %ns, [ns];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %now, %ns;
again:
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %p, %now, %end;
    @%p bra again;
    ret;
}
"""
NAMES = {0: "success", 1: "invalid value", 2: "out of memory", 201: "invalid context", 400: "invalid handle", 801: "not supported",
         208: "already mapped", 700: "illegal address", 900: "capture unsupported", 901: "capture invalidated", 999: "unknown"}


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("win32", ctypes.c_void_p),
                ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 4)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def name_of(code):
    return NAMES.get(code, str(code))


def call(name, *arguments):
    """The name of the result, for calls that may be refused."""
    return name_of(getattr(cuda, name)(*arguments))


def must(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        raise RuntimeError(f"{name}: {name_of(code)}")


def u64(value=0):
    return ctypes.c_uint64(value)


def alloc(n_bytes):
    at = u64()
    must("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(n_bytes))
    return at.value


def free(at):
    must("cuMemFree_v2", u64(at))


def us_since(start):
    return (time.perf_counter() - start) * 1e6


def median(values):
    return round(sorted(values)[len(values) // 2], 3)


def each_us(n, what):
    """Median microseconds of what(i), including the time of the clock."""
    times = []
    for i in range(n):
        start = time.perf_counter()
        what(i)
        times.append(us_since(start))
    return median(times)


def loop_ns(name, *arguments):
    """Nanoseconds of a call beyond those of a trivial call from Python (cuDriverGetVersion)."""
    version, n = ctypes.c_int(), 20000

    def once(function, given):
        start = time.perf_counter()
        for _ in range(n):
            function(*given)
        return us_since(start) * 1e3 / n

    empty = min(once(cuda.cuDriverGetVersion, (ctypes.byref(version),)) for _ in range(3))
    return round(max(0.0, min(once(getattr(cuda, name), arguments) for _ in range(3)) - empty))


class Device:
    def __init__(self):
        must("cuInit", 0)
        self.context, self.module, self.spin = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        must("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        must("cuCtxSetCurrent", self.context)

    def load(self):
        """The kernel in the current context; its first use takes long."""
        must("cuModuleLoadData", ctypes.byref(self.module), SPIN)
        must("cuModuleGetFunction", ctypes.byref(self.spin), self.module, b"spin")
        self.work(None, 0)
        must("cuCtxSynchronize")

    def work(self, stream, ms):
        ns = u64(int(ms * 1e6))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
        must("cuLaunchKernel", self.spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)


def stream_of(flags=1):
    stream = ctypes.c_void_p()
    must("cuStreamCreate", ctypes.byref(stream), flags)
    return stream


def free_bytes():
    free_now, total = ctypes.c_size_t(), ctypes.c_size_t()
    must("cuMemGetInfo_v2", ctypes.byref(free_now), ctypes.byref(total))
    return free_now.value


# ---- memory of the driver ----

def what_a_page_costs(device):
    """Pages of 2 MiB, one call each, against twice as much per call, and the change of the driver's free memory."""
    found = {}
    for pages, n in ((1, 800), (2, 400), (16, 100)):
        blocks, before = [], free_bytes()
        took = each_us(n, lambda i: blocks.append(alloc(pages * PAGE)))
        held = before - free_bytes()
        gave = each_us(n, lambda i: free(blocks[i]))
        found[f"{2 * pages} MiB"] = {"alloc_us": took, "free_us": gave, "held_by_asked": round(held / (n * pages * PAGE), 3)}
    return found


def what_small_blocks_hold(device):
    """The device memory that 1,000 blocks of a size take."""
    found = {}
    for kib in (0.5, 4, 64, 256, 512, 680, 1000, 1024, 1100, 2200):
        before = free_bytes()
        blocks = [alloc(int(kib * 1024)) for _ in range(1000)]
        found[f"{kib} KiB"] = round((before - free_bytes()) / (1000 * kib * 1024), 3)
        for at in blocks:
            free(at)
    return found


def whether_a_free_waits(device):
    """Milliseconds of cuMemFree during 20 ms of work in the same context, and in another context of the device."""
    found, mine, other = {}, device.context, ctypes.c_void_p()
    device.load()
    stream = stream_of()
    at = alloc(64 * MIB)
    device.work(stream, 20)
    start = time.perf_counter()
    free(at)
    found["same_context_ms"] = round(us_since(start) / 1e3, 2)
    must("cuCtxSynchronize")
    try:
        make = cuda.cuCtxCreate_v2
    except AttributeError:
        make = cuda.cuCtxCreate
    code = make(ctypes.byref(other), 0, 0)
    if code:
        return {**found, "other_context": name_of(code)}
    theirs = Device.__new__(Device)
    theirs.module, theirs.spin = ctypes.c_void_p(), ctypes.c_void_p()
    theirs.load()
    their_stream = stream_of()
    must("cuCtxSetCurrent", mine)
    at = alloc(64 * MIB)
    must("cuCtxSetCurrent", other)
    theirs.work(their_stream, 20)
    must("cuCtxSetCurrent", mine)
    start = time.perf_counter()
    free(at)
    found["other_context_ms"] = round(us_since(start) / 1e3, 2)
    start = time.perf_counter()
    again = alloc(64 * MIB)
    found["alloc_after_ms"] = round(us_since(start) / 1e3, 2)
    free(again)
    must("cuCtxSetCurrent", other)
    must("cuCtxSynchronize")
    must("cuCtxDestroy_v2", other)
    must("cuCtxSetCurrent", mine)
    return found


def what_questions_cost(device):
    """Nanoseconds of the calls that a pair may make."""
    stream, event, gone = stream_of(), ctypes.c_void_p(), ctypes.c_void_p()
    status, current = ctypes.c_int(), ctypes.c_void_p()
    must("cuEventCreate", ctypes.byref(event), 2)
    must("cuEventRecord", event, stream)
    must("cuCtxSynchronize")
    dying = stream_of()
    must("cuEventCreate", ctypes.byref(gone), 2)
    must("cuEventRecord", gone, dying)
    must("cuStreamDestroy_v2", dying)
    return {"cuEventQuery_ns": loop_ns("cuEventQuery", event), "of_a_destroyed_stream_ns": loop_ns("cuEventQuery", gone),
            "of_a_destroyed_stream": call("cuEventQuery", gone),
            "cuStreamIsCapturing_ns": loop_ns("cuStreamIsCapturing", stream, ctypes.byref(status)),
            "cuCtxGetCurrent_ns": loop_ns("cuCtxGetCurrent", ctypes.byref(current)),
            "cuCtxRecordEvent_ns": loop_ns("cuCtxRecordEvent", device.context, event),
            "cuEventRecord_ns": loop_ns("cuEventRecord", event, stream),
            "cuMemGetInfo_ns": loop_ns("cuMemGetInfo_v2", ctypes.byref(u64()), ctypes.byref(u64()))}


def how_memory_is_aligned(device):
    """The fewest trailing zero bits of 32 addresses of a size."""
    def least(obtain, release, n_bytes):
        found = [obtain(n_bytes) for _ in range(32)]
        for at in found:
            release(at)
        return min((at & -at).bit_length() - 1 for at in found)

    def pinned(n_bytes):
        at = ctypes.c_void_p()
        must("cuMemHostAlloc", ctypes.byref(at), ctypes.c_size_t(n_bytes), 0)
        return at.value

    def managed(n_bytes):
        at = u64()
        must("cuMemAllocManaged", ctypes.byref(at), ctypes.c_size_t(n_bytes), 1)
        return at.value

    sizes = {"1 MiB": MIB, "2 MiB": PAGE, "3 MiB": 3 * MIB, "64 MiB": 64 * MIB}
    return {"device": {name: least(alloc, free, n) for name, n in sizes.items()},
            "pinned": {name: least(pinned, lambda at: must("cuMemFreeHost", ctypes.c_void_p(at)), n) for name, n in sizes.items() if n <= PAGE * 2},
            "managed": {name: least(managed, free, n) for name, n in sizes.items()}}


# ---- virtual memory ----

def properties_of(rdma=0):
    return Properties(type=1, handles=0, location=Location(1, 0), rdma=rdma)


def backed(n_handles, handle_bytes, rdma=0):
    """(address, handles, microseconds of each step)."""
    base, handles, took = u64(), [], {"create": 0.0, "map": 0.0}
    must("cuMemAddressReserve", ctypes.byref(base), ctypes.c_size_t(n_handles * handle_bytes), ctypes.c_size_t(0), u64(), u64())
    for i in range(n_handles):
        handle, wanted = u64(), properties_of(rdma)
        start = time.perf_counter()
        must("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(handle_bytes), ctypes.byref(wanted), u64())
        took["create"] += us_since(start)
        start = time.perf_counter()
        must("cuMemMap", u64(base.value + i * handle_bytes), ctypes.c_size_t(handle_bytes), ctypes.c_size_t(0), handle, u64())
        took["map"] += us_since(start)
        handles.append(handle)
    access = Access(Location(1, 0), 3)
    start = time.perf_counter()
    must("cuMemSetAccess", base, ctypes.c_size_t(n_handles * handle_bytes), ctypes.byref(access), ctypes.c_size_t(1))
    took["access of the range"] = us_since(start)
    return base.value, handles, took


def unback(base, handles, handle_bytes, took):
    took["unmap"] = took["release"] = 0.0
    for i, handle in enumerate(handles):
        start = time.perf_counter()
        must("cuMemUnmap", u64(base + i * handle_bytes), ctypes.c_size_t(handle_bytes))
        took["unmap"] += us_since(start)
        start = time.perf_counter()
        must("cuMemRelease", handle)
        took["release"] += us_since(start)
    must("cuMemAddressFree", u64(base), ctypes.c_size_t(len(handles) * handle_bytes))


def what_virtual_memory_costs(device):
    """Microseconds for 32 handles of 2 MiB and one of 64 MiB; the same for memory that RDMA may reach."""
    found = {}
    for name, n, n_bytes, rdma in (("32 x 2 MiB", 32, PAGE, 0), ("1 x 64 MiB", 1, 32 * PAGE, 0), ("32 x 2 MiB, RDMA", 32, PAGE, 1)):
        try:
            runs = []
            for _ in range(9):
                base, handles, took = backed(n, n_bytes, rdma)
                unback(base, handles, n_bytes, took)
                runs.append(took)
            found[name] = {step: median([run[step] / (1 if step.startswith("access") else n) for run in runs]) for step in runs[0]}
        except RuntimeError as error:
            found[name] = str(error)
    return found


def whether_small_handles_are_slower(device):
    """GB/s of copies inside 2 GiB: with handles of 2 MiB, with one handle, with cuMemAlloc."""
    half = 1 << 30

    def speed(base):
        start, end, ms, best = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(), 0.0
        must("cuEventCreate", ctypes.byref(start), 0)
        must("cuEventCreate", ctypes.byref(end), 0)
        for _ in range(7):
            must("cuEventRecord", start, None)
            must("cuMemcpyDtoDAsync_v2", u64(base + half), u64(base), ctypes.c_size_t(half), None)
            must("cuEventRecord", end, None)
            must("cuEventSynchronize", end)
            must("cuEventElapsedTime", ctypes.byref(ms), start, end)
            best = max(best, 2 * half / ms.value / 1e6)
        return round(best)

    found = {}
    for name, n, n_bytes in (("handles of 2 MiB", 1024, PAGE), ("one handle", 1, 2 * half)):
        base, handles, took = backed(n, n_bytes)
        found[name] = speed(base)
        unback(base, handles, n_bytes, took)
    at = alloc(2 * half)
    found["cuMemAlloc"] = speed(at)
    free(at)
    return found


def what_a_map_does_to_a_capture(device):
    """cuMemMap with cuMemSetAccess in each mode of capture: their results, and the state of the capture."""
    found = {}
    for mode, name in ((0, "global"), (1, "thread local"), (2, "relaxed")):
        stream, graph, base, handle, wanted = stream_of(), ctypes.c_void_p(), u64(), u64(), properties_of()
        must("cuMemAddressReserve", ctypes.byref(base), ctypes.c_size_t(PAGE), ctypes.c_size_t(0), u64(), u64())
        must("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(PAGE), ctypes.byref(wanted), u64())
        must("cuStreamBeginCapture_v2", stream, mode)
        answers = [call("cuMemMap", base, ctypes.c_size_t(PAGE), ctypes.c_size_t(0), handle, u64())]
        access = Access(Location(1, 0), 3)
        answers.append(call("cuMemSetAccess", base, ctypes.c_size_t(PAGE), ctypes.byref(access), ctypes.c_size_t(1)))
        answers.append(call("cuMemUnmap", base, ctypes.c_size_t(PAGE)))
        found[name] = {"map, access, unmap": ", ".join(answers), "end": call("cuStreamEndCapture", stream, ctypes.byref(graph))}
        call("cuMemUnmap", base, ctypes.c_size_t(PAGE))
        call("cuMemRelease", handle)
        call("cuMemAddressFree", base, ctypes.c_size_t(PAGE))
    return found


# ---- handles between processes ----

class Opener:
    """A second process that opens handles; ahead: a command before it, such as unshare."""

    def __init__(self, *ahead):
        self.process = subprocess.Popen([*ahead, sys.executable, __file__, "open"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip() or "ended"
        except OSError:
            return "ended"

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        self.process.wait(30)


def run_opener():
    """open HANDLE | read N | random SEED COUNT | close"""
    try:
        Device()
    except RuntimeError as error:
        for _ in sys.stdin:
            print(f"no device: {error}", flush=True)
        return
    at = u64()
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "open":
            handle = Handle.from_buffer_copy(bytes.fromhex(rest[0]))
            print(call("cuIpcOpenMemHandle_v2", ctypes.byref(at), handle, 1), flush=True)
        elif word == "read":
            into = ctypes.create_string_buffer(8)
            answer = call("cuMemcpyDtoH_v2", into, at, ctypes.c_size_t(8))
            base, size = u64(), ctypes.c_size_t()
            call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), at)
            print(f"{answer} {into.raw.hex()} offset {at.value - base.value} range {size.value}", flush=True)
        elif word == "random":
            draw, answers, until = random.Random(int(rest[0])), {}, time.monotonic() + 10
            for n in range(int(rest[1])):
                found = call("cuIpcOpenMemHandle_v2", ctypes.byref(at), Handle.from_buffer_copy(draw.randbytes(64)), 1)
                answers[found] = answers.get(found, 0) + 1
                if found == "success":
                    call("cuIpcCloseMemHandle", at)
                if time.monotonic() > until:
                    break
            print(json.dumps(answers), flush=True)
        elif word == "close":
            print(call("cuIpcCloseMemHandle", at), flush=True)


def handle_of(at):
    handle = Handle()
    must("cuIpcGetMemHandle", ctypes.byref(handle), u64(at))
    return bytes(handle.bytes)


def fill(at, value, n_bytes=4096):
    must("cuMemsetD8_v2", u64(at), value, ctypes.c_size_t(n_bytes))
    must("cuCtxSynchronize")


def how_handles_look(device):
    """The bytes of a handle that differ between blocks, and the position of a small block's offset."""
    found = {}
    for name, n_bytes in (("4 KiB", 4096), ("1 MiB", MIB), ("2 MiB", PAGE), ("64 MiB", 64 * MIB)):
        blocks = [alloc(n_bytes) for _ in range(4)]
        handles = [handle_of(at) for at in blocks]
        differing = [i for i in range(64) if len({handle[i] for handle in handles}) > 1]
        found[name] = {"bytes that differ": differing, "at 28": [int.from_bytes(handle[28:32], "little") for handle in handles],
                       "address in its page": [at % PAGE for at in blocks]}
        for at in blocks:
            free(at)
    return found


def what_a_changed_handle_opens(device):
    """Handles with one flipped byte, and 10,000 random ones."""
    at = alloc(8 * MIB)
    fill(at, 0x5A)
    handle, opener, answers = handle_of(at), Opener(), {}
    honest = opener.ask(f"open {handle.hex()}"), opener.ask("read"), opener.ask("close")
    for i in range(64):
        changed = bytearray(handle)
        changed[i] ^= 1
        answer = opener.ask(f"open {changed.hex()}")
        if answer == "success":
            answer = "success, reads " + opener.ask("read")
            opener.ask("close")
        answers.setdefault(answer, []).append(i)
        if answer != "invalid value" and "reads success" not in answer:  # because its context may be gone
            opener.end()
            opener = Opener()
    found = {"unchanged": ", ".join(honest), "a bit of byte i flipped": {answer: f"{len(which)} bytes: {which}" for answer, which in answers.items()}}
    found["random"] = json.loads(opener.ask("random 1 10000") or "{}")
    opener.end()
    free(at)
    return found


def what_becomes_of_an_open_handle(device):
    """The exporter frees a block while an importer has it open; a handle is opened after the free."""
    at, opener = alloc(8 * MIB), Opener()
    fill(at, 0x33)
    handle = handle_of(at)
    found = {"open": opener.ask(f"open {handle.hex()}"), "read": opener.ask("read")}
    before = free_bytes()
    start = time.perf_counter()
    free(at)
    found["free took us"] = round(us_since(start))
    found["memory back after the free"] = free_bytes() - before
    found["read after the free"] = opener.ask("read")
    again = alloc(8 * MIB)
    found["same address again"] = again == at
    fill(again, 0x44)
    found["read after another block"] = opener.ask("read")
    found["close"] = opener.ask("close")
    found["memory back after the close"] = free_bytes() - before + 8 * MIB
    free(again)
    found["open after the free"] = opener.ask(f"open {handle.hex()}")
    opener.end()
    return found


def who_may_open(device):
    """A handle in other namespaces, and for another user."""
    at = alloc(8 * MIB)
    fill(at, 0x66)
    handle, found = handle_of(at), {}
    for name, ahead in (("pid namespace", ("unshare", "--fork", "--pid", "--mount-proc")), ("IPC namespace", ("unshare", "--ipc")),
                        ("network namespace", ("unshare", "--net")), ("user namespace", ("unshare", "--user", "--map-root-user")),
                        ("another user", ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))):
        try:
            opener = Opener(*ahead)
            answer = opener.ask(f"open {handle.hex()}")
            found[name] = f"{answer}, reads {opener.ask('read')}" if answer == "success" else answer
            opener.end()
        except OSError as error:
            found[name] = str(error)
    free(at)
    return found


def what_a_range_says(device):
    """BUFFER_ID, start and size of two neighbours in one page, and of a second life at the same address."""
    def facts(at):
        number, start, size = u64(), u64(), ctypes.c_size_t()
        must("cuPointerGetAttribute", ctypes.byref(number), 7, u64(at))
        must("cuPointerGetAttribute", ctypes.byref(start), 11, u64(at))
        must("cuPointerGetAttribute", ctypes.byref(size), 12, u64(at))
        return {"buffer": number.value, "offset": at - start.value, "bytes": size.value}

    one, two = alloc(4096), alloc(5000)
    found = {"neighbours": [facts(one), facts(two)], "inside": facts(two + 100), "apart": abs(two - one)}
    free(one)
    again = alloc(4096)
    found["second life"] = {**facts(again), "same address": again == one}
    free(again)
    free(two)
    return found


QUESTIONS = [what_a_page_costs, what_small_blocks_hold, whether_a_free_waits, what_questions_cost, how_memory_is_aligned,
             what_virtual_memory_costs, whether_small_handles_are_slower, what_a_map_does_to_a_capture, what_a_range_says,
             how_handles_look, what_becomes_of_an_open_handle, who_may_open, what_a_changed_handle_opens]


def main():
    if sys.argv[1:] == ["open"]:
        return run_opener()
    device = Device()
    for question in QUESTIONS:
        start = time.perf_counter()
        try:
            answer = question(device)
        except (RuntimeError, AttributeError, subprocess.SubprocessError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"question": question.__name__, "asks": question.__doc__.strip(), "answer": answer,
                          "seconds": round(us_since(start) / 1e6, 2)}), flush=True)
    return 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
