"""`cushim run`, from outside; fixture.py says how it is called."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys

from fixture import CC, CUSHIM, NAME, PRELOAD, SIM, build, cushim, examined, moved, scratch, tap

NOBODY = 65534


def preloaded(**environment):
    return cushim("run", "sh", "-c", 'printf %s "$LD_PRELOAD"', **environment).stdout.split(":")


def only_line(result):
    """The one line of standard error."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("cushim: "), lines[0]
    return lines[0]


@tap.test
def the_library_is_preloaded():
    assert preloaded() == [str(PRELOAD)]


@tap.test
def what_is_preloaded_already_stays_in_its_order():
    assert preloaded(LD_PRELOAD="libb.so liba.so:/x/c.so") == ["libb.so", "liba.so", "/x/c.so", str(PRELOAD)]


@tap.test
def the_library_stands_in_it_once():
    for now in (str(PRELOAD), f"{PRELOAD}:{PRELOAD}", f"{NAME} /elsewhere/{NAME}", f"::{PRELOAD}:"):
        assert preloaded(LD_PRELOAD=now) == [str(PRELOAD)], now
    assert preloaded(LD_PRELOAD=f"a.so:{NAME}:b.so") == ["a.so", str(PRELOAD), "b.so"]


@tap.test
def a_library_whose_name_only_ends_alike_is_kept():
    assert preloaded(LD_PRELOAD=f"/x/not{NAME}") == [f"/x/not{NAME}", str(PRELOAD)]


@tap.test
def children_of_the_program_inherit_it():
    result = cushim("run", "sh", "-c", "sh -c 'printf %s \"$LD_PRELOAD\"; :'; :")
    assert result.stdout == str(PRELOAD)


def injection(*options, **environment):
    environment.setdefault("NVTX_INJECTION64_PATH", None)
    words = ["run", *options, "sh", "-c", 'printf %s "$NVTX_INJECTION64_PATH"']
    return cushim(*words, **environment).stdout


@tap.test
def nvtx_finds_the_library_where_a_range_resets_the_arena():
    assert injection("--arena-reset=nvtx:forward") == str(PRELOAD)
    assert injection(CUSHIM_ARENA_RESET="nvtx:forward") == str(PRELOAD)
    assert injection() == ""


@tap.test
def an_injection_of_the_user_stays():
    assert injection("--arena_reset=nvtx:forward", NVTX_INJECTION64_PATH="/x/tool.so") == "/x/tool.so"


@tap.test
def who_asks_for_relaxed_is_told_what_it_gives_up():
    told = cushim("run", "--free=relaxed", "true")
    assert told.returncode == 0 and len(told.stderr.splitlines()) == 1 and "after you synchronise" in told.stderr, told
    assert cushim("run", "--free=exact", "true").stderr == ""
    assert cushim("run", "true", CUSHIM_FREE="relaxed").stderr == ""


@tap.test
def a_launcher_under_a_launcher_changes_nothing():
    result = cushim("run", str(CUSHIM), "run", "sh", "-c", 'printf %s "$LD_PRELOAD"')
    assert result.stdout == str(PRELOAD)


@tap.test
def options_reach_the_program_as_variables():
    result = cushim("run", "--stats=a b.json", "--pool=off", "--copy", "--cushim=1", "env")
    for line in ("CUSHIM_STATS=a b.json", "CUSHIM_POOL=off", "CUSHIM_COPY=1", "CUSHIM=1"):
        assert line in result.stdout.splitlines(), line


@tap.test
def options_are_spelled_with_hyphens_or_underscores():
    for option in ("--async-keep=1G", "--async_keep=1G"):
        assert "CUSHIM_ASYNC_KEEP=1G" in cushim("run", option, "env").stdout.splitlines(), option
    assert "--async-keep needs a value: --async-keep=VALUE" in cushim("run", "--async_keep").stderr
    too_long = "--" + 200 * "a-"
    assert too_long in cushim("run", too_long + "=1", "env").stderr


@tap.test
def some_options_mean_something_without_a_value():
    shown = cushim("run", "--stats", "--check", "--pool", "env").stdout.splitlines()
    for line in ("CUSHIM_STATS=stderr", "CUSHIM_CHECK=frees", "CUSHIM_POOL=1"):
        assert line in shown, line
    for option in ("--free", "--log", "--limit", "--arena-reset"):
        assert f"{option} needs a value: {option}=VALUE" in only_line(cushim("run", option)), option
    shown = cushim("help", "options").stdout
    assert "--stats[=FILE]" in shown and "--check[=off|frees|full]" in shown and "--limit=SIZE" in shown, shown


@tap.test
def what_is_mistyped_is_told_the_nearest():
    for arguments, near in ((["rum"], "`run`"), (["docter"], "`doctor`"), (["--versoin"], "`--version`"),
                            (["help", "option"], "`options`"), (["doctor", "--jsn"], "`--json`"),
                            (["run", "--stat=x"], "--stats"), (["run", "--chekc"], "--check"),
                            (["run", "--asynckeep=1G"], "--async-keep")):
        result = cushim(*arguments)
        assert result.returncode == 2 and result.stdout == "", arguments
        assert f"(did you mean {near}?)" in only_line(result), (arguments, result.stderr)
    program = str(build("dynamic"))
    assert f"(did you mean `cushim run {program}`?)" in only_line(cushim(program)), program
    for arguments in (["frobnicate"], ["./no-such-program"], ["help", "frobnicate"], ["doctor", "--frobnicate"], ["run", "--frobnicate"]):
        assert "did you mean" not in only_line(cushim(*arguments)), arguments


@tap.test
def an_option_wins_over_its_variable_and_the_others_stay():
    result = cushim("run", "--large=64M", "env", CUSHIM_LARGE="1G", CUSHIM_POOL="0")
    assert "CUSHIM_LARGE=64M" in result.stdout.splitlines()
    assert "CUSHIM_POOL=0" in result.stdout.splitlines()


@tap.test
def a_wrong_option_is_one_line_and_nothing_starts():
    for option, part in (("--nonsense=1", "--nonsense"), ("--backend=maybe", "native|vmm"),
                         ("--large=12Q", "--large=12Q"), ("--large=1", "too small"),
                         ("--large", "--large=sh is not a size"), ("-v", "-v"), ("--pool=", "--pool=")):
        result = cushim("run", option, "sh", "-c", "echo started")
        assert result.returncode == 2, option
        assert result.stdout == "", option
        assert part in only_line(result), option


@tap.test
def arguments_pass_untouched():
    words = ["--stats=x", "", "a b", "$HOME", "--", "-n"]
    result = cushim("run", "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
    assert result.stdout.strip() == repr(words), result


@tap.test
def the_exit_code_is_the_program_s():
    for code in (0, 1, 7, 255):
        assert cushim("run", "sh", "-c", f"exit {code}").returncode == code
    assert cushim("run", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


@tap.test
def a_program_that_cannot_start_gives_what_env_gives():
    plain = scratch / "plain"
    plain.write_text("no program\n")
    for word, code in (("no-such-program", 127), (str(scratch / "none"), 127), (str(plain), 126),
                       (str(scratch), 126)):
        result = cushim("run", word)
        assert result.returncode == code, result
        assert word in only_line(result)


@tap.test
def a_program_is_missing():
    for arguments in (["run"], ["run", "--"], ["run", "--pool=1"]):
        result = cushim(*arguments)
        assert result.returncode == 2
        assert "program" in only_line(result)


@tap.test
def help_is_on_standard_output():
    for arguments in (["--help"], ["help"], ["help", "run"], ["run", "--help"], ["help", "doctor"],
                      ["doctor", "--help"], ["help", "options"], ["help", "help"]):
        result = cushim(*arguments)
        assert result.returncode == 0, arguments
        assert result.stdout.startswith("NAME\n    cushim"), arguments
        assert result.stderr == "", arguments
        assert max(map(len, result.stdout.splitlines())) <= 130, arguments
    assert cushim("--version").stdout.startswith("cushim ")


@tap.test
def an_unknown_command_is_one_line_with_a_hint():
    for arguments in (["rum"], ["help", "rum"], ["doctor", "--rum"]):
        result = cushim(*arguments)
        assert result.returncode == 2
        assert result.stdout == ""
        assert "help" in only_line(result)
    result = cushim()
    assert result.returncode == 2
    assert result.stdout == "" and "SYNOPSIS" in result.stderr


@tap.test
def a_terminal_executes_nothing_of_what_was_typed():
    escape = "a\x1b[31mb"
    for arguments in ([escape], ["run", f"--{escape}", "x"], ["run", f"--limit={escape}", "x"], ["run", f"./{escape}"], ["sim", f"--{escape}", "x"],
                      ["report", escape]):
        assert "a?[31mb" in only_line(cushim(*arguments)), arguments


@tap.test
def a_fully_static_program_is_named_and_runs():
    for name, flag in (("fully-static", "-static"), ("static-pie", "-static-pie")):
        program = build(name, flag)
        result = cushim("run", str(program))
        assert result.returncode == 7
        assert "fully static" in only_line(result)


def for_musl():
    """A program whose loader has the name of musl's; it prints what it is to preload."""
    loader = scratch / "ld-musl-test.so.1"
    shown = subprocess.run(["readelf", "-lW", build("dynamic")], text=True, capture_output=True).stdout
    if not loader.exists():
        loader.symlink_to(re.search(r"program interpreter: (.*)\]", shown)[1])
    return build("for-musl", f"-Wl,--dynamic-linker={loader}", source="""
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) { const char *now = getenv("LD_PRELOAD"); return printf("%s", now ? now : "none") < 0 ? 1 : 7; }
    """)


@tap.test
def a_program_built_for_musl_is_named_and_runs_without_the_preload():
    program = for_musl()
    # one that any program can take, of the program's own kind: another kind's may lie in /lib32 or /libx32
    libc = subprocess.run([*CC, "-print-file-name=libm.so.6"], text=True, capture_output=True).stdout.strip()
    for before, after in ((None, "none"), (str(PRELOAD), "none"), (f"{libc}:{PRELOAD}", libc), (libc, libc)):
        result = cushim("run", "--stats=stderr", str(program), LD_PRELOAD=before)
        assert (result.returncode, result.stdout) == (7, after), result
        assert "built for musl" in only_line(result), result
    assert "musl" in examined(program)["linked"][1] and examined(program)["linked"][0] == "wrong"


@tap.test
def a_damaged_preload_is_named_in_one_line():
    whole = PRELOAD.read_bytes()
    for name, part in (("empty", b""), ("cut", whole[:5000]), ("short", whole[:100_000]), ("text", b"no library\n")):
        command = moved(scratch / f"damaged-{name}")
        (command.parent / "libcushim-preload.so").write_bytes(part)
        result = cushim("run", "sh", "-c", "echo started", command=command)
        assert result.returncode == 125 and not result.stdout, result
        assert "is damaged" in only_line(result), result


def with_a_glibc_of_its_own(name, renamed):
    """A program whose loader and C library lie in a folder of its own; versions of that library may have other names."""
    folder = scratch / name
    folder.mkdir()
    system = re.search(r"program interpreter: (.*)\]", subprocess.run(["readelf", "-lW", build("dynamic")], text=True, capture_output=True).stdout)[1]
    loader = pathlib.Path(system).resolve()
    shutil.copy(loader, folder / "ld.so")
    libc = (loader.parent / "libc.so.6").read_bytes()
    for version in renamed:
        libc = libc.replace(b"GLIBC_2." + version + b"\0", b"GLIBC_9." + version + b"\0")
    (folder / "libc.so.6").write_bytes(libc)
    # without the start files, which may need versions that are renamed
    return build(f"{name}-program", "-nostartfiles", "-static-libgcc", f"-Wl,--dynamic-linker={folder / 'ld.so'}", f"-Wl,-rpath,{folder}", source="""
        void exit(int status);
        void _start(void) { exit(7); }
    """)


@tap.test
def a_program_with_an_older_glibc_of_its_own_is_named_and_runs_without_the_preload():
    needed = subprocess.run(["readelf", "-VW", PRELOAD], text=True, capture_output=True).stdout
    newest = max({int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)\b", needed)})
    program = with_a_glibc_of_its_own("older", [str(newest).encode()])
    result = cushim("run", "--stats=stderr", str(program))
    assert result.returncode == 7 and "has a glibc of its own that is older" in only_line(result), result
    assert examined(program)["linked"][0] == "wrong" and "older" in examined(program)["linked"][1]


@tap.test
def a_program_with_an_equal_glibc_of_its_own_is_taken():
    program = with_a_glibc_of_its_own("equal", [])
    assert "glibc of its own" not in cushim("run", str(program)).stderr
    assert examined(program)["linked"][0] == "ok"


@tap.test
def a_child_built_for_musl_runs_and_says_what_it_says_alone():
    compiler = shutil.which("musl-gcc")
    if not compiler:
        tap.skip("no musl-gcc")
    source, program = scratch / "of-musl.c", scratch / "of-musl"
    source.write_text("""
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            int status;
            void *found = dlsym(RTLD_DEFAULT, "puts"), *none = dlsym(RTLD_DEFAULT, "there is no such name");
            if (!fork()) exit(3);
            wait(&status);
            return printf("%d %d %d", found != 0, none != 0, WEXITSTATUS(status)) < 0 ? 1 : 7;
        }
    """)
    subprocess.run([compiler, source, "-o", program], check=True)
    for words in (), ("--stats=stderr",), ("--live",):
        result = cushim("run", *words, "sh", "-c", f"{program}; exit $?")
        assert (result.returncode, result.stdout) == (7, "1 0 3"), result
        assert "relocating" not in result.stderr and str(program) not in result.stderr, result


@tap.test
def no_name_of_glibc_alone_is_asked_for_strongly():
    shown = subprocess.run(["readelf", "-W", "--dyn-syms", PRELOAD], text=True, capture_output=True, check=True).stdout
    found = re.findall(r"(WEAK|GLOBAL) +DEFAULT +UND (backtrace|dladdr1|renameat2|__register_atfork)\b", shown)
    if "__asan_" in shown or "__tsan_" in shown:
        tap.skip("a sanitizer's names are of glibc, too")
    assert all(binding == "WEAK" for binding, _ in found), found


def dlsym_hook(name, next_dlsym):
    """A preload that answers dlsym, and finds the next one in its own way."""
    return build(name, "-shared", "-fPIC", "-ldl", source=f"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        void *dlsym(void *handle, const char *symbol) {{
            static void *(*next)(void *, const char *);
            if (!next) next = {next_dlsym};
            return next(handle, symbol);
        }}
    """)


VERSION = '"GLIBC_2.34"'


@tap.test
def a_preload_that_answers_dlsym_past_us_is_named():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    past = dlsym_hook("past.so", f'dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", {VERSION})')
    through = dlsym_hook("through.so", f'dlvsym(RTLD_NEXT, "dlsym", {VERSION})')
    program = str(build("dynamic"))

    def said(preloads, driver=SIM):
        words = ":".join(map(str, preloads))
        result = cushim("run", program, LD_PRELOAD=words, LD_LIBRARY_PATH=str(driver))
        assert result.returncode == 7 and result.stdout == "", result
        return result.stderr

    line = said([past])
    assert line.count("\n") == 1 and str(past) in line and f"put {PRELOAD} ahead of it" in line, line
    for preloads in ([through], [PRELOAD, past], []):
        assert said(preloads) == "", preloads
    assert said([past], driver="/nowhere") == "" or os.path.exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1")


@tap.test
def another_preload_that_counts_calls_of_the_runtime_sees_each_before_and_behind_us():
    if not (SIM / "libcudart.so.13").exists():
        tap.skip("the software device is not built")
    counter = build("counter.so", "-shared", "-fPIC", "-ldl", source="""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        static int n_allocs, n_frees;
        int cudaMalloc(void **address, size_t n_bytes) {
            n_allocs++;
            return ((int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc"))(address, n_bytes);
        }
        int cudaFree(void *address) {
            n_frees++;
            return ((int (*)(void *))dlsym(RTLD_NEXT, "cudaFree"))(address);
        }
        __attribute__((destructor)) static void tell(void) { fprintf(stderr, "%d %d\\n", n_allocs, n_frees); }
    """)
    program = build("ten_pairs", f"-L{SIM}", "-l:libcudart.so.13", source="""
        #include <stddef.h>
        int cudaMalloc(void **address, size_t n_bytes);
        int cudaFree(void *address);
        int main(void) {
            void *block;
            int wrong = 0;
            for (int i = 0; i < 10; i++)
                wrong |= cudaMalloc(&block, 1000) || cudaFree(block);
            return wrong;
        }
    """)
    report = scratch / "ten_pairs.json"
    for before in (str(counter), f"{PRELOAD}:{counter}"):
        result = cushim("run", f"--stats={report}", str(program), LD_PRELOAD=before, LD_LIBRARY_PATH=str(SIM))
        assert (result.returncode, result.stderr) == (0, "10 10\n"), (before, result)
        device = json.loads(report.read_text())["devices"][0]["kinds"]["device"]
        assert device["requests"] == device["frees"] == 10 and device["native"] == 0, device


@tap.test
def a_dynamic_program_and_a_script_run_without_a_word():
    script = scratch / "script"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    for program in (build("dynamic"), script):
        result = cushim("run", str(program))
        assert (result.returncode, result.stderr) == (7, ""), result


def none_of(program, more=""):  # more: " ..." if it has arguments
    return f"cushim: {program} itself used no CUDA memory that cushim can see, or could not write its report; `cushim doctor {program}{more}` may say why"


@tap.test
def a_program_that_uses_no_cuda_is_told_to_have_no_report():
    program, file = build("dynamic"), scratch / "none.json"
    for where in ("stderr", "1", file, scratch / "none.txt", scratch / "%p-%h.json"):
        for result in (cushim("run", f"--stats={where}", str(program)), cushim("run", str(program), CUSHIM_STATS=str(where))):
            assert result.returncode == 7 and only_line(result) == none_of(program), result
    assert not list(scratch.glob("none.*")) and not list(scratch.glob("*-*.json"))
    for way in ('exec "$0"', '"$0"', '"$0"; "$0"'):
        result = cushim("run", "--stats=stderr", "sh", "-c", way, str(program))
        assert result.returncode == 7 and only_line(result) == none_of("sh", " ..."), (way, result)
    result = cushim("run", "--stats=stderr", "--no-wait", "sh", "-c", 'exec "$0"', str(program))
    assert result.returncode == 7 and only_line(result) == f"cushim: {program.name} itself used no CUDA memory that cushim can see, and has no report", result


def uses_memory():
    return build("uses_memory", source="""
        #include <dlfcn.h>
        #include <stddef.h>
        int main(void) {
            void *runtime = dlopen("libcudart.so.13", RTLD_NOW), *block;
            int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
            return allocate(&block, 1000);
        }
    """)


@tap.test
def a_wrapper_says_nothing_beside_the_report_of_its_program():
    folder = scratch / "wrapped"
    folder.mkdir()
    wrapped = ["sh", "-c", '"$0"; true', str(uses_memory())]
    for where in ("stderr", folder / "of.json", folder / "of-%p.json", f"{folder}/each/"):
        result = cushim("run", f"--stats={where}", *wrapped, LD_LIBRARY_PATH=str(SIM))
        assert result.returncode == 0 and "itself used no" not in result.stderr, (where, result)
        files = [file.name for file in folder.rglob("*") if file.is_file() and file.name != "run.json"]
        assert ("uses_memory, process" in result.stderr) + len(files) == 1, (where, files, result)
        shutil.rmtree(folder)
        folder.mkdir()


@tap.test
def a_log_at_info_says_whether_it_is_active():
    program = build("dynamic")
    for result in (cushim("run", "--log=info", str(program)), cushim("run", str(program), CUSHIM_LOG="debug")):
        assert result.returncode == 7 and result.stderr.splitlines() == [
            f"cushim: {program} starts with {PRELOAD} preloaded; the line `active` follows when it first comes to CUDA "
            "memory", f"cushim: {program.name} itself used no CUDA memory that cushim can see"], result
    assert cushim("run", "--log=warn", str(program)).stderr == ""
    assert cushim("run", "--log=info", "--cushim=off", str(program)).stderr == ""


@tap.test
def the_check_of_a_program_without_memory_says_so():
    program = build("dynamic")
    assert only_line(cushim("run", "--check", str(program))) == f"cushim: {program.name} itself used no CUDA memory that cushim can see"
    assert cushim("run", "--check", "--log=off", str(program)).stderr == cushim("run", "--check=off", str(program)).stderr == ""


@tap.test
def its_children_say_nothing():
    parent = build("parent", source="""
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int n, char **words) {
            int status = 0, ended = 0;
            for (int i = 0; i < 3; i++) {
                if (fork() == 0) {
                    if (i < 2)
                        execv(words[n - 1], words + n - 1);
                    exit(7);
                }
                ended += wait(&status) > 0 && WEXITSTATUS(status) == 7;
            }
            return ended;
        }
    """)
    result = cushim("run", "--stats=stderr", str(parent), str(build("dynamic")))
    assert result.returncode == 3 and only_line(result) == none_of(parent, " ..."), result


@tap.test
def a_sandbox_that_kills_at_every_call_but_write_and_exit_changes_no_exit_code():
    program = build("sandboxed", source="""
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        #define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
        int main(void) {
            struct sock_filter rows[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                ALLOW(SYS_write), ALLOW(SYS_exit_group), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            };
            struct sock_fprog program = {sizeof rows / sizeof *rows, rows};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                return 77;
            return 4;
        }
    """)
    native = cushim("run", str(program)).returncode
    if native == 77:
        tap.skip("this kernel has no seccomp filters")
    assert native == 4, native
    for stats in ("stderr", scratch / "sandboxed-%p.json"):
        result = cushim("run", f"--stats={stats}", "sh", "-c", '"$0"; echo $?', str(program))
        assert result.stdout == "4\n", result


@tap.test
def nobody_is_told_of_a_report_that_nobody_wants():
    program = str(build("dynamic"))
    for words in ([], ["--stats=off"], ["--stats=0"], ["--stats="], ["--stats=stderr", "--cushim=off"],
                  ["--stats=none.json", "--log=off"]):
        assert cushim("run", *words, program).stderr == "", words
    # the same process under another wish: the first one waits, and says so
    result = cushim("run", "--stats=stderr", str(CUSHIM), "run", "--stats=off", program)
    assert result.returncode == 7 and only_line(result) == none_of(CUSHIM, " ..."), result
    result = cushim("run", "--stats=stderr", "--no-wait", str(CUSHIM), "run", "--stats=off", program)
    assert result.returncode == 7 and result.stderr == "", result
    result = cushim("run", "--stats=stderr", "sh", "-c", "kill -TERM $$")
    told = "cushim: sh ended by SIGTERM without a report: it used no CUDA memory that cushim can see, or had no live page"
    assert result.returncode == -signal.SIGTERM and only_line(result) == told, result


@tap.test
def a_program_that_changes_its_user_is_named_and_runs():
    if os.getuid() != 0:
        tap.skip("only root can make one")
    program = build("changes-user")
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    result = cushim("run", str(program))
    assert result.returncode == 7
    assert "set-user-id" in only_line(result)
    assert examined(program)["rights"][0] == "wrong"


@tap.test
def a_set_user_id_bit_without_effect_is_only_noted():
    program = build("keeps-user")
    program.chmod(0o4755)
    if not program.stat().st_mode & stat.S_ISUID:
        tap.skip("the file system keeps no such bit")
    assert cushim("run", str(program)).stderr == ""
    assert examined(program)["rights"][0] == "note"


@tap.test
def a_moved_tree_finds_its_library():
    command = moved(scratch / "moved")
    shutil.copy(PRELOAD, scratch / "moved" / NAME)
    result = cushim("run", "sh", "-c", 'printf %s "$LD_PRELOAD"', command=command)
    assert result.stdout == str((scratch / "moved" / NAME).resolve())


@tap.test
def a_missing_library_is_one_line_and_125():
    result = cushim("run", "sh", "-c", "echo started", command=moved(scratch / "lonely"))
    assert (result.returncode, result.stdout) == (125, "")
    assert NAME in only_line(result)


@tap.test
def a_library_that_LD_PRELOAD_cannot_name_is_refused():
    for name in ("with blank", "with:colon", "with$dollar"):
        command = moved(scratch / name)
        shutil.copy(PRELOAD, scratch / name / NAME)
        result = cushim("run", "sh", "-c", "echo started", command=command)
        assert (result.returncode, result.stdout) == (125, ""), name
        assert "cannot be in LD_PRELOAD" in only_line(result)


@tap.test
def a_program_may_have_any_name():
    folder = scratch / "any name:at $all"
    folder.mkdir()
    shutil.copy(build("dynamic"), folder / "a b:c")
    assert cushim("run", str(folder / "a b:c")).returncode == 7


@tap.test
def a_program_with_few_descriptors_runs_and_has_its_report():
    user = build("few", source="""
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW), *block;
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    return printf("it ran\\n") < 0 || allocate(&block, 1000);
}
""")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "few-pages")}
    for n in range(4, 12):
        def run(where, program):
            return subprocess.run([CUSHIM, "run", f"--stats={where}", program], env=environment, text=True, capture_output=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))

        done = run("stderr", user)
        ours = [line for line in done.stderr.splitlines() if line.startswith("cushim: ")]
        assert done.returncode == 0 and done.stdout == "it ran\n", (n, done)
        assert not ours and re.search(r"^cushim [0-9.]+: few, process", done.stderr, re.MULTILINE), (n, done)
        for where in ("stderr", scratch / "few.json"):
            done = run(where, build("dynamic"))
            assert done.returncode == 7 and "itself used no CUDA memory" in only_line(done), (n, where, done)


tap.run()
