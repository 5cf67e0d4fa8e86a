"""What is the rest of my memory?  By library, and places with the lines of Python and the frames of the library that asked.

    libraries.py CUSHIM PRELOAD SIM_FOLDER CC...

Libraries of our own stand for those of the same name; the one of PyTorch asks through its allocator.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import fixture
from fixture import CC, CUSHIM, SIM, cushim, scratch, tap

CACHE = """
extern "C" int cuMemAlloc_v2(unsigned long long *, unsigned long);
namespace c10 {
namespace cuda {
template <class T> __attribute__((noinline)) unsigned long long raw_alloc(T n) {
    unsigned long long block = 0;
    int result = cuMemAlloc_v2(&block, n);
    return result ? 0 : block;
}
} // namespace cuda
} // namespace c10
extern "C" unsigned long long c10_alloc(unsigned long n) { return c10::cuda::raw_alloc<unsigned long>(n) + 0; }
extern "C" unsigned long long c10_ask_again(unsigned long n) {
    unsigned long long block = 0;
    if (cuMemAlloc_v2(&block, n))
        cuMemAlloc_v2(&block, n);
    return block;
}
"""
TORCH = """
extern "C" unsigned long long c10_alloc(unsigned long);
namespace at {
namespace native {
__attribute__((noinline)) unsigned long long empty_cuda(unsigned long n) { return c10_alloc(n) | 0; }
} // namespace native
} // namespace at
extern "C" unsigned long long torch_empty(unsigned long n) { return at::native::empty_cuda(n) | 0; }
"""
NCCL = """
int cuMemAlloc_v2(unsigned long long *, unsigned long);
static __attribute__((noinline)) int allocate(unsigned long long *at, unsigned long n) {
    int result = cuMemAlloc_v2(at, n); /* in NCCL */
    return result ? 2 : 0;
}
unsigned long long comm_init(unsigned long n) {
    unsigned long long block = 0;
    return allocate(&block, n) ? 0 : block;
}
"""
PROGRAM = """\
import ctypes, sys
import layers

folder = sys.argv[1]
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
for name in ("libc10_cuda.so", "libtorch_cuda.so", "libnccl.so.2"):
    library = ctypes.CDLL(f"{folder}/{name}", ctypes.RTLD_GLOBAL)
    for function in "torch_empty", "comm_init":
        if hasattr(library, function):
            call = getattr(library, function)
            call.restype, call.argtypes = ctypes.c_uint64, [ctypes.c_size_t]
            globals()[function] = call


def build(n):
    for _ in range(3):
        layers.make(torch_empty, n)  # build


def model(n):
    build(n)  # model


model(4 << 20)  # weights
model(1 << 20)  # bias
comm_init(8 << 20)  # comm
block = ctypes.c_uint64()
cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(2 << 20))  # own
if "pause" in sys.argv:
    print("ready", flush=True)
    sys.stdin.read()
layers.make(torch_empty, 1 << 50, 12)  # refused
"""
PACKAGE = "def make(empty, n, depth=0):\n    return make(empty, n, depth - 1) if depth else empty(n)  # in a package\n"
LINE = {what: next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {what}")) for what in ("build", "model", "weights", "bias", "comm", "own", "refused")}
folder = scratch / "site-packages"
folder.mkdir()
(folder / "layers.py").write_text(PACKAGE)
script = scratch / "train.py"
script.write_text(PROGRAM)
environment = {"LD_LIBRARY_PATH": str(SIM), "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def compile_library(name, source, language, *flags):
    compiler = [*CC[:-1], CC[-1]] if language == "c" else [shutil.which("g++") or shutil.which("clang++") or "g++"]
    done = subprocess.run([*compiler, "-g", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", str(scratch / name), "-x", language, "-", "-x", "none", *flags],
                          input=source, text=True, capture_output=True)
    if done.returncode:
        tap.skip(f"the compiler cannot build it: {done.stderr.splitlines()[0]}")


def made():
    """The folder of the libraries, made once."""
    if not (scratch / "libnccl.so.2").exists():
        compile_library("libc10_cuda.so", CACHE, "c++", f"-L{SIM}", "-l:libcuda.so.1")
        compile_library("libtorch_cuda.so", TORCH, "c++", "-Wl,--no-as-needed", "-lstdc++")
        compile_library("libnccl.so.2", NCCL, "c", f"-L{SIM}", "-l:libcuda.so.1")
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        tap.skip("this Python is none of 3.10 to 3.14")
    return str(scratch)


def recorded(name):
    path = scratch / name
    if not path.exists():
        result = cushim("record", "--oom=off", "-o", str(path), sys.executable, str(script), made(), **environment)
        assert result.returncode == 0, result
    return str(path)


@tap.test
def a_recording_says_whose_the_memory_is():
    text = cushim("report", "--by=library", recorded("by")).stdout
    rows = re.findall(r"^ +[0-9.]+ % +([0-9.]+ [KM]iB) +(\d+) blocks? +(.+)$", text, re.MULTILINE)
    assert rows == [("15.0 MiB", "6", "libtorch"), ("8.00 MiB", "1", "NCCL"), ("2.00 MiB", "1", "the program itself")], text
    page = json.loads(re.search(r'{"schema".*}', cushim("report", "--format=html", "-o", "/dev/stdout", recorded("by")).stdout, re.DOTALL)[0].split("</script>")[0])
    libraries = {row[2] for row in page["recordings"][0]["scopes"][0]["sites"]}
    assert libraries == {"libtorch", "NCCL", "the program itself"}, libraries


@tap.test
def a_label_has_the_programs_own_lines_and_tells_sites_apart():
    text = cushim("report", "--format=text", recorded("labels")).stdout
    for n_bytes, n_blocks, label in (("12.0 MiB", "3 blocks", f"build train.py:{LINE['build']} < model train.py:{LINE['model']} < <module> train.py:{LINE['weights']}"),
                                     ("3.00 MiB", "3 blocks", f"build train.py:{LINE['build']} < model train.py:{LINE['model']} < <module> train.py:{LINE['bias']}"),
                                     ("8.00 MiB", "1 block", f"<module> train.py:{LINE['comm']}")):
        assert re.search(rf"{n_bytes} +{n_blocks}\s+{label}$", text, re.MULTILINE), (label, text)
    assert "layers.py" not in text and "libffi" not in text and "alloc" not in text.split("alive")[0].split("peak")[1], text
    one, = json.loads(cushim("report", "--format=json", recorded("labels")).stdout)
    assert {site["requested_bytes"]: site["library"] for site in one["memory"][0]["sites"] if site["requests"]} == {
        12 << 20: "libtorch", 3 << 20: "libtorch", 8 << 20: "NCCL", 2 << 20: "the program itself"}, one
    stacks = {site["requested_bytes"] // site["requests"]: site["stack"] for site in fixture.valid(one)["memory"][0]["sites"] if site["requests"]}
    of_program = {n_bytes: [frame for frame in stack if "libffi" not in frame["module"] and "ctypes" not in frame["module"]] for n_bytes, stack in stacks.items()}
    functions = [frame["function"] for frame in of_program[4 << 20]]
    assert "raw_alloc" in functions[0] and "::" in functions[0] and "make" in functions and "_Z" not in str(functions), functions
    assert [frame["function"] for frame in of_program[8 << 20]][:3] == ["allocate", "comm_init", "<module>"], stacks


@tap.test
def an_out_of_memory_is_told_once_with_lines_and_names():
    for words, n_whole in (("run",), 1), (("run", "--stats"), 1), (("run", "--stats=" + str(scratch / "report.json")), 1):
        result = cushim(*words, sys.executable, str(script), made(), **environment)
        assert result.stderr.count("out of memory #1: ") == (2 if words[-1] == "--stats" else 1), result.stderr
        assert result.stderr.count("  asked at ") == n_whole, result.stderr
        stack = re.search(r"  asked at(.*?)  advice", result.stderr, re.DOTALL)[1]
        assert f"<module>  train.py:{LINE['refused']}" in stack and "torch_empty" in stack and "_Z" not in stack and "libffi" not in stack, stack
        assert re.search(r"at::native::empty_cuda", stack) and stack.count("layers.py") == 2, stack
    stack = re.search(r"  asked at(.*?)  advice", cushim("run", "--stats", sys.executable, str(script), made(), **environment).stderr, re.DOTALL)[1]
    assert not shutil.which("addr2line") or re.search(r"c10::cuda::raw_alloc.* -?:\d+", stack.replace("<stdin>", "-")), stack


@tap.test
def requests_of_one_label_that_found_no_memory_are_one_row():
    """PyTorch's cache asks at another place of its own, after it gave back what it could."""
    again = scratch / "again.py"
    again.write_text(PROGRAM.split("\n\n\ndef build")[0] + "\nctypes.CDLL(f'{folder}/libc10_cuda.so').c10_ask_again(ctypes.c_size_t(1 << 50))\n")
    path = str(scratch / "again")
    assert cushim("record", "--oom=off", "-o", path, sys.executable, str(again), made(), **environment).returncode == 0
    text = cushim("report", path).stdout
    assert re.findall(r"^refused .*|^ .*found no memory.*", text, re.MULTILINE) == [f"refused   2 requests found no memory: <module> again.py:{len(again.read_text().splitlines())}"], text


PATHS = """
#include <alloca.h>
#include <pthread.h>
#include <string.h>
typedef unsigned long long ptr;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(ptr *, unsigned long), cuMemFree_v2(ptr);
static void *context;
__attribute__((noinline)) static void ask(unsigned long n) {
    ptr block;
    if (cuMemAlloc_v2(&block, n) == 0)
        cuMemFree_v2(block);
}
#define PATH(name, n) __attribute__((noinline)) static void name(int room) { char *more = alloca(room); memset(more, 1, room); ask(n); __asm__ volatile("" ::"r"(more)); }
PATH(one, 1000)
PATH(two, 2000)
PATH(three, 3000)
PATH(four, 4000)
static void *work(void *unused) {
    static void (*const paths[])(int) = {one, two, three, four};
    cuCtxSetCurrent(context);
    for (int i = 0; i < 2000; i++)
        paths[i * 7 / 3 % 4](16 + i / 2 % 3 * 64);
    return unused;
}
int main(void) {
    pthread_t threads[3];
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
        return 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, 0);
    work(0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""


@tap.test
def stacks_of_one_depth_are_told_apart():
    """Their return addresses differ in a word or two, and each was taken before."""
    path = str(scratch / "paths")
    holder = fixture.build("a-program", "-g", "-O1", "-rdynamic", "-fno-inline", "-fno-ipa-icf", "-fno-optimize-sibling-calls", f"-L{SIM}", "-l:libcuda.so.1", "-pthread", source=PATHS)
    for stacks in "native", "auto":
        assert cushim("record", f"--stacks={stacks}", "-o", f"{path}-{stacks}", str(holder), LD_LIBRARY_PATH=str(SIM)).returncode == 0
        one, = json.loads(cushim("report", "--format=json", f"{path}-{stacks}").stdout)
        sites = [site for site in one["memory"][0]["sites"] if site["requests"]]
        names = {1000: "one", 2000: "two", 3000: "three", 4000: "four"}
        for site in sites:
            functions = [frame["function"].split("+")[0] for frame in site["stack"]]
            assert not shutil.which("addr2line") or functions[:3] == ["ask", names[site["requested_bytes"] // site["requests"]], "work"], site
            assert site["requested_bytes"] // site["requests"] * site["requests"] == site["requested_bytes"], site
        assert sum(site["requests"] for site in sites) == 8000 and len(sites) >= 8, len(sites)


@tap.test
def places_of_a_running_program_have_lines_and_libraries():
    made()
    env = {**os.environ, **environment, "CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    process = subprocess.Popen([CUSHIM, "run", "--sites=1", "--oom=off", sys.executable, str(script), str(scratch), "pause"], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    libraries = cushim("stat", "--sites", "--by=library", "--all").stdout
    places = cushim("stat", "--sites", "--all").stdout
    process.communicate("", timeout=60)
    rows = re.findall(r"^ +(\d+) +([0-9.]+ [KM]iB)  (.+)$", libraries, re.MULTILINE)
    assert rows == [("6", "15.0 MiB", "libtorch"), ("1", "8.00 MiB", "NCCL"), ("1", "2.00 MiB", "the program itself")], libraries
    assert f"<module>  train.py:{LINE['comm']}" in places and "comm_init  " in places and "make  layers.py:2" in places and "libffi" not in places, places
    for words, said in ((["--by=library", "--all"], "--by goes with --sites"), (["--sites", "--by=size", "--all"], "size")):
        wrong = cushim("stat", *words)
        assert wrong.returncode == 2 and said in wrong.stderr, wrong


@tap.test
def contexts_and_what_is_imported_have_rows_of_their_own():
    """On a device whose contexts take memory, of which NVML tells."""
    env = {**environment, "CUSHIM_SIM_CONTEXT": "64M"}
    path = str(scratch / "contexts")
    assert cushim("record", "--oom=off", "-o", path, sys.executable, str(script), made(), **env).returncode == 0
    text = cushim("report", "--by=library", path).stdout
    assert re.search(r" 64\.0 MiB +1 block +contexts and modules$", text, re.MULTILINE) and " 8.00 MiB         1 block   NCCL" in text, text
    text = cushim("report", "--format=text", path).stdout
    assert re.search(r" 64\.0 MiB +1 block\s+a context or module < ", text), text
    one, = json.loads(cushim("report", "--format=json", path).stdout)
    assert {site["library"] for site in one["memory"][0]["sites"] if site["requested_bytes"] == 64 << 20} == {"contexts and modules"}, one
    live = {**os.environ, **env, "CUSHIM_LIVE_DIR": str(scratch / "live-contexts")}
    process = subprocess.Popen([CUSHIM, "run", "--sites=1", "--oom=off", sys.executable, str(script), str(scratch), "pause"], env=live, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    text = cushim("stat", "--sites", "--by=library", "--all", CUSHIM_LIVE_DIR=live["CUSHIM_LIVE_DIR"]).stdout
    process.communicate("", timeout=60)
    assert re.search(r"^ +64\.0 MiB  contexts and modules$", text, re.MULTILINE), text


LATER = """\
import ctypes, sys, time

cuda, ref = ctypes.CDLL("libcuda.so.1"), ctypes.byref
context, module, kernel, pool, block = (ctypes.c_void_p() for _ in range(5))
all_of_it = ctypes.c_uint64(2**64 - 1)
size = ctypes.c_size_t(32 << 20)
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ref(context), 0), cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ref(block), size)
assert cuda.cuModuleLoadData(ref(module), b".version 8.0\\n.entry put(.param .u64 p)\\n{ ret; }") == 0
assert cuda.cuModuleGetFunction(ref(kernel), module, b"put") == 0
cuda.cuCtxSynchronize()
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
print("launched", flush=True), sys.stdin.readline()
cuda.cuDeviceGetDefaultMemPool(ref(pool), 0), cuda.cuMemPoolSetAttribute(pool, 4, ref(all_of_it))
for _ in range(20):  # looks are apart
    cuda.cuMemAllocAsync(ref(block), size, None), cuda.cuMemFreeAsync(block, None), cuda.cuCtxSynchronize()
    time.sleep(0.05)
print("synchronised", flush=True), sys.stdin.readline()
"""


@tap.test
def rows_add_up_to_what_nvml_says_and_the_rest_is_a_line():
    """What a context takes at its first kernel is in no row until the program waits, and what a pool keeps is."""
    script = scratch / "later.py"
    script.write_text(LATER)
    env = {**os.environ, **environment, "CUSHIM_LIVE_DIR": str(scratch / "live-later"), "CUSHIM_SIM_SHARED": str(scratch / "later-device"), "CUSHIM_SIM_KERNELS": "skip",
           "CUSHIM_SIM_CONTEXT": "64M", "CUSHIM_SIM_LAZY": "16M"}
    process = subprocess.Popen([CUSHIM, "run", "--sites=1", sys.executable, str(script)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def look():
        text = subprocess.run([CUSHIM, "stat", "--sites", "--by=library", "--all"], env=env, text=True, capture_output=True).stdout
        return {row[1]: row[0] for row in re.findall(r"^ +(?:\d+ +)?([0-9.]+ [KM]iB)  (.+)$", text, re.MULTILINE)}

    def others():
        top, metrics = (subprocess.run([CUSHIM, *words], env=env, text=True, capture_output=True).stdout for words in (["top", "--once"], ["metrics"]))
        return top.splitlines()[-1].split("  ")[-1], *re.findall(r"^cushim_unaccounted_bytes\{.*\} (\d+)$", metrics, re.MULTILINE)
    assert process.stdout.readline() == "launched\n"
    assert look() == {"the program itself": "32.0 MiB", "contexts and modules": "64.0 MiB", "of the driver, in no row": "16.0 MiB"}, look()
    assert others() == ("16.0 MiB of the driver, in no row", str(16 << 20)), others()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "synchronised\n"
    assert look() == {"the program itself": "32.0 MiB", "contexts and modules": "80.0 MiB", "held by the driver's pools and not live": "32.0 MiB"}, look()
    assert "in no row" not in others()[0] and others()[1:] == ("0",), others()
    process.communicate("", timeout=60)
    assert process.returncode == 0


tap.run()
