"""Which line of Python holds the memory: recordings of Python programs that ask by ctypes, which gives the interpreter's lock back.

    python.py CUSHIM PRELOAD SIM_FOLDER CC...
"""
import glob
import json
import os
import re
import subprocess
import sys

import fixture
from fixture import CUSHIM, SIM, cushim, scratch, tap

PROGRAM = '''\
import ctypes, sys, threading

cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)):
    assert result == 0, result


def ask(n_bytes):
    block = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(n_bytes)) == 0  # asked
    return block


class Layer:
    def __init__(self, width):
        self.weights = ask(4 * width)  # weights

    def forward(self):
        blocks = [
            ask(1000),
            ask(  # forward
                2000),
        ]
        for block in blocks:
            cuda.cuMemFree_v2(block)


def produce():
    for i in range(5):
        yield ask(3000)  # produced


def deep(n):
    return deep(n - 1) if n else ask(5000)  # deep


def größe():
    return ask(6000)  # größe


def work():
    cuda.cuCtxSetCurrent(context)
    layers = [Layer(1 << 10) for _ in range(3)]  # layers
    for layer in layers:
        layer.forward()
    kept = list(produce()), deep(100), größe(), (lambda: ask(7000))()  # lambda
    sys.modules["kept"] = kept, layers


if len(sys.argv) > 1:
    threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
else:
    work()
'''
NATIVE = """
typedef unsigned long long ptr;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(ptr *, unsigned long);
int main(void) {
    void *context;
    ptr block;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc_v2(&block, 100);
}
"""
LINES = {what: next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {what}"))
         for what in ("asked", "weights", "forward", "produced", "deep", "größe", "layers", "lambda")}
BY_BYTES = {4096: ["weights", "layers"], 2000: ["forward"], 3000: ["produced"], 5000: ["deep"] * 23, 6000: ["größe", "lambda"], 7000: ["lambda", "lambda"]}
script = scratch / "train.py"
script.write_text(PROGRAM)


def has_frames(python):
    """Of an interpreter whose frames are read."""
    done = subprocess.run([python, "-c", "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"], text=True, capture_output=True)
    major, minor, no_lock = map(int, done.stdout.split()) if done.returncode == 0 else (0, 0, 0)
    return (3, 10) <= (major, minor) <= (3, 14) and not no_lock


def interpreter():
    if not has_frames(sys.executable):
        tap.skip("this Python is none of 3.10 to 3.14")
    return sys.executable


def recorded(name, *words, python=None, **more):
    folder = scratch / name
    result = cushim("record", "-o", str(folder), python or interpreter(), *map(str, words), LD_LIBRARY_PATH=str(SIM), **more)
    assert result.returncode == 0, result
    return folder, result


def summary(folder):
    one, = json.loads(cushim("report", "--format=json", str(folder)).stdout)
    return fixture.valid(one)


def check_lines(one, n_threads):
    """Each request by its bytes: who asked, line by line."""
    device, = one["memory"]
    found = {}
    for site in device["sites"]:
        found.setdefault(site["requested_bytes"] // site["requests"], []).append(site)
    for n_bytes, whats in BY_BYTES.items():
        for site in found[n_bytes]:
            lines = [frame["line"] for frame in site["stack"]]
            wanted = [f"train.py:{LINES[what]}" for what in ["asked", *whats]]
            assert lines[:len(wanted)] == wanted, (n_bytes, lines, wanted)
            assert all(frame["module"] == str(script) and frame["offset"] == int(frame["line"].split(":")[1]) for frame in site["stack"][:3]), site
    functions = {n_bytes: [frame["function"].removeprefix("Layer.") for frame in sites[0]["stack"]] for n_bytes, sites in found.items()}  # 3.10 has no more
    assert functions[4096][:2] == ["ask", "__init__"] and functions[2000][1] == "forward" and functions[6000][1] == "größe", functions
    assert functions[7000][1].endswith("<lambda>") and len(functions[5000]) == 24, functions
    assert sum(site["requests"] for site in device["sites"]) == device["requests"] == 17 * n_threads, device
    assert one["damaged"] == one["strange"] == one["lost"] == 0, one


@tap.test
def each_place_is_a_line_of_python():
    folder, _ = recorded("plain", script)
    check_lines(summary(folder), 1)
    text = cushim("report", str(folder)).stdout
    assert re.search(rf"^ .* 3 blocks\s+ask train\.py:{LINES['asked']} < Layer\.__init__ train\.py:{LINES['weights']}$", text, re.MULTILINE), text


@tap.test
def a_refused_call_has_its_line_of_python_without_the_check():
    file, twice = scratch / "twice.json", scratch / "twice.py"
    twice.write_text(PROGRAM[:PROGRAM.index("class Layer")] + "cuda.cuCtxSetCurrent(context)\nblock = ask(1000)\nassert not cuda.cuMemFree_v2(block)\ncuda.cuMemFree_v2(block)  # again\n")
    line = next(i for i, text in enumerate(twice.read_text().splitlines(), 1) if text.endswith("# again"))
    assert cushim("run", f"--stats={file}", interpreter(), str(twice), LD_LIBRARY_PATH=str(SIM)).returncode == 0
    harm, = json.loads(file.read_text())["harms"]
    assert harm["called_at"][-1].split() == ["<module>", f"twice.py:{line}"], harm


@tap.test
def threads_have_their_own_lines():
    folder, _ = recorded("threads", script, 5)
    check_lines(summary(folder), 5)


@tap.test
def every_other_interpreter_of_this_machine_is_read_or_told_of():
    """Those of 3.10 to 3.14 are read; others are recorded with native stacks."""
    others = sorted({os.path.realpath(path) for path in glob.glob("/usr/bin/python3.[0-9]*") + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")) if re.search(r"python3(\.\d+)?$", path)})
    for i, python in enumerate(others):
        if subprocess.run([python, "-c", "import ctypes, threading"], capture_output=True).returncode:
            continue
        folder, result = recorded(f"other-{i}", script, 2, python=python)
        if has_frames(python):
            check_lines(summary(folder), 2)
        else:
            device = summary(folder)["memory"][0]
            assert device["requests"] == 34 and all(site["stack"] for site in device["sites"]), (python, result)


@tap.test
def other_formats_have_these_lines_too():
    folder, _ = recorded("formats", script)
    place = f"Layer.__init__ train.py:{LINES['weights']}"
    assert f";{place};ask train.py:{LINES['asked']} " in cushim("report", "--format=folded", str(folder)).stdout
    for form in ("html", "pprof"):
        data = subprocess.run([CUSHIM, "report", f"--format={form}", str(folder)], capture_output=True, timeout=60).stdout
        assert b"Layer.__init__" in data and b"train.py" in data, form


@tap.test
def who_runs_no_python_has_native_stacks():
    holder = fixture.build("native", f"-I{fixture.ROOT}", f"-L{SIM}", "-lcuda", "-ldl", source=NATIVE)
    folder = scratch / "native-recording"
    result = cushim("record", "-o", str(folder), str(holder), LD_LIBRARY_PATH=str(SIM))
    assert result.returncode == 0 and "Python" not in result.stderr, result
    site, = summary(folder)["memory"][0]["sites"]
    assert any("main" in frame["function"] or "native" in frame["function"] for frame in site["stack"]), site


ENGINE = """
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int PyGILState_Ensure(void), PyRun_SimpleString(const char *), cuMemAlloc_v2(unsigned long long *, unsigned long), cuCtxSetCurrent(void *);
void *PyEval_SaveThread(void);
static int n_reads;

ssize_t process_vm_readv(pid_t process, const struct iovec *ours, unsigned long n_ours, const struct iovec *theirs, unsigned long n_theirs, unsigned long flags) {
    n_reads++;
    return syscall(SYS_process_vm_readv, process, ours, n_ours, theirs, n_theirs, flags);
}

__attribute__((noinline)) static int deep(int n) {
    unsigned long long block;
    int result = n ? deep(n - 1) : 0;
    for (int i = 0; !n && i < 20; i++)
        result |= cuMemAlloc_v2(&block, 4000);
    return result + !n;
}

static void *work(void *context) {
    PyGILState_Ensure();
    PyEval_SaveThread();
    cuCtxSetCurrent(context);
    int before = n_reads, result = deep(30);
    if (result != 1 || n_reads != before)
        return "compiled code alone was read as Python";
    PyGILState_Ensure();
    if (PyRun_SimpleString("kept = ask(5000)") || n_reads == before)
        return "Python was not read";
    PyEval_SaveThread();
    return 0;
}

const char *start(void *context) {
    pthread_t thread;
    void *result = "no thread";
    if (pthread_create(&thread, 0, work, context) == 0)
        pthread_join(thread, &result);
    return result;
}
"""


@tap.test
def a_thread_that_python_knows_is_not_read_while_it_runs_compiled_code_alone():
    """As PyTorch's for gradients: reading takes a system call."""
    engine = fixture.build("engine.so", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-Wl,-z,lazy", "-lpthread", source=ENGINE)
    user = scratch / "engine.py"
    user.write_text(PROGRAM.split("class Layer")[0].replace('so.1"', 'so.1", ctypes.RTLD_GLOBAL') + f"""
start = ctypes.CDLL({str(engine)!r}).start
start.restype = ctypes.c_char_p
result = start(context)
assert not result, result
""")
    folder, _ = recorded("engine", user, LD_PRELOAD=str(engine))
    sites = {site["requested_bytes"] // site["requests"]: [(frame["function"], frame["line"]) for frame in site["stack"]] for site in summary(folder)["memory"][0]["sites"]}
    assert all(function == "deep" for function, _ in sites[4000]), sites
    assert sites[5000][:2] == [("ask", f"engine.py:{LINES['asked']}"), ("<module>", "<string>:1")], sites


RESTLESS = PROGRAM.split("if len(sys.argv)")[0] + '''
import atexit, gc, os, signal

class Late:
    def __del__(self):
        cuda.cuMemFree_v2(ask(777))

late = [Late()]
late.append(late)  # goes while the interpreter ends
atexit.register(lambda: cuda.cuMemFree_v2(ask(778)))
cuda.cuCtxSetCurrent(context)
signal.signal(signal.SIGALRM, lambda *_: cuda.cuMemFree_v2(ask(779)))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)


def run_texts():
    for i in range(30):  # each code goes before the next one comes, often to its place
        exec(compile("\\n" * i + "cuda.cuMemFree_v2(ask(9000))", f"<text {i}>", "exec"), globals())


def fork():
    child = os.fork()
    if not child:
        try:
            cuda.cuInit(0), deep(5)  # which CUDA refuses in a fork
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def restless():
    cuda.cuCtxSetCurrent(context)
    for i in range(5):
        run_texts(), work(), gc.collect()
    fork()


threads = [threading.Thread(target=restless) for _ in range(3)]
for thread in threads:
    thread.start()
restless()
for thread in threads:
    thread.join()
signal.setitimer(signal.ITIMER_REAL, 0), signal.signal(signal.SIGALRM, signal.SIG_IGN)
'''


@tap.test
def a_program_that_forks_compiles_and_asks_at_its_end_is_read_all_the_same():
    """In the main thread, which reads in place, and in others."""
    restless = scratch / "restless.py"
    restless.write_text(RESTLESS)
    folder, _ = recorded("restless", restless)
    one, *_ = sorted(json.loads(cushim("report", "--format=json", str(folder)).stdout), key=lambda one: -one["events"])
    assert one["damaged"] == one["strange"] == one["lost"] == 0, one
    found = {}
    for site in one["memory"][0]["sites"]:
        for frame in site["stack"]:
            found.setdefault(site["requested_bytes"] // max(site["requests"], 1), set()).add((frame["module"], frame["offset"]))
    texts = {(int(module[6:-1]), line) for module, line in found[9000] if module.startswith("<text ")}
    assert len(texts) >= 30 and sum(line == i + 1 for i, line in texts) >= 30, texts
    assert 777 in found and 778 in found, found.keys()


@tap.test
def threads_that_go_on_while_the_interpreter_ends_harm_nothing():
    """What they would read is freed under them."""
    leaving = scratch / "leaving.py"
    leaving.write_text(PROGRAM.split("if len(sys.argv)")[0] + '''
def forever():
    cuda.cuCtxSetCurrent(context)
    while True:
        cuda.cuMemFree_v2(ask(1000))

for i in range(4):
    threading.Thread(target=forever, daemon=True).start()
work()
''')
    for i in range(5):
        folder, result = recorded(f"leaving-{i}", leaving)
        assert summary(folder)["memory"][0]["requests"] >= 17, result


tap.run()
