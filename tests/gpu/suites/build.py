"""Builds everything that the suites run: cushim by meson, the programs by nvcc, with two kinds of linkage."""
import concurrent.futures
import os
import pathlib
import re
import sys
import zipfile

import host as machine

ROOT = machine.ROOT
sys.path.append(str(ROOT / "kernels" / "gpu"))
import kernel_cases  # noqa: E402

ARCH = "sm_90"
EXTRA = {"cublas": ["-lcublas"], "steady": ["-lcublas", "-lcufft"]}
BENCHES = ROOT / "tests" / "bench"
BENCH_ALONE = ("calls", "context", "copies", "startup")  # programs of one file; the other files in alloc/ belong to alloc


def sources():
    """(name, path) of all programs; NAME gets the path of the library NAME_part."""
    common = sorted((ROOT / "tests" / "programs").glob("*.c"))
    own = sorted((ROOT / "tests" / "gpu" / "programs").glob("*.cu"))
    hazards = [ROOT / "tests" / "hazards" / name for name in ("barrier.c", "torture.c")]
    copies = ROOT / "tests" / "hazards" / "copies.c"  # a bench has the same name
    return [(path.stem, path) for path in common + own + hazards] + [("hazard_copies", copies)]


def is_part(name):
    return name.endswith("_part")


def output(host, name, link):
    return host.bin / (f"{name}-{link}" + (".so" if is_part(name) else ""))


def run_logged(host, record, command):
    done = host.run(command, 240)
    record["seconds"] = round(record.get("seconds", 0) + done.seconds, 1)
    if done.rc != 0:
        host.log(f"== {' '.join(map(str, command))}", done.stdout.decode(errors="replace")[-8000:],
                 done.stderr.decode(errors="replace")[-4000:])
    return done.rc == 0


def build_cushim(host, record, suites):
    """Also the tools if their dependencies exist; most suites need only the preload."""
    kernels = "auto" if {"kernels", "sanitizer", "kernelbench"} & set(suites) else "disabled"
    is_set_up = (host.build / "build.ninja").exists()
    if is_set_up and host.build != machine.OWN_BUILD:
        run_logged(host, record, ["ninja", "-C", host.build])  # not made by this script, so used unchanged
    else:
        for tools in ("true", "false"):
            options = [f"-Dcuda={host.cuda}", "-Dtests=disabled", f"-Dtools={tools}", "--buildtype=release",
                       f"-Dkernels={kernels}", f"-Dkernel_archs={ARCH.removeprefix('sm_')}"]
            again = ["--reconfigure"] if is_set_up else ["--wipe"] if (host.build / "meson-private").exists() else []
            record["has_tools"] = tools == "true"
            if run_logged(host, record, ["meson", "setup", *again, *options, host.build, ROOT]) and \
                    run_logged(host, record, ["ninja", "-C", host.build]):
                break
    record["is_built"] = host.preload.exists()
    return record["is_built"]


def linker(option, host):
    """Programs find the toolkit's libraries at run time, but LD_LIBRARY_PATH comes first."""
    return ["-Xlinker", f"{option},--enable-new-dtags,-rpath,{host.cuda}/lib64"]


def nvcc_command(host, name, path, link):
    command = [host.nvcc, f"-arch={ARCH}", "-O2", "-Xcompiler", "-D_GNU_SOURCE", f"-cudart={link}", f"-I{ROOT}",
               f"-I{ROOT}/tests/programs", f"-L{host.cuda}/lib64/stubs"]
    if path.suffix == ".c":
        command += ["-x", "cu"]
    else:
        command += ["-std=c++17"]
    if is_part(name):
        command += ["-shared", "-Xcompiler", "-fPIC"]
    # of the following libraries, only those that the program uses
    command += [path, "-o", output(host, name, link), *linker("--as-needed", host)]
    if host.sim:
        command += ["-Xlinker", "--export-dynamic"]  # the device finds kernels by dlsym
    if re.search(r"#include <cuda\.h>", path.read_text()):
        command += ["-lcuda"]
    return command + ["-lpthread", "-ldl"] + EXTRA.get(name, [])


def companion_names():
    """The programs of tests/companion; they share fixture*.c."""
    return [path.stem for path in sorted((ROOT / "tests" / "companion").glob("*.c")) if not path.stem.startswith("fixture")]


def companion_output(host, name):
    return host.bin / f"companion-{name}"


def companion_folders(host):
    return [host.build / "src" / "companion", host.build / "src" / "dropin" / "vkgdr"]


def companion_command(host, name):
    """Host C; libcheck is linked with its dependencies, in its shared or static form."""
    folder = ROOT / "tests" / "companion"
    sources = [*sorted(folder.glob("fixture*.c")), folder / f"{name}.c"]
    return ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-rdynamic", f"-I{ROOT}", f"-I{ROOT}/src", f"-I{ROOT}/src/include",
            "-isystem", f"{host.cuda}/include", *sources, "-o", companion_output(host, name),
            *[f"-L{folder}" for folder in companion_folders(host)], "-l:libvkgdr.so.1", "-lcushim", "-lcheck", "-lsubunit", "-lrt", "-lm", "-lpthread", "-ldl"]


EXAMPLES = ROOT / "docs" / "examples"


def example_names(host):
    """The examples whose head shows their output, without those that call kernels if the library of kernels was not
    built."""
    has_kernels = any((folder / "libcushim-kernels.so").exists() for folder in kernel_cases.folders(host))
    return [path.stem for path in sorted(EXAMPLES.glob("*.c"))
            if "rints:" in path.read_text() and (has_kernels or not calls_kernels(path))]


def calls_kernels(path):
    return "#include <cushim/kernels.h>" in path.read_text()


def example_output(host, name):
    return host.bin / f"example-{name}"


def example_command(host, name):
    folder, path = host.build / "src" / "companion", EXAMPLES / f"{name}.c"
    driver = [f"-L{host.cuda}/lib64/stubs", "-lcuda"] if re.search(r"#include <cuda\.h>", path.read_text()) else []
    kernels = [*[f"-L{each}" for each in kernel_cases.folders(host)], "-lcushim-kernels",
               f"-Wl,-rpath,{kernel_cases.folders(host)[0]}"] if calls_kernels(path) else []
    return ["gcc", "-std=gnu11", "-O2", "-rdynamic", f"-I{ROOT}/src/include", kernel_cases.INCLUDE,
            "-isystem", f"{host.cuda}/include", path, "-o", example_output(host, name), f"-L{folder}", *kernels, "-lcushim", f"-Wl,-rpath,{folder}", *driver, "-lpthread", "-lm"]


def bench_command(host, name, link):
    """The runtime comes from the toolkit; the code is host C."""
    runtime = ["-lcudart_static", "-lrt"] if link == "static" else ["-lcudart"]
    rpath = f"-Wl,--as-needed,--enable-new-dtags,-rpath,{host.cuda}/lib64"
    sources = [path for path in [*sorted((BENCHES / "alloc").glob("*.c")), BENCHES / "copy" / "copies.c"] if path.stem == name or
               (name == "alloc" and path.stem not in (*BENCH_ALONE, "record_alloc"))]
    return ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}", "-isystem", f"{host.cuda}/include", *sources, "-o",
            host.bin / f"{name}-{link}", f"-L{host.cuda}/lib64", rpath, *runtime, "-lpthread", "-ldl", "-lm"]


def bench_companion_command(host):
    """Needs only the companion library in its build folder; its kernels are those of the behaviour cases."""
    sources = [*sorted((BENCHES / "companion").glob("*.c")), ROOT / "tests" / "companion" / "fixture_kernels.c"]
    folder = host.build / "src" / "companion"
    return ["gcc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-rdynamic", f"-I{ROOT}", f"-I{ROOT}/src/include", "-isystem",
            f"{host.cuda}/include", *sources, "-o", host.bin / "bench-companion", f"-L{folder}", "-lcushim",
            f"-Wl,-rpath,{folder}", "-lpthread", "-ldl", "-lm"]


def recorder_command(host):
    return ["gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-isystem", f"{host.cuda}/include", BENCHES / "alloc" / "record_alloc.c",
            "-o", host.bin / "librecord.so", f"-L{host.cuda}/lib64", "-lcudart", f"-Wl,-rpath,{host.cuda}/lib64"]


def rmm_command(host, wheels):
    """Unpacks RMM's wheels and builds the library that alloc.c loads; None if a wheel is missing."""
    folder = host.build / "wheels"
    for name in ("librmm_cu13", "rapids_logger"):
        found = sorted(wheels.glob(f"{name}-*.whl"))
        if not found:
            return None
        with zipfile.ZipFile(found[-1]) as wheel:
            wheel.extractall(folder)
    rmm, logger = folder / "librmm", folder / "rapids_logger"
    paths = ":".join(str(path) for path in (rmm / "lib64", logger / "lib64", f"{host.cuda}/lib64"))
    # RMM has the CCCL headers that it was built with, which come before the toolkit's
    return ["g++", "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{rmm}/include", f"-I{rmm}/include/rapids",
            f"-I{logger}/include", "-isystem", f"{host.cuda}/include", BENCHES / "alloc" / "rmm_peer.cpp", "-o",
            host.bin / "libpeer-rmm.so", f"-L{rmm}/lib64", f"-L{logger}/lib64", "-l:librmm.so", "-l:librapids_logger.so",
            f"-L{host.cuda}/lib64", "-lcudart", f"-Wl,-rpath,{paths}"]


def counter_command(host):
    """The toolkit's CUPTI, beside its headers or in extras; None if there is none."""
    home = pathlib.Path(host.cuda)
    for include, lib in ((home / "include", home / "lib64"), (home / "extras/CUPTI/include", home / "extras/CUPTI/lib64")):
        if (include / "cupti.h").exists() and list(lib.glob("libcupti.so*")):
            return ["gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-isystem", include,
                    "-isystem", home / "include", ROOT / "tests/gpu/cupti_count.c", "-o",
                    host.bin / "libcupti_count.so", f"-L{lib}", "-l:" + sorted(lib.glob("libcupti.so*"))[0].name,
                    f"-Wl,-rpath,{lib}"]
    return None


def bench_jobs(host, record):
    jobs = {f"{name}-{link}": bench_command(host, name, link) for link in host.links
            for name in ("alloc", *BENCH_ALONE)}
    jobs["bench-companion"] = bench_companion_command(host)
    for name in ("thrust", "steady"):
        if host.nvcc and not host.sim and host.wants(name):
            jobs[f"{name}-static"] = nvcc_command(host, name, dict(sources())[name], "static")
    if not host.sim and host.wants("record"):
        jobs["recorder"] = recorder_command(host)
    rmm = rmm_command(host, host.wheels) if host.wheels and not host.sim else None
    record["rmm"] = "built against its wheels" if rmm else "no wheels"
    if rmm:
        jobs["rmm"] = rmm
    return jobs


def build(host, suites):
    """Returns the record of the build, which lists the programs that did not build."""
    record = {"cushim": {}, "failed": [], "counter": "no CUPTI in the toolkit"}
    if not build_cushim(host, record["cushim"], suites):
        return record
    host.bin.mkdir(parents=True, exist_ok=True)  # only now, because meson's --wipe empties the folder
    jobs = {}
    if {"compat", "ways", "several", "hazards", "frag", "observe"} & set(suites) and host.nvcc:
        for link in host.links:
            for name, path in sources():
                if not (host.sim and path.suffix == ".cu"):
                    jobs[f"{name}-{link}"] = nvcc_command(host, name, path, link)
    if "companion" in suites:
        jobs.update({f"companion-{name}": companion_command(host, name) for name in companion_names()})
        jobs.update({f"example-{name}": example_command(host, name) for name in example_names(host)})
    if {"kernels", "sanitizer"} & set(suites):
        jobs["kernel-cases"] = kernel_cases.command(host)
        jobs.update({f"dropin {noun}": kernel_cases.dropin_command(host, noun) for noun in kernel_cases.DROPINS})
    if "bench" in suites:
        jobs.update(bench_jobs(host, record))
    counter = None if host.sim else counter_command(host)
    if counter:
        jobs["counter"] = counter
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, done in zip(jobs, pool.map(lambda command: host.run(command, 180), jobs.values())):
            if done.rc != 0:
                record["failed"].append(name)
                host.log(f"== build of {name}: {done.rc}", done.stderr.decode(errors="replace")[-3000:])
    if counter and "counter" not in record["failed"]:
        host.counter = host.bin / "libcupti_count.so"
        record["counter"] = "built"
    return record
