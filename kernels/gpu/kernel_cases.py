"""Build the program kernel-cases for a device, from host C alone.  The suites of libcheck stay on the software device."""
import re

import host as machine

KERNELS = machine.ROOT / "kernels"
INCLUDE = f"-I{KERNELS}/include"
FRAME = ("main", "frame", "compare", "makers", "table", "values")


def output(host):
    return host.bin / "kernel-cases"


def folders(host):
    """The folders of the libraries."""
    return [host.build / "kernels", host.build / "src" / "companion"]


def sources():
    """The sources in meson's list of cases, family by family."""
    rows = re.search(r"^kernel_cases = \{(.*?)^\}", (KERNELS / "tests" / "meson.build").read_text(), re.MULTILINE | re.DOTALL)
    return [KERNELS / "tests" / name for name in re.findall(r"'([\w/]+\.c)'", rows.group(1))]


def command(host):
    """The command that compiles the cases of all families, with the frame."""
    root = machine.ROOT
    frame = [KERNELS / "tests" / "frame" / f"{name}.c" for name in FRAME]
    return ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{root}", f"-I{root}/src", f"-I{root}/src/include", INCLUDE, *frame,
            *sources(), "-o", output(host), *[f"-L{folder}" for folder in folders(host)],
            "-lcushim-kernels", "-lcushim", "-lm", "-lpthread"]
