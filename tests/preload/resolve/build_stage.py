"""Builds the programs and fakes of these tests into one folder, with any compiler.

    build_stage.py STAMP CUDA_HOME CC...     into the folder of STAMP

Meson cannot do it: two libraries are called libcuda.so.1, and the aarch64 test builds all with another
compiler.  What the toolkit lacks (a runtime to link) is left out.
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-I", ROOT, "-I", ROOT / "src"]


def build(out, cuda, cc, runtime=True):
    out = pathlib.Path(out)

    def run(*argv):
        subprocess.run([*cc, *FLAGS, *argv], check=True)

    def library(path, *argv):
        path.parent.mkdir(parents=True, exist_ok=True)
        run("-fPIC", "-fvisibility=hidden", "-shared", "-o", path, f"-Wl,-soname,{path.name}", *argv)

    out.mkdir(parents=True, exist_ok=True)
    rows = subprocess.run([sys.executable, "-B", HERE / "revisions.py", f"{cuda}/include"],
                          check=True, capture_output=True).stdout
    (out / "fake_rows.def").write_bytes(rows)
    for folder, *more in (("fake", "-Wl,--hash-style=gnu"),
                          ("fake_sysv", "-Wl,--hash-style=sysv", "-DPADDING_BYTES=8388608")):
        library(out / folder / "libcuda.so.1", HERE / "programs" / "fake_cuda.c", "-I", out, "-Wl,-Bsymbolic", *more, "-ldl")
    for mark in "11", "12":
        fake = out / f"libcudart.so.{mark}"
        library(fake, HERE / "programs" / "fake_cudart.c", f"-DMARK={mark}", "-Wl,-Bsymbolic", "-ldl")
        library(out / f"libcaller{mark}.so", HERE / "programs" / "runtime_caller.c", fake)
    library(out / "libwitness.so", HERE / "programs" / "witness.c", ROOT / "preload/resolve/elf.c", ROOT / "preload/resolve/fork.c",
            "-ldl")
    run("-o", out / "probe", HERE / "programs" / "probe.c", "-ldl")
    for linkage, name, libraries in (("static", "libcudart_static.a", ["-lrt", "-lpthread", "-ldl"]),
                                     ("shared", "libcudart.so", [])):
        archive = pathlib.Path(cuda) / "lib64" / name
        if runtime and archive.exists():
            run("-isystem", f"{cuda}/include", "-o", out / f"user_{linkage}", HERE / "programs" / "runtime_user.c",
                archive, *libraries)


if __name__ == "__main__":
    stamp = pathlib.Path(sys.argv[1])
    build(stamp.parent, sys.argv[2], sys.argv[3:])
    stamp.touch()
