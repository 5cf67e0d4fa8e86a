"""Programs that know nothing of CUDA: what they print under the preload is what they print without it."""
import os
import re
import shutil
import subprocess
import sys

import stage
import tap
from stage import BUILD, PRELOAD, WORK, compile, options, run
from strangers_fixture import sanitizer_library

OPEN = "open:libcuda.so.1"


def same(*argv, before=(), after=(), **environment):
    """Run without and with us among the preloads; output, errors and exit code must not differ."""
    native = run(*argv, preload=[*before, *after], fake=None, check=False, **environment)
    ours = run(*argv, preload=[*before, PRELOAD, *after], fake=None, check=False, **environment)
    assert native.returncode == ours.returncode, (native.returncode, ours.returncode, ours.stderr)
    assert native.stdout == ours.stdout and native.stderr == ours.stderr, (native, ours)
    return ours


def installed(name):
    path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    return path or tap.skip(f"no {name} here")


def jemalloc():
    for folder in "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib":
        path = f"{folder}/libjemalloc.so.2"
        if os.path.exists(path):
            return path
    return tap.skip("no libjemalloc.so.2 here")


@tap.test
def these_programs_do_run_under_the_preload():
    assert str(PRELOAD) in run(installed("cat"), "/proc/self/maps", fake=None).stdout


@tap.test
def ls_runs_without_cuda():
    assert same(installed("ls"), "/usr").stdout


@tap.test
def python_runs():
    text = "import ctypes, json, ssl, threading, sqlite3; print(json.dumps(sorted(dir(ctypes))))"
    assert same(sys.executable, "-c", text).stdout


@tap.test
def perl_runs():
    assert same(installed("perl"), "-e", 'use POSIX; use List::Util "sum"; print floor(sum(1..9) / 2)').stdout == "22"


@tap.test
def git_runs():
    assert "git version" in same(installed("git"), "--version").stdout
    same(installed("git"), "hash-object", __file__)


@tap.test
def a_java_machine_runs():
    done = same(installed("java"), "-Xint", "-XshowSettings:vm", "-version")
    assert "version" in done.stderr and done.returncode == 0, done


@tap.test
def node_runs():
    assert same(installed("node"), "-e", "console.log([3,1,2].sort().join(), process.release.name)").stdout


@tap.test
def an_openmp_program_runs():
    program = compile("""
        #include <stdio.h>
        #include <omp.h>
        int main(void) {
            long sum = 0;
            #pragma omp parallel for reduction(+ : sum) num_threads(4)
            for (long i = 0; i < 1000000; i++) sum += i;
            printf("%ld\\n", sum);
        }""", "openmp", "-fopenmp", "-O2")
    assert same(program).stdout == "499999500000\n"


ALLOCATING = """
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <dlfcn.h>
    static void *work(void *arg) {
        size_t n = 0;
        for (int i = 1; i < 2000; i++) { char *p = malloc(i); memset(p, i, i); n += p[i - 1]; free(p); }
        return (void *)n;
    }
    int main(void) {
        pthread_t t[4]; void *r; size_t n = 0;
        for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, 0);
        for (int i = 0; i < 4; i++) { pthread_join(t[i], &r); n += (size_t)r; }
        printf("%zu %d\\n", n, dlsym(RTLD_DEFAULT, "malloc") != 0);
    }"""


@tap.test
def a_program_under_jemalloc_runs_with_us_before_and_behind_it():
    library, program = jemalloc(), compile(ALLOCATING, "allocating", "-pthread", "-ldl")
    assert same(program, before=[library]).stdout.endswith(" 1\n")
    assert same(program, after=[library]).stdout.endswith(" 1\n")


def sanitized(compiler, *flags, before=()):
    name = "_".join([compiler, *flags]).replace("-", "").replace("=", "_")
    try:
        program = compile(ALLOCATING, name, "-g", *flags, "-pthread", "-ldl", cc=[installed(compiler)])
    except subprocess.CalledProcessError:
        tap.skip(f"{compiler} cannot link {flags}")
    done = same(program, before=before)
    assert done.returncode == 0 and done.stdout.endswith(" 1\n"), done


@tap.test
def an_address_sanitizer_binary_by_gcc_runs_behind_its_library():
    sanitized("gcc", "-fsanitize=address", before=[sanitizer_library("libasan.so")])


@tap.test
def an_address_sanitizer_binary_by_clang_runs():
    sanitized("clang", "-fsanitize=address")


@tap.test
def a_thread_sanitizer_binary_by_gcc_runs_behind_its_library():
    sanitized("gcc", "-fsanitize=thread", before=[sanitizer_library("libtsan.so")])


@tap.test
def a_thread_sanitizer_binary_by_clang_runs():
    sanitized("clang", "-fsanitize=thread")


@tap.test
def undefined_behaviour_sanitizer_binaries_run():
    sanitized("gcc", "-fsanitize=undefined")
    sanitized("clang", "-fsanitize=undefined")


@tap.test
def a_leak_sanitizer_binary_runs():
    sanitized("gcc", "-fsanitize=leak", before=[sanitizer_library("liblsan.so")])


@tap.test
def a_fully_static_program_simply_runs():
    program = compile('#include <stdio.h>\nint main(void) { puts("static"); }', "static", "-static")
    assert same(program).stdout == "static\n"


def other_interposer():
    """A preload of somebody else: it finds the next dlsym by dlvsym, calls it, and counts."""
    return compile("""
        #include <dlfcn.h>
        #include <stdio.h>
        typedef void *dlsym_fn(void *, const char *);
        int n_seen;
        void *dlsym(void *handle, const char *name) {
            static dlsym_fn *next;
            if (!next) next = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
            if (!next) next = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
            if (!next) next = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
            n_seen++;
            return next(handle, name);
        }""", "libother.so", "-shared", "-fPIC", "-O2", "-ldl")


@tap.test
def another_interposer_behind_us_changes_nothing():
    done = run(BUILD / "probe", OPEN, "dlsym:cuMemAlloc_v2", "dlsym:cuMemGetAllocationGranularity", preload=[PRELOAD, other_interposer()])
    assert done.stdout.splitlines() == [f"{stage.OURS} cuMemAlloc_v2", "libcuda.so.1 cuMemGetAllocationGranularity"], done.stdout


def overlay():
    """A preload of somebody else that answers look-ups of its own names, by dlsym and dlvsym, and hands on the rest."""
    return compile("""
        #include <dlfcn.h>
        #include <string.h>
        static int answer(void) { return 42; }
        #define HOOK(name, parameters, arguments)                                          \\
            void *name parameters {                                                        \\
                static void *(*next) parameters;                                           \\
                if (!strncmp(symbol, "cuOverlay", 9) || !strncmp(symbol, "overlay_", 8))   \\
                    return answer;                                                         \\
                if (!next) next = dlvsym(RTLD_NEXT, #name, "GLIBC_2.34");                  \\
                if (!next) next = dlvsym(RTLD_NEXT, #name, "GLIBC_2.2.5");                 \\
                if (!next) next = dlvsym(RTLD_NEXT, #name, "GLIBC_2.17");                  \\
                return next arguments;                                                     \\
            }
        HOOK(dlsym, (void *handle, const char *symbol), (handle, symbol))""", "liboverlay.so", "-shared", "-fPIC", "-O2", "-ldl")


@tap.test
def another_interposer_before_or_behind_us_answers_what_it_answers_alone():
    names = ["overlay_x", "cuOverlay_x", "cuMemGetAllocationGranularity", "cuMemAlloc_v2", "cuNoSuch"]
    steps = [OPEN, *(f"dlsym:{name}" for name in names)]
    native = run(BUILD / "probe", *steps, preload=[overlay()]).stdout
    assert native.startswith("liboverlay.so "), native
    for preload in ([PRELOAD, overlay()], [overlay(), PRELOAD]):
        done = run(BUILD / "probe", *steps, preload=preload)
        ours = native.replace("libcuda.so.1 cuMemAlloc_v2", f"{stage.OURS} cuMemAlloc_v2")
        assert ours != native and done.stdout == ours, (native, done.stdout)


@tap.test
def a_second_copy_of_us_leaves_the_work_to_the_first():
    copy = WORK / "copy.so"
    shutil.copy(PRELOAD, copy)
    steps = [OPEN, "dlsym:cuMemAlloc_v2", "proc5:cuMemFree:12000:0", "dlsym:cuMemGetAllocationGranularity"]
    alone = run(BUILD / "probe", *steps).stdout
    assert run(BUILD / "probe", *steps, preload=[PRELOAD, copy]).stdout == alone


@tap.test
def another_interposer_in_front_of_us_works_and_a_program_linked_to_cuda_is_still_ours():
    other = other_interposer()
    done = run(BUILD / "probe", OPEN, "dlsym:cuMemGetAllocationGranularity", "dlsym:cudnnCreate", preload=[other, PRELOAD])
    assert done.stdout.splitlines() == ["libcuda.so.1 cuMemGetAllocationGranularity", "none"], done.stdout
    program = compile("""
        #include <stdio.h>
        #include <dlfcn.h>
        int cuMemAlloc_v2(void);
        int main(void) { Dl_info i; dladdr((void *)cuMemAlloc_v2, &i); puts(i.dli_fname); }""",
                      "linked", "-fPIC", "-pie", BUILD / "fake/libcuda.so.1", "-ldl")
    done = run(program, preload=[other, PRELOAD])
    assert done.stdout.strip().endswith(stage.OURS), done.stdout


@tap.test
def a_hook_of_somebody_in_front_of_us_does_not_get_into_our_routes():
    thief = compile("int cuMemAlloc_v2(void) { return 77; } int cuMemFree_v2(void) { return 78; }",
                    "libthief.so", "-shared", "-fPIC")
    done = run(BUILD / "probe", OPEN, "dlsym:cuMemAlloc_v2", "proc5:cuMemFree:12000:0", preload=[thief, PRELOAD])
    assert done.stdout.splitlines() == [f"{stage.OURS} cuMemAlloc_v2", f"0 0 {stage.OURS} cuMemFree_v2"], done.stdout


def traced(program, *preload):
    """The opens and clones of a program, by strace."""
    strace, log = installed("strace"), WORK / "trace"
    env = {"PATH": "/usr/bin:/bin"}
    argv = [strace, "-f", "-o", log, "-e", "trace=openat,open,clone,clone3,socket,connect,execve"]
    argv += ["-E", f"LD_PRELOAD={':'.join(map(str, preload))}"] if preload else []
    done = subprocess.run([*argv, program], env=env, capture_output=True, text=True)
    if done.returncode:
        tap.skip(f"strace cannot trace here: {done.stderr.strip()[:80]}")
    return [re.sub(r"^\d+ +", "", line) for line in log.read_text().splitlines() if "execve" not in line]


@tap.test
def loading_opens_no_file_and_starts_no_thread():
    program = compile("int main(void) { return 0; }", "nothing")
    native, ours = traced(program), traced(program, PRELOAD)
    extra = [line for line in ours if not any(line.split("=")[0] == n.split("=")[0] for n in native)]
    assert len(extra) == 1 and str(PRELOAD) in extra[0], extra
    assert len(ours) == len(native) + 1, (native, ours)


@tap.test
def loading_starts_no_thread_and_holds_no_file():
    shell = ("import os; print(len(os.listdir('/proc/self/task')), sorted(os.readlink('/proc/self/fd/' + f)"
             " for f in os.listdir('/proc/self/fd') if f > '2' and os.path.exists('/proc/self/fd/' + f)))")
    same(sys.executable, "-c", shell)


@tap.test
def two_hundred_processes_start_without_waiting_on_each_other():
    env = {"LD_PRELOAD": str(PRELOAD), "PATH": "/usr/bin:/bin"}
    many = [subprocess.Popen(["/bin/true"], env=env) for _ in range(200)]
    assert [process.wait(timeout=60) for process in many] == [0] * 200


tap.run()
