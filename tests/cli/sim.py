"""`cushim sim`: a program on the software device, by itself and under the preload.

    sim.py CUSHIM PRELOAD SIM_FOLDER PROGRAM CC...
"""
import os
import pathlib
import shutil
import sys

PROGRAM = str(pathlib.Path(sys.argv.pop(4)).resolve())

from fixture import CUSHIM, PRELOAD, SIM, build, cushim, scratch, tap

EMPTY = {"LD_LIBRARY_PATH": None, "LD_PRELOAD": None}
SHOW = build("show", source='#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **a) { for (int i = 1; i < n; i++) '
                            '{ const char *v = getenv(a[i]); printf("%s=%s\\n", a[i], v ? v : ""); } return 7; }')


def shown(*arguments, command=CUSHIM, names=("LD_LIBRARY_PATH", "LD_PRELOAD"), **environment):
    done = cushim("sim", *arguments, SHOW, *names, command=command, **{**EMPTY, **environment})
    assert done.returncode == 7, done
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@tap.test
def a_program_runs_on_the_device_and_under_the_preload():
    plain = cushim("sim", "--", PROGRAM, **EMPTY)
    assert plain.returncode == 0 and not plain.stderr, plain
    counted = cushim("sim", CUSHIM, "run", "--stats", PROGRAM, **EMPTY)
    assert counted.returncode == 0 and "requests" in counted.stderr, counted
    assert counted.stdout == plain.stdout
    assert cushim("sim", "--fail-at=1", PROGRAM, **EMPTY).returncode != 0


@tap.test
def what_the_device_says_of_words_of_others_moves_no_cursor():
    hostile = "\x1b[31mred\r\x9b1A"
    for variables, said in (({"CUSHIM_SIM_SEED": hostile}, "CUSHIM_SIM_SEED=?[31mred?"), ({"CUSHIM_SIM_SHARED": f"/nowhere/{hostile}"}, "/nowhere/?[31mred?"),
                            ({"CUSHIM_SIM_KERNELS": "x"}, "CUSHIM_SIM_KERNELS=x is not possible (program, skip or fail) and has no effect\n")):
        done = cushim("sim", PROGRAM, **{**EMPTY, **variables})
        assert f"cushim software device: {said}" in done.stderr and not set(done.stderr) & set("\x1b\r\x9b"), done


@tap.test
def the_exit_status_is_the_programs():
    assert cushim("sim", SHOW).returncode == 7
    assert cushim("sim", "/nowhere/at-all").returncode == 127
    assert cushim("sim", "/etc/passwd").returncode == 126


@tap.test
def options_become_variables_and_the_folder_comes_first():
    names = ("CUSHIM_SIM_DEVICES", "CUSHIM_SIM_FAIL_AT", "CUSHIM_SIM_UNBACKED", "CUSHIM_SIM_KERNELS", "LD_LIBRARY_PATH", "LD_PRELOAD")
    found = shown("--devices=3", "--fail-at=9", "--unbacked", "--kernels=skip", names=names, LD_LIBRARY_PATH="/somewhere")
    assert found == dict(zip(names, ("3", "9", "1", "skip", f"{SIM}:/somewhere", ""))), found


@tap.test
def a_runtime_comes_behind_the_preload():
    first = shown("--runtime=12", LD_PRELOAD=str(PRELOAD))["LD_PRELOAD"]
    assert first == f"{PRELOAD}:{SIM}/libcudart.so.12", first
    assert shown("--runtime=13")["LD_PRELOAD"] == f"{SIM}/libcudart.so.13"


LAUNCH = """
#include <stdio.h>
extern int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoadData(void **, const void *), cuCtxSynchronize(void);
extern int cuModuleGetFunction(void **, void *, const char *);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int main(void) {
    void *context, *module, *function;
    int seen = 3, *at = &seen, result;
    void *arguments[] = {&at};
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    result = cuModuleLoadData(&module, ".version 8.0\\n.entry _Z3putPi(.param .u64 p)\\n{ ret; }");
    result = result ? result : cuModuleGetFunction(&function, module, "_Z3putPi");
    result = result ? result : cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0);
    result = result ? result : cuCtxSynchronize();
    return printf("%d %d\\n", result, seen), 0;
}
"""
PUT = """
#include <stddef.h>
const size_t sim_params__Z3putPi[] = {8, 0};
void sim_kernel__Z3putPi(const void *launch, void **arguments) { **(int **)arguments[0] = 9; }
"""


@tap.test
def a_library_brings_functions_for_kernels_of_a_program_as_it_is():
    program = build("launch", f"-L{SIM}", "-l:libcuda.so.1", source=LAUNCH)
    put = build("libput.so", "-shared", "-fPIC", source=PUT)
    assert cushim("sim", "--kernels=skip", program, **EMPTY).stdout == "0 3\n"
    assert cushim("sim", "--kernels=skip", program, **{**EMPTY, "LD_PRELOAD": str(put)}).stdout == "0 9\n"
    assert cushim("sim", "--kernels=fail", program, **{**EMPTY, "LD_PRELOAD": str(put)}).stdout == "0 9\n"
    assert cushim("sim", "--kernels=fail", program, **EMPTY).stdout == "209 3\n"
    assert cushim("sim", program, **EMPTY).stdout == "209 3\n"


@tap.test
def a_link_to_the_runtime_stands_in_for_a_copy_of_another_name():
    copy = "libcudart-1a2b3c.so.13.9"
    folder = scratch / "wheel"
    folder.mkdir()
    (folder / "map").write_text("libcudart.so.13 { cuda*; };")
    build(f"wheel/{copy}", "-shared", f"-Wl,-soname,{copy},--version-script={folder / 'map'}", source="int cudaRuntimeGetVersion(int *n) { return *n = 5, 0; }")
    user = build("user", str(folder / copy), f"-Wl,-rpath,{folder},--disable-new-dtags",
                 source='#include <stdio.h>\nint cudaRuntimeGetVersion(int *);\nint main(void) { int n = 0; cudaRuntimeGetVersion(&n); printf("%d\\n", n); }')
    assert cushim("sim", user, **EMPTY).stdout == "5\n"
    (folder / copy).unlink()
    (folder / copy).symlink_to(SIM / "libcudart.so.13")
    for more in ([], ["--runtime=13"]):
        done = cushim("sim", *more, user, **EMPTY)
        assert done.stdout.startswith("13") and not done.stderr, done


NVML = """
import ctypes, os, sys
nvml, cuda, n, context, block = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.CDLL("libcuda.so.1"), ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_uint64()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)) == 0 and n.value == 2, n
def look():
    device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0 and nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    return memory[2] >> 20
before = look()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(40 << 20)) == 0
print(before, look(), flush=True)
if len(sys.argv) > 1:
    os.system(" ".join(sys.argv[1:]))
"""


@tap.test
def nvml_is_there_natively_and_under_the_preload_and_sees_the_processes_of_one_device():
    script = scratch / "nvml.py"
    script.write_text(NVML)
    words = ("sim", "--devices=2", "--memory=1G", "--")
    assert cushim(*words, sys.executable, script, **EMPTY).stdout == "0 40\n"
    assert cushim("run", "--", CUSHIM, *words, sys.executable, script, **EMPTY).stdout == "0 40\n"
    both = cushim("sim", f"--shared={scratch / 'gpu'}", *words[1:], sys.executable, script, sys.executable, script, **EMPTY)
    assert both.stdout == "0 40\n40 80\n", both
    apart = cushim(*words, sys.executable, script, sys.executable, script, **EMPTY)
    assert apart.stdout == "0 40\n0 40\n", apart


@tap.test
def wrong_words_start_nothing():
    for arguments, said in ((["--divices=2", SHOW], "did you mean `devices`"), (["--devices=17", SHOW], "--devices=17"),
                            (["--kernels=some", SHOW], "--kernels=some"), (["--memory=lots", SHOW], "--memory=lots"), (["--shared=here", SHOW], "--shared=here"),
                            (["--runtime=11", SHOW], "is not one of 12, 13"), (["-x", SHOW], "no option -x"), ([], "needs a program")):
        done = cushim("sim", *arguments)
        assert done.returncode == 2 and said in done.stderr and not done.stdout, done


@tap.test
def the_device_is_found_where_it_was_installed_and_missed_where_not():
    folder = scratch / "usr"
    (folder / "bin").mkdir(parents=True)
    moved = folder / "bin/cushim"
    shutil.copy(CUSHIM, moved)
    done = cushim("sim", SHOW, command=moved)
    assert done.returncode == 125 and "cushim-sim" in done.stderr and not done.stdout, done
    library_folder = os.environ["TEST_LIBDIR"]
    place = folder / "bin" / library_folder / "cushim/sim" if not library_folder.startswith("/") else folder / "bin/cushim/sim"
    place = pathlib.Path(os.path.normpath(place))
    place.mkdir(parents=True)
    for name in ("libcuda.so.1", "libcudart.so.13"):
        shutil.copy(SIM / name, place / name)
    assert shown(command=moved)["LD_LIBRARY_PATH"] == str(place)


tap.run()
