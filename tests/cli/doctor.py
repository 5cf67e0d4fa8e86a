"""`cushim doctor`, from outside; fixture.py says how it is called."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess

from fixture import CC, CUSHIM, SIM, build, cushim, examined, rows, scratch, tap

import refuse


@tap.test
def doctor_tells_how_a_program_is_linked():
    dynamic = examined(build("dynamic"))
    assert dynamic["linked"][0] == "ok" and "dynamically" in dynamic["linked"][1]
    assert dynamic["CUDA runtime"][0] == "note"
    static = examined(build("fully-static", "-static"))
    assert static["linked"][0] == "wrong" and "fully static" in static["linked"][1]


@tap.test
def doctor_sees_a_shared_runtime_and_a_linked_driver():
    for name in ("cudart.so.13", "cuda.so.1"):
        build(f"lib{name}", "-shared", f"-Wl,-soname,lib{name}", source="int in_%s;" % name.split(".")[0])
    program = build("linked", "-Wl,--no-as-needed", str(scratch / "libcudart.so.13"), str(scratch / "libcuda.so.1"))
    found = examined(program)
    assert "shared, libcudart.so.13" in found["CUDA runtime"][1], found
    assert "CUDA driver" in found, found


@tap.test
def doctor_sees_a_static_runtime_also_when_stripped():
    source = """
        const char *const texts[] = {"x", "cudaErrorCudartUnloading", "cuGetProcAddress_v2"};
        int main(int n, char **w) { (void)w; return texts[n][0]; }
    """
    assert "static" in examined(build("with-runtime", "-s", source=source))["CUDA runtime"][1]


@tap.test
def doctor_knows_a_program_that_needs_a_sanitizer_s_library_first():
    program = build("sanitized", "-fsanitize=address")
    if "sanitizer" not in (found := examined(program)):
        tap.skip("this compiler links the sanitizer into the program")
    state, text = found["sanitizer"]
    library = re.search(r"\S*asan\S*$", text)[0]
    assert state == "wrong" and "AddressSanitizer" in text, text
    # with it there, the very program runs
    path = subprocess.run([*CC, f"-print-file-name={library}"], text=True, capture_output=True).stdout.strip()
    assert examined(program, LD_PRELOAD=path, ASAN_OPTIONS="detect_leaks=0")["sanitizer"][0] == "ok"
    assert cushim("run", str(program), LD_PRELOAD=path, ASAN_OPTIONS="detect_leaks=0").returncode == 7
    assert "sanitizer" not in examined(build("dynamic"))


@tap.test
def doctor_names_what_dlopen_may_hide():
    source = "#include <dlfcn.h>\nint main(void) { return !dlopen(0, RTLD_NOW); }"
    found = examined(build("opens", "-ldl", source=source))
    assert "RTLD_DEEPBIND" in found["dlopen"][1]
    assert "dlmopen" not in found


@tap.test
def doctor_survives_damaged_programs():
    whole = build("dynamic").read_bytes()
    damaged = scratch / "damaged"
    for n_bytes in (0, 1, 3, 4, 20, 63, 64, 100, 400, 900, len(whole) // 2):
        damaged.write_bytes(whole[:n_bytes])
        damaged.chmod(0o755)
        result = cushim("doctor", "--json", "--no-run", str(damaged))
        assert result.returncode in (0, 1), (n_bytes, result)
    for place in range(32, 400, 3):
        damaged.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4:])
        result = cushim("doctor", "--json", "--no-run", str(damaged), LD_LIBRARY_PATH="/nowhere")
        assert result.returncode in (0, 1), (place, result)


@tap.test
def doctor_misses_a_program_that_is_not_there():
    result = cushim("doctor", "no-such-program")
    assert result.returncode == 1
    assert "No such file" in result.stdout


@tap.test
def doctor_says_what_may_have_been_meant():
    for name, mode, hint in (("source.c", 0o644, "it is source code"), ("alone.py", 0o644, "did you mean python3 "),
                             ("of-nobody", 0o755, "the interpreter that it names is missing"), ("plain", 0o644, "chmod +x ")):
        file = scratch / name
        file.write_text("#!/nowhere/sh\n" if mode & 1 else "text\n")
        file.chmod(mode)
        found = examined(file)["file"]
        assert found[0] == "wrong" and hint in found[1], (name, found)


@tap.test
def doctor_lists_settings_and_finds_the_wrong_ones():
    result = cushim("doctor", CUSHIM_LARGE="lots", CUSHIM_NONSENSE="1", CUSHIM_STATS="1", CUSHIM_SIM_SEED="1")
    assert result.returncode == 1
    text = result.stdout
    assert "CUSHIM_LARGE=lots is not a size" in text, text
    assert "CUSHIM_LARGE=1 is too small: 2M is the least" in cushim("doctor", CUSHIM_LARGE="1").stdout
    assert "CUSHIM_NONSENSE=1 is no option" in text
    assert "CUSHIM_STATS=1" in text
    assert "CUSHIM_SIM_SEED" not in text
    assert "did you mean" not in text, text


@tap.test
def doctor_names_the_option_that_a_wrong_one_is_near():
    text = cushim("doctor", CUSHIM_STAT="1").stdout
    assert "CUSHIM_STAT=1 is no option" in text and "-> did you mean CUSHIM_STATS?" in text, text


@tap.test
def doctor_takes_the_option_of_everything_by_its_short_name_alone():
    result = cushim("doctor", CUSHIM_CUSHIM="1")
    assert result.returncode == 1 and "CUSHIM_CUSHIM=1 is no option" in result.stdout, result.stdout
    assert "CUSHIM=1" in cushim("doctor", CUSHIM="1").stdout


@tap.test
def doctor_s_json_names_its_schema_first():
    assert next(iter(json.loads(cushim("doctor", "--json").stdout).items())) == ("schema", "cushim-doctor/1")


@tap.test
def doctor_without_a_driver_says_so():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        tap.skip("this machine has a driver")
    result = cushim("doctor", LD_LIBRARY_PATH="/nowhere")
    assert result.returncode == 1
    assert "!!  driver" in result.stdout


@tap.test
def doctor_s_allocations_come_through_both_entry_points():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    # The user's own switch must not make a healthy machine look ill.
    result = cushim("doctor", "--json", LD_LIBRARY_PATH=str(SIM), CUSHIM_POOL="0")
    found = {name: value for (section, name), value in rows(result).items() if section.startswith("the probe")}
    assert found["dlsym"][0] == found["cuGetProcAddress"][0] == "ok", found
    assert found["pool"] == ("ok", "2 of 2 allocations served"), found
    assert result.returncode == 0, result.stdout


# Another dlsym, ahead of ours, that leads one of the two entry points past us.
PASSES_BY = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <string.h>
    static void *(*libc_dlsym)(void *, const char *), *(*next_dlsym)(void *, const char *);
    __attribute__((constructor)) static void begin(void) {
        static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
        for (int i = 0; i < 3 && !libc_dlsym; i++)
            *(void **)&libc_dlsym = dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", versions[i]);
        *(void **)&next_dlsym = libc_dlsym(RTLD_NEXT, "dlsym");
    }
    void *dlsym(void *handle, const char *name) {
        if (!libc_dlsym)
            begin();
        return (strcmp(name, "cuGetProcAddress_v2") == 0 ? libc_dlsym : next_dlsym)(handle, name);
    }
"""


@tap.test
def doctor_takes_one_allocation_of_two_for_wrong():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    hook = build("libpasses-by.so", "-shared", "-fPIC", "-ldl", source=PASSES_BY)
    result = cushim("doctor", "--json", LD_LIBRARY_PATH=str(SIM), LD_PRELOAD=str(hook))
    found = {name: value for (section, name), value in rows(result).items() if section.startswith("the probe")}
    assert found["dlsym"][0] == "ok" and found["cuGetProcAddress"][0] == "wrong", found
    assert found["pool"] == ("wrong", "1 of 2 allocations served"), found
    assert found["bypassed"] == ("wrong", "1 driver allocation no entry point saw"), found
    assert result.returncode == 1, result


@tap.test
def a_device_that_is_full_is_noted_and_nothing_is_wrong():
    holder = build("holder", f"-L{SIM}", "-l:libcuda.so.1", source="""
        #include <stdlib.h>
        int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, unsigned long);
        int main(int n, char **words) {
            void *context; unsigned long long address;
            if (n != 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 9;
            for (unsigned long bytes = 1ul << 30; bytes >= 512; bytes /= 2)
                while (cuMemAlloc_v2(&address, bytes) == 0) {}
            return system(words[1]) ? 1 : 0;
        }
    """)
    device = {"LD_LIBRARY_PATH": str(SIM), "CUSHIM_SIM_SHARED": str(scratch / "full-device"), "CUSHIM_SIM_MEMORY": str(64 << 20)}
    result = cushim(f"{CUSHIM} doctor --json", command=holder, **device)
    found = {name: value for (section, name), value in rows(result).items() if section.startswith("the probe")}
    assert found["pool"][0] == "note" and "device 0 is full" in found["pool"][1], found
    assert result.returncode == 0, result


@tap.test
def doctor_names_the_driver_s_own_error():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    result = cushim("doctor", LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_DEVICES="0")
    assert result.returncode == 1
    assert "!!  device" in result.stdout, result.stdout


@tap.test
def doctor_says_whether_the_kernel_grants_membarrier():
    def found(**how):
        done = subprocess.run([CUSHIM, "doctor", "--json"], text=True, capture_output=True, timeout=120, **how)
        return rows(done)["this machine", "membarrier"]
    assert found()[0] == "ok" and "a store and a load" in found()[1], found()
    try:
        refused = found(preexec_fn=refuse.membarrier)
    except subprocess.SubprocessError:
        tap.skip("this kernel has no seccomp filters")
    assert refused[0] == "note" and "locked exchange" in refused[1], refused


# A program that lives until it was seen; with -DUSES it asks for memory of the software device.  Doctor sleeps behind each look, and
# the kernel counts that: when a process above called cushim has slept three more times, a look has begun and ended.
LINGERS = r"""
    #include <poll.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    static long sleeps_above(void) {
        long sum = 0, n = 0, parent = getppid();
        while (parent > 1) {
            char path[64], line[256];
            int is_cushim = 0;
            snprintf(path, sizeof path, "/proc/%ld/status", parent);
            FILE *status = fopen(path, "r");
            parent = 0;
            while (status && fgets(line, sizeof line, status)) {
                is_cushim |= strcmp(line, "Name:\tcushim\n") == 0;
                sscanf(line, "PPid: %ld", &parent);
                if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 && is_cushim)
                    sum += n;
            }
            if (status)
                fclose(status);
        }
        return sum;
    }
    #ifdef USES
    int cudaMalloc(void **address, size_t n_bytes);
    int cudaFree(void *address);
    #endif
    int main(void) {
        int wrong = 0;
    #ifdef USES
        void *block;
        for (int i = 0; i < 10; i++)
            wrong |= cudaMalloc(&block, 1000) || cudaFree(block);
    #endif
        puts("printed");
        fflush(stdout);
        for (long before = sleeps_above(); sleeps_above() < before + 3;)
            poll(NULL, 0, 10);
        return wrong ? 9 : 5;
    }
"""


def command_rows(*words, **environment):
    """(state, text) of each row about a command that was run, by name, and the result."""
    result = cushim("doctor", "--json", "--", *words, LD_LIBRARY_PATH=str(SIM), **environment)
    found = {}
    for row in json.loads(result.stdout)["rows"]:
        if row["section"] == "the command":
            found.setdefault(row["name"], []).append((row["state"], row["text"]))
    return found, result


@tap.test
def a_command_whose_child_calls_cuda_is_told_to_spawn():
    source = """
        #include <cuda_runtime_api.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            void *block;
            int wrong = cudaMalloc(&block, 1000) != cudaSuccess;
            if (fork() == 0)
                _exit(cudaMalloc(&block, 1000) == cudaSuccess);
            wait(&wrong);
            return wrong;
        }
    """
    program = build("forks", f"-L{SIM}", "-l:libcudart.so.13", source=source)
    found, result = command_rows(str(program))
    assert found["ran"][0][1].endswith("exit status 0"), found
    assert found["fork"] == [("wrong", "cudaMalloc was called in a child forked from a process that used CUDA: its calls fail")], found
    assert "spawn instead of fork" in result.stdout, result


@tap.test
def a_command_that_is_run_is_reached_and_pooled():
    program = build("lingers", "-DUSES", f"-L{SIM}", "-l:libcudart.so.13", source=LINGERS)
    found, result = command_rows(str(program))
    assert "printed" in result.stderr, "standard output is the report's alone"
    assert found["ran"][0][0] == "note" and found["ran"][0][1].endswith("exit status 5"), found
    assert found["reached"][0][0] == "ok" and found["reached"][0][1].endswith(" " + str(program)), found
    assert found["pooled"] == [("ok", "10 of 10 requests of device memory, 9 without a driver call")], found
    assert found["effective"] == [("ok", "yes: 1 process used CUDA memory")], found
    assert any("libcudart.so.13" in text for _, text in found["CUDA runtime"]), found
    text = cushim("doctor", "--", str(program), LD_LIBRARY_PATH=str(SIM)).stdout
    assert "printed" in text and "the command\n" in text, text


@tap.test
def what_the_program_prints_has_a_heading_between_the_rows():
    script = 'echo "sh: an error of its own" >&2; printf "no end of the line"; exit 3'
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "CUSHIM_LIVE": "off"}
    text = subprocess.run([CUSHIM, "doctor", "sh", "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120).stdout
    before, after = text.split("\nthe program's output\n")
    assert before.startswith("cushim\n") and "\nthe probe" in before and "error of its own" not in before, text
    output, rows_of_it = after.split("\nthe command\n")
    assert "sh: an error of its own\n" in output and "no end of the line" in output, text
    assert re.search(r"\A  --  ran +[^\n]*exit status 3\n", rows_of_it) and rows_of_it.endswith("\nall is well\n"), text
    assert "the program's output" not in cushim("doctor", "--no-run", "sh").stdout


@tap.test
def processes_of_one_program_have_one_row():
    program = build("lingers", "-DUSES", f"-L{SIM}", "-l:libcudart.so.13", source=LINGERS)
    found, _ = command_rows("sh", "-c", f"{program} & {program} & {program}; wait")
    assert [text.split(" ", 1)[1] for _, text in found["reached"] if str(program) in text] == [f"{program}, and 2 more"], found


@tap.test
def who_is_not_reached_is_named_with_the_reason():
    program, static = build("lingers", "-DUSES", f"-L{SIM}", "-l:libcudart.so.13", source=LINGERS), build("static-lingers", "-static", source=LINGERS)
    found, result = command_rows("env", "-u", "LD_PRELOAD", str(program))
    wrong = [text for kind, text in found["not reached"] if kind == "wrong"]  # env itself may be seen, too, and has no driver
    assert result.returncode == 1 and len(wrong) == 1, found
    assert "its parent left LD_PRELOAD out, and it has a CUDA driver" in wrong[0], found
    found, result = command_rows(str(static))
    assert result.returncode == 1 and found["not reached"] == [("note", found["not reached"][0][1])], found
    assert "is fully static" in found["not reached"][0][1] and found["effective"][0] == ("wrong", "no: the preload reached no process"), found
    found, _ = command_rows("sh", "-c", f"{program}; {static}; true")
    assert len(found["not reached"]) == 1 and found["effective"][0][0] == "ok", found


@tap.test
def a_program_that_uses_no_memory_is_not_sent_to_doctor_again():
    for environment in ({}, {"CUSHIM_LIVE": "off"}, {"CUSHIM_LOG": "info"}):
        found, result = command_rows("true", **environment)
        assert found["effective"][0][0] == "note" and "doctor" not in result.stderr, (environment, result)


@tap.test
def a_command_that_ends_early_or_is_none_is_told():
    found, result = command_rows("true")
    assert found["effective"][0][0] == "note" and result.returncode == 0, (found, result)
    found, _ = command_rows("sh", "-c", "sleep 0.1; kill -9 $$")
    assert "ended by signal 9" in found["ran"][0][1], found
    found, result = command_rows("/no/such/program")
    assert not found and result.returncode == 1 and "/no/such/program: No such file" in result.stdout, (found, result)


def running_doctor(*command, **options):
    """Doctor, and what matched when its command said that it runs."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    doctor = subprocess.Popen([CUSHIM, "doctor", *command], env=environment, stdout=subprocess.PIPE, text=True, **options)
    return doctor, next(filter(None, (re.fullmatch(r"(\d+) runs\n", line) for line in doctor.stdout)))


@tap.test
def a_doctor_that_is_told_to_end_ends_the_command():
    for number in (signal.SIGTERM, signal.SIGHUP):
        doctor, said = running_doctor("sh", "-c", "echo $$ runs; exec sleep 100")
        doctor.send_signal(number)
        rest, _ = doctor.communicate(timeout=60)
        assert re.search(rf"^  !!  doctor  +ended by {number.name} before it had finished$", rest, re.M) and "all is well" not in rest, rest
        assert f"ended by signal {int(number)} " in rest and doctor.returncode == -number, (rest, doctor.returncode)
        assert not pathlib.Path("/proc", said[1]).exists(), said
    doctor, _ = running_doctor("sh", "-c", "echo $$ runs; exec sleep 100", start_new_session=True)
    os.killpg(doctor.pid, signal.SIGINT)  # the terminal sends it to all
    rest, _ = doctor.communicate(timeout=60)
    assert "ended by SIGINT before it had finished\n" in rest and doctor.returncode == -signal.SIGINT, (rest, doctor.returncode)


@tap.test
def a_doctor_whose_command_ends_itself_has_finished():
    doctor, _ = running_doctor("sh", "-c", "trap 'exit 0' TERM; echo $$ runs; while :; do sleep 0.01; done")
    doctor.send_signal(signal.SIGTERM)
    rest, _ = doctor.communicate(timeout=60)
    assert "before it had finished" not in rest and "\nall is well\n" in rest and doctor.returncode == 0, (rest, doctor.returncode)
    result = cushim("doctor", "sh", "-c", "kill -TERM $$")
    assert "before it had finished" not in result.stdout and "ended by signal 15 " in result.stdout and result.returncode == 0, result


@tap.test
def of_a_process_whose_loader_is_not_done_nothing_is_told():
    fifo = scratch / "fifo"  # where the loader stops, before it comes to the preload
    os.mkfifo(fifo)
    found, _ = command_rows("sh", "-c", f'(sleep 0.3; : >{fifo}) & LD_PRELOAD="{fifo} $LD_PRELOAD" /bin/true; wait')
    assert "not reached" not in found and found["effective"][0][0] == "note", found


@tap.test
def of_a_process_whose_loader_is_not_mapped_nothing_is_told():
    """The kernel maps the loader after the program.  Here another file stands in the loader's place and never comes to libc."""
    stands = build("stands", "-nostdlib", "-static", source="void _start(void) { for (;;); }")
    waits = build("waits", f"-Wl,--dynamic-linker={stands}")
    found, _ = command_rows("timeout", "-s", "KILL", "0.2", waits)
    assert not [text for _, text in found.get("not reached", []) if str(waits) in text], found


tap.run()
