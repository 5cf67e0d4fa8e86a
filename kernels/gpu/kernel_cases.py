"""Build the program kernel-cases and the tests of libkernels.so for a device, from host C alone.  The other suites of
libcheck stay on the software device.
"""
import re

import host as machine

KERNELS = machine.ROOT / "kernels"
INCLUDE = f"-I{KERNELS}/include"
DROPINS = ("bf16", "elements", "encoder", "layout", "products", "rows")  # the others are about drivers and names
FRAME = ("main", "frame", "compare", "makers", "table", "values")


def output(host):
    return host.bin / "kernel-cases"


def folders(host):
    """The folders of the libraries."""
    return [host.build / "kernels", host.build / "kernels" / "dropin", host.build / "src" / "companion"]


def sources():
    """The sources in meson's list of cases, family by family."""
    rows = re.search(r"^kernel_cases = \{(.*?)^\}", (KERNELS / "tests" / "meson.build").read_text(), re.MULTILINE | re.DOTALL)
    return [KERNELS / "tests" / name for name in re.findall(r"'([\w/]+\.c)'", rows.group(1))]


def compiled(host, sources, output, libraries):
    root = machine.ROOT
    return ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{root}", f"-I{root}/src", f"-I{root}/src/include", INCLUDE, *sources,
            "-o", output, *[f"-L{folder}" for folder in folders(host)], "-lcushim-kernels", "-lcushim", *libraries, "-lm", "-lpthread"]


def command(host):
    """The command that compiles the cases of all families, with the frame."""
    return compiled(host, [*[KERNELS / "tests" / "frame" / f"{name}.c" for name in FRAME], *sources()], output(host), [])


def dropin_output(host, noun):
    return host.bin / f"kernel-dropin-{noun}"


def dropin_command(host, noun):
    folder = KERNELS / "tests" / "dropin"
    return compiled(host, ["-isystem", f"{host.cuda}/include", folder / f"dropin_{noun}.c", folder / "dropin_fixture.c"],
                    dropin_output(host, noun), ["-lkernels", "-lcheck", "-lsubunit", "-lrt", "-ldl"])
