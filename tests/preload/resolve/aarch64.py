"""The preload on aarch64: cross-built whole, stubs and all, and run in an emulator."""
import re
import shutil
import subprocess

import build_stage
import stage
import tap
from stage import CUDA, ROOT, WORK, options

CC = "aarch64-linux-gnu-gcc"
EMULATOR = "qemu-aarch64"
SYSROOT = "/usr/aarch64-linux-gnu"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O0", "-fPIC", "-fvisibility=hidden", "-w",
         "-mbranch-protection=standard", '-DCUSHIM_VERSION_TEXT="cross"',
         "-I", ROOT / "src", "-I", ROOT / "src/include", "-I", ROOT, "-isystem", CUDA / "include"]


def stage_for_aarch64():
    """The library, the fakes and the probe, built once."""
    for tool in CC, EMULATOR:
        if not shutil.which(tool):
            tap.skip(f"no {tool} here")
    library = WORK / "aarch64" / "libcushim-preload.so"
    if library.exists():
        return library
    build_stage.build(library.parent, CUDA, [CC, "-w"], runtime=False)
    script = library.parent / "preload.map"
    subprocess.run([CC, "-E", "-P", "-x", "c", "-I", ROOT / "src", ROOT / "preload/preload.map.in", "-o", script],
                   check=True)
    ccache, objects = ["ccache"] if shutil.which("ccache") else [], []
    for source in [s for s in options.sources if s.endswith(".c")] + [ROOT / "preload/resolve/dlsym_aarch64.S"]:
        objects.append(library.parent / f"{len(objects)}.o")
        # -MD: with the list of headers ccache does without a run of the preprocessor
        subprocess.run([*ccache, CC, *FLAGS, "-MD", "-c", source, "-o", objects[-1]], check=True)
    subprocess.run([CC, "-shared", *objects, "-o", library, f"-Wl,--version-script={script}", "-Wl,-z,defs",
                    "-Wl,--no-undefined-version", "-Wl,-Bsymbolic", "-Wl,-z,now", "-pthread"],
                   check=True)
    return library


def probe(*steps):
    library = stage_for_aarch64()
    folder = library.parent
    done = subprocess.run([EMULATOR, "-L", SYSROOT, "-E", f"LD_PRELOAD={library}",
                           "-E", f"LD_LIBRARY_PATH={folder}/fake:{folder}", folder / "probe", *steps],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


@tap.test
def the_bootstrap_works_and_look_ups_are_routed():
    lines = probe("open:libcuda.so.1", "dlsym:cuMemAlloc_v2", "dlsym:cuMemGetAllocationGranularity", "dlsym:cudnnCreate",
                  "dlvsym:cuMemGetAllocationGranularity:NOPE", "proc4:cuMemAlloc:3020:0", "proc5:cuMemAlloc:2000:0",
                  "proc5:cuMemFreeAsync:12000:2")
    assert lines == [f"{stage.OURS} cuMemAlloc_v2", "libcuda.so.1 cuMemGetAllocationGranularity", "none", "none",
                     f"0 -1 {stage.OURS} cuMemAlloc_v2", "0 0 libcuda.so.1 cuMemAlloc",
                     f"0 0 {stage.OURS} cuMemFreeAsync_ptsz"], lines


@tap.test
def the_next_definition_is_the_one_after_the_caller():
    library = stage_for_aarch64()
    folder = library.parent
    where = 'const char *where(void) {{ return "{}"; }}\n'
    texts = {
        "libafter.so": where.format("after"),
        "libnext.so": "#include <dlfcn.h>\n" + where.format("caller") + """
            const char *next(void) { const char *(*f)(void) = dlsym(RTLD_NEXT, "where"); return f(); }""",
        "program": "#include <stdio.h>\nconst char *next(void);\n" + where.format("program") +
                   "int main(void) { puts(next()); return 0; }",
    }
    for level in "0", "2":
        for name, text in texts.items():
            kind = ["-rdynamic", "-Wl,--no-as-needed", folder / "libnext.so", folder / "libafter.so"] \
                if name == "program" else ["-shared", "-fPIC"]
            stage.compile(text, f"aarch64/{name}", f"-O{level}", *kind, "-ldl", cc=[CC])
        done = subprocess.run([EMULATOR, "-L", SYSROOT, "-E", f"LD_PRELOAD={library}",
                               "-E", f"LD_LIBRARY_PATH={folder}", folder / "program"],
                              capture_output=True, text=True, timeout=120)
        assert done.stdout == "after\n", (level, done)


@tap.test
def its_stubs_are_guarded_branch_targets():
    stage_for_aarch64()
    part = WORK / "stub.o"
    subprocess.run([CC, "-mbranch-protection=standard", "-c", ROOT / "preload/resolve/dlsym_aarch64.S", "-o", part], check=True)
    notes = subprocess.run(["aarch64-linux-gnu-readelf", "-nW", part], capture_output=True, text=True).stdout
    assert "BTI" in notes, notes


@tap.test
def what_others_patch_has_a_landing_pad_too():
    library = stage_for_aarch64()
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--disassemble=cuMemAlloc_v2", library],
                          capture_output=True, text=True, check=True).stdout
    words = re.findall(r"^ +\w+:\t(\w{8})", text, re.M)
    assert words[:5] == ["d503245f"] + ["52800010"] * 4, words


tap.run()
