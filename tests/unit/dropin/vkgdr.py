"""The drop-in libvkgdr.so.1 exports vkgdr's functions, and nothing else.

    vkgdr.py LIBRARY
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

LIBRARY = sys.argv[1]
MEMORY = ("alloc free get_host_ptr get_device_ptr get_size is_coherent non_coherent_atom_size "
          "flush invalidate").split()
NAMES = sorted(["vkgdr_last_error", "vkgdr_open", "vkgdr_close", *(f"vkgdr_memory_{name}" for name in MEMORY)])


def run(*command):
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


@tap.test
def exports_are_the_twelve_functions_of_vkgdr_without_a_version():
    lines = run("nm", "-D", "--defined-only", LIBRARY).splitlines()
    assert sorted(line.split()[-1] for line in lines) == NAMES, lines


@tap.test
def soname_is_that_of_vkgdr_and_neither_cuda_nor_vulkan_is_linked():
    dynamic = run("readelf", "-dW", LIBRARY)
    assert "soname: [libvkgdr.so.1]" in dynamic, dynamic
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert "libcushim.so.0" in needed and not [name for name in needed if re.match("lib(cuda|vulkan)", name)], needed


tap.run()
