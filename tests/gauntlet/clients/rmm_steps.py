"""Compiles rmm_steps.cpp once against the headers of RMM's wheel, and executes it.

    rmm_steps.py SITE

The program is linked to the runtime that the loader finds, the software device's.
"""
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SOURCE = HERE / "rmm_steps.cpp"
RUNTIME = "libcudart.so.13"


def compiled(package):
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program, unfinished = package / f"steps-{digest}", package / f"steps-{os.getpid()}"
    if program.exists():
        return program
    runtime = next(folder for folder in os.environ["LD_LIBRARY_PATH"].split(":") if (pathlib.Path(folder) / RUNTIME).exists())
    toolkit = subprocess.run([ROOT / "tools/find-cuda"], text=True, capture_output=True, check=True).stdout.strip()
    headers = package / "include"
    own = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE", "-DSPDLOG_FMT_EXTERNAL",
                    f"-I{headers}", f"-I{headers}/rapids", f"-I{headers}/rapids/libcudacxx", "-isystem", f"{toolkit}/include",
                    SOURCE, "-o", unfinished, f"-L{runtime}", f"-l:{RUNTIME}", f"-L{package}/lib64", "-lfmt", "-lspdlog",
                    f"-Wl,-rpath,{package}/lib64", "-ldl", "-lpthread"], check=True, env=own)
    unfinished.rename(program)
    return program


program = compiled(pathlib.Path(sys.argv[1]) / "librmm")
os.execv(program, [program])
