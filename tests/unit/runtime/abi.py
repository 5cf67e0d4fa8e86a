"""What libcushim exports, and how large its public structs are, is what abi.txt says.

    abi.py LIBRARY ABI_TXT INCLUDE EXPORTS_FOLDER CC...

A change of either must edit abi.txt: `function NAME` and `size NAME BYTES`, sorted.
"""
import ctypes
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

LIBRARY, RECORD, INCLUDE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, sys.argv[4])
CC = sys.argv[5:]
import exports

HEADERS = sorted((INCLUDE / "cushim").glob("*.h"))
STRUCT = re.compile(r"^struct (cushim_\w+) \{", re.MULTILINE)
LIBC = re.compile(r"lib(c|pthread|dl|m)\.so|ld-linux|linux-vdso|lib(asan|tsan|ubsan|gcc_s)\.so")


def run(*command, text=None):
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def exported():
    lines = run("nm", "-D", "--defined-only", LIBRARY).split("\n")
    return sorted(re.sub("@.*", "", line.split()[-1]) for line in lines if line and " A " not in line)


def sizes():
    names = sorted({name for header in HEADERS for name in STRUCT.findall(header.read_text())})
    text = "".join(f'#include "cushim/{header.name}"\n' for header in HEADERS) + "".join(
        f"char size_{name}[sizeof(struct {name})] = {{1}};\n" for name in names)
    if not names:
        return []
    folder = pathlib.Path(LIBRARY).parent
    target = folder / "abi-sizes.o"
    run(*CC, "-fno-sanitize=all", "-x", "c", "-std=c11", "-c", f"-I{INCLUDE}", "-o", str(target), "-", text=text)
    lines = run("nm", "-S", "--defined-only", str(target)).split("\n")
    found = {line.split()[3].removeprefix("size_"): int(line.split()[1], 16) for line in lines if line}
    return [f"size {name} {found[name]}" for name in names]


@tap.test
def exports_are_the_marks_of_the_public_headers():
    assert exported() == exports.exports_of(HEADERS)


@tap.test
def functions_and_sizes_are_those_recorded():
    now = [f"function {name}" for name in exported()] + sizes()
    recorded = RECORD.read_text().split("\n")[:-1]
    extra, lost = sorted(set(now) - set(recorded)), sorted(set(recorded) - set(now))
    assert now == recorded, f"\nnot recorded: {extra}\nrecorded, and gone: {lost}"


@tap.test
def soname_and_version_node_are_those_of_the_abi():
    dynamic = run("readelf", "-dW", LIBRARY)
    assert "soname: [libcushim.so.0]" in dynamic, dynamic
    assert "Name: CUSHIM_0" in run("readelf", "-VW", LIBRARY)


@tap.test
def nothing_is_needed_but_libc():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", LIBRARY))
    assert all(LIBC.match(name) for name in needed), needed


@tap.test
def a_binding_can_open_it_by_name_alone():
    if "__asan_init" in run("nm", "-D", LIBRARY) or "__tsan_init" in run("nm", "-D", LIBRARY):
        tap.skip("a sanitizer wants to be first in the process")
    library = ctypes.CDLL(LIBRARY)
    library.cushim_version_text.restype = ctypes.c_char_p
    library.cushim_last_error.restype = ctypes.c_char_p
    n = ctypes.c_int(7)
    assert re.fullmatch(rb"\d+\.\d+\.\d+", library.cushim_version_text())
    major, minor, patch = map(int, library.cushim_version_text().split(b"."))
    assert library.cushim_version() == 10000 * major + 100 * minor + patch
    assert library.cushim_device_count(ctypes.byref(n)) == 0 and n.value > 0
    assert library.cushim_context_push(ctypes.c_void_p(0x1234)) == -9
    assert b"CUSHIM_BADHANDLE" in library.cushim_last_error()


tap.run()
