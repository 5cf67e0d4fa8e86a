"""Write the C++ file that has a family's kernels and makes each a kernel of the software device.

    generate.py FAMILY.cu OUTPUT DEPFILE COMPILER..

Kernels are found in the preprocessed text, because macros write most of them.
"""
import pathlib
import re
import subprocess
import sys

source, output, depfile = (pathlib.Path(argument) for argument in sys.argv[1:4])
text = subprocess.run([*sys.argv[4:], "-E", "-P", "-DCUSHIM_EMULATED_LIST", "-MD", "-MF", depfile, "-MT", output,
                       "-x", "c++", source], check=True, text=True, capture_output=True).stdout
names = re.findall(r'extern\s*"C"\s*cushim_emulated_global\s+void\s+(\w+)', text)
assert names, f"{source}: no kernel was found"
assert text.count("cushim_emulated_global") == len(names), f"{source}: a kernel is not of extern \"C\""
bounds = set(re.findall(r"emulated_bound_(\w+)", text))


def line(function):
    name = function.removeprefix("emulated_kernel_")
    return f"EMULATE({name}, {function}, {f'emulated_bound_{name}' if name in bounds else 'MOST_THREADS'})\n"


family = output.name.removesuffix("-device-code.cpp")
output.write_text("".join([f'''\
#include "{source.resolve()}"
#include "kernels/tests/emulator/launch.h"
/* The linker's script sets both. */
extern "C" __attribute__((visibility("hidden"))) char emulated_{family}_begin[], emulated_{family}_end[];
static char *const static_begin = emulated_{family}_begin, *const static_end = emulated_{family}_end;
''', *map(line, names)]))
