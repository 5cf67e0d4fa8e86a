"""The preload as an object: what it needs, what it exports, what it leaves to others."""
import platform
import re
import subprocess

import stage
import tap
from stage import HOOKS, PRELOAD, ROOT

CEILING = (2, 34)
# What interposition.md D5 lists beside the rows: the two stubs, the questions of preload.h, the NVTX entry.
DECLARED = set(re.findall(r"^(?:int|void|size_t) (cushim_\w+)\(", (ROOT / "src/include/cushim/preload.h").read_text(), re.M))
NVTX = {"InitializeInjectionNvtx2"}


def tool(*argv):
    return subprocess.run([*argv, PRELOAD], check=True, capture_output=True, text=True).stdout


def dynamic():
    return re.findall(r"^\s*\S+ \((\w+)\)\s+(.*)$", tool("readelf", "-dW"), re.M)


def symbols(kind):
    for line in tool("nm", "-D", kind).splitlines():
        yield line.split()[-1]


@tap.test
def it_needs_libc_alone():
    needed = {re.search(r"\[(.*)\]", value).group(1) for tag, value in dynamic() if tag == "NEEDED"}
    old_glibc = {"libdl.so.2", "libpthread.so.0"}
    assert "libc.so.6" in needed and needed <= {"libc.so.6"} | old_glibc, needed


@tap.test
def its_exports_are_the_list():
    exports = set(symbols("--defined-only"))
    want = HOOKS | {"dlsym", "dlvsym", "dlclose"} | DECLARED | NVTX | {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"}
    assert exports == want, exports ^ want


@tap.test
def it_never_calls_the_public_dlsym():
    undefined = {name.split("@")[0] for name in symbols("--undefined-only")}
    assert not undefined & {"dlsym", "dlvsym", "dlclose"}, undefined


@tap.test
def it_never_yields_and_sleeps_in_no_cancellation_point():
    undefined = {name.split("@")[0] for name in symbols("--undefined-only")}
    assert not undefined & {"sched_yield", "pthread_yield", "nanosleep", "clock_nanosleep", "usleep", "sleep"}, undefined


@tap.test
def its_own_hooks_are_bound_to_itself():
    relocations = tool("readelf", "-rW")
    for name in sorted(HOOKS) + ["dlsym", "dlclose"]:
        assert not re.search(rf"\b{name}(@|\s|$)", relocations, re.M), name


@tap.test
def no_glibc_symbol_is_above_the_ceiling():
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", tool("nm", "-D"))}
    assert versions and max(versions) <= CEILING, max(versions)


@tap.test
def its_definitions_are_unversioned():
    assert not [tag for tag, value in dynamic() if tag in ("VERDEF", "VERDEFNUM")]
    assert not [name for name in symbols("--defined-only") if "@" in name]


@tap.test
def it_has_one_constructor_and_one_destructor_beside_the_compilers():
    sizes = {tag: int(value.split()[0]) for tag, value in dynamic() if tag.endswith("ARRAYSZ")}
    assert sizes.get("PREINIT_ARRAYSZ", 0) == 0
    assert sizes.get("INIT_ARRAYSZ", 0) <= 16, sizes  # the compiler's, and start.c
    assert sizes.get("FINI_ARRAYSZ", 0) <= 16, sizes  # the compiler's, and the exit report


@tap.test
def it_is_bound_at_load_and_its_stack_is_not_executable():
    flags = " ".join(value for tag, value in dynamic() if tag in ("FLAGS", "FLAGS_1"))
    assert "NOW" in flags, flags
    assert re.search(r"GNU_STACK.* RW +0x", tool("readelf", "-lW"))
    assert not [tag for tag, value in dynamic() if tag == "TEXTREL"]


@tap.test
def its_thread_local_storage_is_of_the_initial_exec_kind():
    names = {name.split("@")[0] for name in symbols("--undefined-only")}
    assert "__tls_get_addr" not in names
    assert not re.search(r"TLSDESC|DTPMOD", tool("readelf", "-rW"))


@tap.test
def its_file_has_no_pages_of_zeros():
    size = re.search(r"\] \.data +PROGBITS +\w+ +\w+ +(\w+)", tool("readelf", "-SW"))
    assert int(size.group(1), 16) < 64 << 10, size.group(1)  # a table with one value that is not 0 lies in the file as a whole


# What UCX 1.22 patches, and the instructions that it can copy, which is what it overwrites by 12 bytes.
PATCHED = {"cuMemAlloc", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2", "cuMemMap",
           "cuModuleGetGlobal_v2", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuLibraryGetGlobal", "cuMemFree",
           "cuMemFree_v2", "cuMemFreeHost", "cuMemFreeHost_v2", "cuMemUnmap", "cuMemFreeAsync"}
COPYABLE = re.compile(rb"(?:[\x50-\x57]|\x41[\x50-\x57]|\x48\x81\xec.{4}|\x48\x89\xe5|[\xb8-\xbf].{4})", re.S)
FAR_JUMP_BYTES = 12


def code_at(address, n_bytes):
    for offset, start, size in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", tool("readelf", "-lW")):
        if int(start, 16) <= address < int(start, 16) + int(size, 16):
            return PRELOAD.read_bytes()[int(offset, 16) + address - int(start, 16):][:n_bytes]
    raise AssertionError(hex(address))


@tap.test
def what_others_patch_begins_with_instructions_that_they_can_copy():
    if platform.machine() != "x86_64":
        tap.skip("the decoder is of x86-64")
    places = {line.split()[-1]: int(line.split()[0], 16) for line in tool("nm", "-D", "--defined-only").splitlines()}
    assert PATCHED & HOOKS >= {"cuMemAlloc_v2", "cuMemFree_v2"}
    for name in sorted(PATCHED & HOOKS):
        code, n_copied = code_at(places[name], 32), 0
        while n_copied < FAR_JUMP_BYTES:
            found = COPYABLE.match(code, n_copied)
            assert found, (name, code.hex(" "), n_copied)
            n_copied = found.end()


tap.run()
