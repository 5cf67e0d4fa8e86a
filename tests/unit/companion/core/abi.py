"""The exports of a library and the sizes of its public structs match abi.txt.

    abi.py LIBRARY ABI_TXT INCLUDE EXPORTS_FOLDER --headers HEADER... [--shared HEADER...] [--needs NAME...] --cc CC...

A change of either must edit abi.txt: `function NAME` and `size NAME BYTES`, sorted. Names that cushim's libraries of one build share with each other
are not recorded, but must match the marks in the --shared headers.
"""
import argparse
import ctypes
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import tap


def read_arguments():
    parser = argparse.ArgumentParser()
    for name in ("library", "record", "include", "exports"):
        parser.add_argument(name)
    for name in ("headers", "shared", "needs"):
        parser.add_argument(f"--{name}", nargs="*", default=[])
    parser.add_argument("--cc", nargs=argparse.REMAINDER, default=["cc"])
    return parser.parse_args()


arguments = read_arguments()
LIBRARY, RECORD = arguments.library, pathlib.Path(arguments.record)
INCLUDE, CC = pathlib.Path(arguments.include).resolve(), arguments.cc
HEADERS = sorted(pathlib.Path(header).resolve() for header in arguments.headers)
sys.path.insert(0, arguments.exports)
import exports

STRUCT = re.compile(r"^struct (cushim_\w+) \{", re.MULTILINE)
LIBC = re.compile(r"lib(c|pthread|dl|m)\.so|ld-linux|linux-vdso|lib(asan|tsan|ubsan|gcc_s)\.so|libclang_rt\.")


def run(*command, text=None):
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def exported(version="CUSHIM_0"):
    """The names of a version; every name has one."""
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).split("\n")
    pairs = [line.split()[-1].split("@@") for line in lines if line and " A " not in line]
    unknown = [pair for pair in pairs if len(pair) != 2 or pair[1] not in exports.MARKS]
    assert not unknown, unknown
    return sorted(name for name, of in pairs if of == version)


def sizes():
    names = sorted({name for header in HEADERS for name in STRUCT.findall(header.read_text())})
    text = "".join(f'#include "{header.relative_to(INCLUDE)}"\n' for header in HEADERS) + "".join(
        f"char size_{name}[sizeof(struct {name})] = {{1}};\n" for name in names)
    if not names:
        return []
    target = pathlib.Path(LIBRARY).parent / f"{pathlib.Path(LIBRARY).name}-sizes.o"
    run(*CC, "-fno-sanitize=all", "-x", "c", "-std=c11", "-c", f"-I{INCLUDE}", "-o", str(target), "-", text=text)
    lines = run("nm", "-S", "--defined-only", str(target)).split("\n")
    found = {line.split()[3].removeprefix("size_"): int(line.split()[1], 16) for line in lines if line}
    return [f"size {name} {found[name]}" for name in names]


@tap.test
def exports_are_the_marks_of_the_public_headers():
    assert exported() == exports.exports_of(HEADERS)


@tap.test
def shared_names_match_their_marks():
    assert exported("CUSHIM_PRIVATE") == exports.exports_of(arguments.shared, "CUSHIM_SHARED")


@tap.test
def functions_and_sizes_match_the_record():
    now = [f"function {name}" for name in exported()] + sizes()
    recorded = RECORD.read_text().split("\n")[:-1]
    extra, lost = sorted(set(now) - set(recorded)), sorted(set(recorded) - set(now))
    assert now == recorded, f"\nnot recorded: {extra}\nrecorded, but gone: {lost}"


@tap.test
def soname_and_version_node_are_those_of_the_abi():
    dynamic = run("readelf", "-dW", LIBRARY)
    assert f"soname: [{pathlib.Path(LIBRARY).name}]" in dynamic, dynamic
    assert "Name: CUSHIM_0" in run("readelf", "-VW", LIBRARY)


@tap.test
def the_library_needs_only_libc_and_cushims_libraries():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", LIBRARY))
    assert sorted(name for name in needed if not LIBC.match(name)) == sorted(arguments.needs), needed


def call_companion(library):
    library.cushim_version_text.restype = ctypes.c_char_p
    library.cushim_last_error.restype = ctypes.c_char_p
    n = ctypes.c_int(7)
    assert re.fullmatch(rb"\d+\.\d+\.\d+", library.cushim_version_text())
    major, minor, patch = map(int, library.cushim_version_text().split(b"."))
    assert library.cushim_version() == 10000 * major + 100 * minor + patch
    assert library.cushim_device_count(ctypes.byref(n)) == 0 and n.value > 0
    assert library.cushim_context_push(ctypes.c_void_p(0x1234)) == -9
    assert b"CUSHIM_BADHANDLE" in library.cushim_last_error()


def call_kernels(library):
    c = (ctypes.c_float * 2)()
    library.cushim_add_f32_ref((ctypes.c_float * 2)(1, 2), (ctypes.c_float * 2)(3, 4), c, ctypes.c_int64(2))
    assert list(c) == [4, 6]
    assert library.cushim_add_f32(None, None, None, ctypes.c_int64(-1), None) == -1
    assert library.cushim_add_f32(None, None, None, ctypes.c_int64(0), None) == 0


def opened():
    if "__asan_init" in run("nm", "-D", LIBRARY) or "__tsan_init" in run("nm", "-D", LIBRARY):
        tap.skip("a sanitizer must be loaded first in the process")
    return ctypes.CDLL(LIBRARY)


@tap.test
def no_call_yields_or_sleeps_in_a_cancellation_point():
    undefined = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--undefined-only", LIBRARY).splitlines()}
    assert not undefined & {"sched_yield", "pthread_yield", "nanosleep", "clock_nanosleep", "usleep", "sleep"}, undefined


@tap.test
def a_binding_can_open_the_library_by_name():
    library = opened()
    (call_kernels if hasattr(library, "cushim_kernels_load") else call_companion)(library)


@tap.test
def a_program_can_test_the_version_at_compile_time():
    if INCLUDE / "cushim/cushim.h" not in HEADERS:
        tap.skip("checked in the companion's headers")
    text = ("#include <cushim/cushim.h>\n#if CUSHIM_VERSION < 1 || CUSHIM_VERSION > 999999\n#error no version\n#endif\n"
            "\nversion CUSHIM_VERSION_MAJOR CUSHIM_VERSION_MINOR CUSHIM_VERSION_PATCH CUSHIM_VERSION\n")
    words = run(*CC, "-E", "-P", "-x", "c", f"-I{INCLUDE}", "-", text=text).split("version ")[-1].split(maxsplit=3)
    library = opened()
    library.cushim_version_text.restype = ctypes.c_char_p
    assert ".".join(words[:3]) == library.cushim_version_text().decode(), words
    assert eval(words[3]) == library.cushim_version(), words


tap.run()
