"""interposition.md section F, look-up, revisions and loading, as far as they run without a GPU."""
import ctypes.util
import re
import shutil
import sys

import stage
import tap
from stage import BUILD, DRIVER, HOOKS, OURS, PRELOAD, WORK, compile, probe, run

OPEN = f"open:{DRIVER}"
NATIVE = "libcuda.so.1"


@tap.test
def a_driver_function_is_ours_by_dlsym_if_it_has_a_row_and_the_drivers_if_not():
    names = ["cuMemAlloc_v2", "cuMemFree_v2", "cuInit", "cuGetProcAddress_v2", "cuMemAlloc", "cuMemGetAllocationGranularity",
             "cuMemPoolTrimTo", "cuGetExportTable", "cuMemAlloc_v9"]
    lines = probe(OPEN, *(f"dlsym:{name}" for name in names))
    assert lines == [f"{OURS if name in HOOKS else NATIVE} {name}" for name in names], lines


@tap.test
def asking_twice_answers_alike():
    steps = ["dlsym:cuMemAlloc_v2", "proc4:cuMemAlloc:3020:0", "proc5:cuMemAlloc:12000:0"]
    lines = probe(OPEN, *steps, *steps)
    assert lines[:3] == lines[3:] and all(OURS in line for line in lines), lines


@tap.test
def a_name_that_the_handle_lacks_stays_absent_with_the_real_error():
    steps = [OPEN, "dlsym:cudnnCreate", "error", "dlsym:cuMemNope", "error", "dlsym:cudaMalloc", "error",
             "dlvsym:cuMemAlloc_v2:NOPE_1", "error"]
    assert probe(*steps) == probe(*steps, preload=())


@tap.test
def dlerror_is_as_the_real_dlsym_left_it():
    steps = ["dlsym:cuMemAlloc_v2", "error", "dlsym:cuMemNope", "dlsym:cuMemFree_v2", "error",
             "dlsym:cuMemNope", "error", "error", "proc5:cuMemAlloc:3020:0", "error"]
    ours, native = (probe(OPEN, *steps, preload=p) for p in ([PRELOAD], []))
    assert [line.replace(OURS, NATIVE) for line in ours] == native, (ours, native)


@tap.test
def names_of_other_libraries_come_from_their_handle():
    library = compile("int cudnnCreate(void) { return 1; } int cublasCreate(void) { return 2; }"
                      "int cuMemAlloc_v2(void) { return 3; } int cuda_x(void) { return 4; }"
                      "int cuInit(void) { return 5; } int cudaMalloc(void) { return 6; }",
                      "libstranger.so", "-shared", "-fPIC")
    names = ["cudnnCreate", "cublasCreate", "cuMemAlloc_v2", "cuda_x", "cuInit", "cudaMalloc"]
    lines = probe(OPEN, "open:libcudart.so.12", f"open:{library}", *(f"dlsym:{name}" for name in names))
    assert lines == [f"libstranger.so {name}" for name in names], lines


@tap.test
def an_old_version_gives_the_old_entry_and_a_newer_one_than_ours_the_drivers():
    lines = probe(OPEN, "proc5:cuMemAlloc:2000:0", "proc5:cuMemAlloc:3010:0", "proc5:cuMemAlloc:3020:0",
                  "proc5:cuMemAlloc:99000:0", "proc5:cuStreamBeginCapture:10000:0",
                  "proc5:cuStreamBeginCapture:10010:0", "proc5:cuDevicePrimaryCtxReset:7000:0")
    assert lines == [f"0 0 {NATIVE} cuMemAlloc", f"0 0 {NATIVE} cuMemAlloc", f"0 0 {OURS} cuMemAlloc_v2",
                     f"0 0 {NATIVE} cuMemAlloc_v9", f"0 0 {OURS} cuStreamBeginCapture",
                     f"0 0 {OURS} cuStreamBeginCapture_v2", f"0 0 {OURS} cuDevicePrimaryCtxReset"], lines


@tap.test
def flag_2_gives_the_per_thread_hook():
    lines = probe(OPEN, "proc5:cuMemcpyHtoD:12000:2", "proc5:cuMemFreeAsync:12000:2",
                  "proc5:cuMemFreeAsync:12000:1", "proc4:cuMemFreeAsync:12000:2")
    assert [line.split()[-1] for line in lines] == ["cuMemcpyHtoD_v2_ptds", "cuMemFreeAsync_ptsz",
                                                    "cuMemFreeAsync", "cuMemFreeAsync_ptsz"], lines
    assert all(OURS in line for line in lines), lines


@tap.test
def unknown_flags_pass_untouched():
    assert probe(OPEN, "proc5:cuMemAlloc:12000:4") == [f"0 0 {NATIVE} cuMemAlloc_v2"]


@tap.test
def the_self_look_up_gives_four_arguments_below_12000_and_five_from_there():
    lines = probe(OPEN, "proc5:cuGetProcAddress:11030:0", "proc5:cuGetProcAddress:12000:0",
                  "proc4:cuGetProcAddress:11080:0", "proc4:cuGetProcAddress:13000:0")
    assert [line.split()[-2:] for line in lines] == [[OURS, "cuGetProcAddress"],
                                                     [OURS, "cuGetProcAddress_v2"]] * 2, lines


@tap.test
def what_the_driver_lacks_stays_absent_status_included():
    steps = [OPEN, "proc5:cuMemNope:12000:0", "proc5:cuMemAlloc:1000:0", "proc4:cuMemNope:12000:0",
             "proc4:cuMemAlloc:1000:0", "proc5::12000:0", "proc4::12000:0"]
    assert probe(*steps) == probe(*steps, preload=())


@tap.test
def null_arguments_get_the_drivers_answer():
    ours, native = (probe(OPEN, "null", preload=p) for p in ([PRELOAD], []))
    assert ours[0].replace(OURS, NATIVE) == native[0]


@tap.test
def thunks_of_a_newer_version_than_ours_stay_the_drivers():
    lines = probe(OPEN, "proc5:cuMemAlloc:12000:0", "proc5:cuMemAlloc:99000:0", "proc5:cuMemGetAllocationGranularity:12000:0",
                  FAKE_CUDA_THUNKS=1)
    assert lines == [f"0 0 {OURS} cuMemAlloc_v2", f"0 0 {NATIVE} ?", f"0 0 {NATIVE} ?"], lines


@tap.test
def a_look_up_inside_cuGetExportTable_is_the_drivers_own_and_starts_nothing():
    not_found = "500"
    assert probe(OPEN, "threads", "table", "threads", "table", FAKE_CUDA_TABLES=1) == [
        "1", not_found, "1", not_found]


@tap.test
def a_look_up_inside_a_look_up_falls_through_to_the_real_one():
    lines = probe(OPEN, "inside:cuMemAlloc_v2", "proc5:cuMemFree:12000:0", "found", "dlsym:cuMemAlloc_v2")
    assert lines == [f"0 0 {OURS} cuMemFree_v2", f"{NATIVE} cuMemAlloc_v2", f"{NATIVE} cuMemAlloc_v2",
                     f"{OURS} cuMemAlloc_v2"], lines


@tap.test
def a_probe_without_libcuda_finds_nothing_but_our_exports():
    if run(BUILD / "probe", OPEN, fake=None, check=False).returncode == 0:
        tap.skip("this machine has a libcuda")
    lines = probe("default", "dlsym:cuMemAlloc_v2", "dlsym:cuMemGetAllocationGranularity", "dlsym:cuMemPoolTrimTo",
                  "proc4:cuInit:12000:0", "proc5:cuInit:12000:0", "proc5:cuMemGetAllocationGranularity:12000:0", fake=None)
    assert lines == [f"{OURS} cuMemAlloc_v2", "none", "none", "3 -1 none", "3 -1 none", "3 -1 none"], lines


@tap.test
def ctypes_is_hooked():
    text = ("import ctypes as c; cuda = c.CDLL('libcuda.so.1'); ours = c.CDLL(None);"
            "at = lambda f: c.cast(f, c.c_void_p).value;"
            "print(at(cuda.cuMemAlloc_v2) == at(ours.cuMemAlloc_v2), hasattr(cuda, 'cuNope'))")
    assert run(sys.executable, "-c", text).stdout == "True False\n"


@tap.test
def a_driver_with_the_old_hash_table_is_read_as_well():
    assert probe(OPEN, "dlsym:cuMemAlloc_v2", "proc5:cuMemFree:12000:0", "proc5:cuMemGetAllocationGranularity:12000:0",
                 fake="fake_sysv") == [f"{OURS} cuMemAlloc_v2", f"0 0 {OURS} cuMemFree_v2",
                                       f"0 0 {NATIVE} cuMemGetAllocationGranularity"]


@tap.test
def a_driver_that_was_unloaded_and_loaded_elsewhere_is_found_again():
    other = BUILD / "fake_sysv" / DRIVER
    lines = probe(OPEN, "proc5:cuMemAlloc:12000:0", "close", f"open:{other}",
                  "dlsym:cuMemAlloc_v2",
                  "proc5:cuMemAlloc:12000:0")
    assert lines == [f"0 0 {OURS} cuMemAlloc_v2", f"{OURS} cuMemAlloc_v2", f"0 0 {OURS} cuMemAlloc_v2"], lines


@tap.test
def a_second_driver_beside_the_first_stays_native():
    lines = probe(OPEN, "dlsym:cuMemAlloc_v2", f"local:{BUILD / 'fake_sysv' / DRIVER}", "dlsym:cuMemAlloc_v2")
    assert lines == [f"{OURS} cuMemAlloc_v2", f"{NATIVE} cuMemAlloc_v2"], lines


@tap.test
def a_runtime_function_is_ours_by_dlsym_while_there_is_one_runtime():
    one, two = "open:libcudart.so.11", "open:libcudart.so.12"
    assert probe(one, "dlsym:cudaMalloc", "dlsym:cudaRuntimeGetVersion", two, "dlsym:cudaMalloc") == [
        f"{OURS} cudaMalloc", "libcudart.so.11 cudaRuntimeGetVersion", "libcudart.so.12 cudaMalloc"]


@tap.test
def a_versioned_look_up_is_ours_where_the_version_is_the_runtimes():
    if not (stage.CUDA / "lib64/libcudart.so.13").exists():
        tap.skip("the toolkit has no shared runtime of version 13")
    assert probe("open:libcudart.so.13", "dlvsym:cudaMalloc:libcudart.so.13",
                 "dlvsym:cudaMalloc:libcudart.so.12", "dlsym:cudaFree") == [
        f"{OURS} cudaMalloc", "none", f"{OURS} cudaFree"]


@tap.test
def an_entry_point_from_a_runtime_that_knew_the_driver_before_us_is_routed():
    lines = probe("open:libcudart.so.12", "entry:cuMemAlloc:12000:0", "entry:cuMemAlloc:2000:0",
                  "entry:cuMemGetAllocationGranularity:12000:0", "entry:cuMemFreeAsync:12000:2", "entry:cuMemNope:12000:0")
    assert lines == [f"0 12 {OURS} cuMemAlloc_v2", f"0 12 {NATIVE} cuMemAlloc", f"0 12 {NATIVE} cuMemGetAllocationGranularity",
                     f"0 12 {OURS} cuMemFreeAsync_ptsz", "0 12 none"], lines


@tap.test
def each_caller_reaches_the_runtime_that_it_is_linked_to():
    program = compile("""
        #include <stdio.h>
        #include <dlfcn.h>
        int main(int argc, char **argv) {
            for (int round = 0; round < 2; round++)
                for (int i = 1; i < argc; i++) {
                    void *pfn = 0, *h = dlopen(argv[i], RTLD_NOW);
                    printf("%d ", ((int (*)(void **))dlsym(h, "which_runtime"))(&pfn));
                }
            puts("");
        }""", "callers", "-ldl")
    for order, want in ("11 12", "11 12 11 12 \n"), ("12 11", "12 11 12 11 \n"):
        libraries = [BUILD / f"libcaller{mark}.so" for mark in order.split()]
        assert run(program, *libraries).stdout == want


def check_next_in_line(name, *flags, before=(), symbol="where"):
    """A library looks the next definition up; it, the program and the library after it all have one."""
    flags = [*flags, f"-Dwhere={symbol}", f'-DWHERE="{symbol}"']
    where = 'const char *where(void) {{ return "{}"; }}'
    after = compile(where.format("after"), f"lib{name}_after.so", "-shared", "-fPIC", *flags)
    caller = compile('#include <dlfcn.h>\n' + where.format("caller") + """
        const char *next(void) {
            const char *(*f)(void) = dlsym(RTLD_NEXT, WHERE);
            const char *(*g)(void) = dlvsym(RTLD_NEXT, WHERE, "NOPE");
            const char *(*h)(void) = dlsym(RTLD_DEFAULT, WHERE);
            static char line[64];
            __builtin_sprintf(line, "%s %s %s", f ? f() : "none", h ? h() : "none", g ? g() : "none");
            return line;
        }""", f"lib{name}_caller.so", "-shared", "-fPIC", "-ldl", *flags)
    program = compile('#include <stdio.h>\n' + where.format("program") + """
        const char *next(void);
        int main(void) { puts(next()); return 0; }""",
                      f"{name}_program", "-rdynamic", "-Wl,--no-as-needed", caller, after,
                      f"-Wl,-rpath,{WORK}", *flags)
    ours, native = (run(program, preload=[*before, *p], ASAN_OPTIONS="detect_leaks=0").stdout
                    for p in ([PRELOAD], []))
    assert ours == native and ours.startswith("after program "), (ours, native)


@tap.test
def the_next_definition_is_the_one_after_the_caller_at_every_optimisation():
    for level in "0", "2":
        check_next_in_line(f"next_O{level}", f"-O{level}")
        check_next_in_line(f"next_cuda_O{level}", f"-O{level}", symbol="cuMemAlloc_v2")


@tap.test
def the_next_definition_is_the_one_after_the_caller_under_asan():
    import strangers_fixture
    asan = strangers_fixture.sanitizer_library("libasan.so")
    check_next_in_line("next_asan", "-fsanitize=address", before=[asan])


@tap.test
def a_plugin_finds_what_its_own_scope_holds():
    helper = compile("int only_in_helper(void) { return 7; }", "libhelper.so", "-shared", "-fPIC")
    plugin = compile("""
        #include <dlfcn.h>
        int plugin(void) { return dlsym(RTLD_DEFAULT, "only_in_helper") != 0; }""",
                     "libplugin.so", "-shared", "-fPIC", "-Wl,--no-as-needed", helper, f"-Wl,-rpath,{WORK}")
    program = compile("""
        #include <dlfcn.h>
        int main(int argc, char **argv) {
            void *h = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
            return ((int (*)(void))dlsym(h, "plugin"))() ? 0 : 1;
        }""", "plugin_user", "-ldl")
    run(program, plugin)


@tap.test
def a_library_bound_deeply_passes_us_by():
    library = compile("""
        #include <dlfcn.h>
        void *look(void) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"); }""",
                      "libdeep.so", "-shared", "-fPIC", "-Wl,-z,now", "-ldl")
    program = compile("""
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            Dl_info info;
            void *(*look)(void) = dlsym(dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND), "look");
            dladdr(look(), &info);
            puts(info.dli_fname);
        }""", "deep_user", "-ldl")
    assert run(program, library).stdout.endswith(f"{NATIVE}\n")


@tap.test
def any_directory_and_file_name_will_do():
    folder = WORK / "a folder, with äöü"
    folder.mkdir()
    copy = folder / "x.so.1"
    shutil.copy(PRELOAD, copy)
    link = WORK / "spaceless"
    link.symlink_to(folder)  # LD_PRELOAD itself splits at spaces
    assert probe(OPEN, "dlsym:cuMemAlloc_v2", preload=[link / copy.name]) == ["x.so.1 cuMemAlloc_v2"]


tap.run()
