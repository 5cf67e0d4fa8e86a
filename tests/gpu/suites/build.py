"""Builds everything that the suites run: cushim by meson, the programs by nvcc, in two link kinds."""
import concurrent.futures
import os
import pathlib
import re

import host as machine

ROOT = machine.ROOT
ARCH = "sm_90"
EXTRA = {"cublas": ["-lcublas"]}


def sources():
    """(name, path) of all programs; NAME_part is a library that NAME is given the path of."""
    common = sorted((ROOT / "tests" / "programs").glob("*.c"))
    own = sorted((ROOT / "tests" / "gpu" / "programs").glob("*.cu"))
    return [(path.stem, path) for path in common + own]


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


def build_cushim(host, record):
    """The tools too where what they need is there; the suites need the preload alone."""
    is_set_up = (host.build / "build.ninja").exists()
    if is_set_up and host.build != machine.OWN_BUILD:
        run_logged(host, record, ["ninja", "-C", host.build])  # somebody else's: as it is
    else:
        for tools in ("true", "false"):
            options = [f"-Dcuda={host.cuda}", "-Dtests=false", f"-Dtools={tools}", "--buildtype=release"]
            again = ["--reconfigure"] if is_set_up else ["--wipe"] if (host.build / "meson-private").exists() else []
            record["has_tools"] = tools == "true"
            if run_logged(host, record, ["meson", "setup", *again, *options, host.build, ROOT]) and \
                    run_logged(host, record, ["ninja", "-C", host.build]):
                break
    record["is_built"] = host.preload.exists()
    return record["is_built"]


def linker(option, host):
    """The toolkit's libraries are found at run time, but LD_LIBRARY_PATH goes first."""
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
    # of the libraries behind it, only what the program uses
    command += [path, "-o", output(host, name, link), *linker("--as-needed", host)]
    if host.sim:
        command += ["-Xlinker", "--export-dynamic"]  # it finds kernels by dlsym
    if re.search(r"#include <cuda\.h>", path.read_text()):
        command += ["-lcuda"]
    return command + ["-lpthread", "-ldl"] + EXTRA.get(name, [])


def bench_command(host, name, path, link):
    return [host.nvcc, "-O2", "-Xcompiler", "-D_GNU_SOURCE", f"-cudart={link}", path, "-o",
            host.bin / f"{name}-{link}", *linker("--as-needed", host), "-lpthread", "-ldl", "-lm"]


def counter_command(host):
    """The CUPTI of the toolkit, beside its headers or in extras; None without it."""
    home = pathlib.Path(host.cuda)
    for include, lib in ((home / "include", home / "lib64"), (home / "extras/CUPTI/include", home / "extras/CUPTI/lib64")):
        if (include / "cupti.h").exists() and list(lib.glob("libcupti.so*")):
            return ["gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-isystem", include,
                    "-isystem", home / "include", ROOT / "tests/gpu/cupti_count.c", "-o",
                    host.bin / "libcupti_count.so", f"-L{lib}", "-l:" + sorted(lib.glob("libcupti.so*"))[0].name,
                    f"-Wl,-rpath,{lib}"]
    return None


def build(host, suites):
    """Returns the record of the build; a program that did not build is missing, and says so there."""
    record = {"cushim": {}, "failed": [], "counter": "no CUPTI in the toolkit"}
    host.bin.mkdir(parents=True, exist_ok=True)
    if not build_cushim(host, record["cushim"]):
        return record
    jobs = {}
    if {"compat", "hazards", "bench"} & set(suites) and host.nvcc:
        for link in host.links:
            for name, path in sources():
                if not (host.sim and path.suffix == ".cu"):
                    jobs[f"{name}-{link}"] = nvcc_command(host, name, path, link)
    if "bench" in suites and host.nvcc:
        for link in host.links:
            for name in ("pair", "calls", "context", "startup"):
                jobs[f"{name}-{link}"] = bench_command(host, name, ROOT / "tests/bench" / f"{name}.c", link)
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
