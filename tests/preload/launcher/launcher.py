"""`cushim run` and `cushim doctor`, from outside.

    launcher.py CUSHIM PRELOAD SIM_FOLDER CC...
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

CUSHIM, PRELOAD, SIM = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
CC = sys.argv[4:]
NAME = "libcushim-preload.so"
NOBODY = 65534
scratch_folder = tempfile.TemporaryDirectory(prefix="cushim-launcher-")
scratch = pathlib.Path(scratch_folder.name)


def cushim(*arguments, command=CUSHIM, **environment):
    """Run the command with a clean set of CUSHIM_ variables; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    for name, value in environment.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return subprocess.run([command, *arguments], env=env, text=True, capture_output=True, timeout=120)


def preloaded(**environment):
    return cushim("run", "sh", "-c", 'printf %s "$LD_PRELOAD"', **environment).stdout.split(":")


def only_line(result):
    """The one line of standard error."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("cushim: "), lines[0]
    return lines[0]


def build(name, *flags, source="int main(void) { return 7; }"):
    program = scratch / name
    done = subprocess.run([*CC, "-o", program, "-x", "c", "-", "-x", "none", *flags],
                          input=source, text=True, capture_output=True)
    if done.returncode:
        tap.skip(f"the compiler cannot build it: {done.stderr.splitlines()[0]}")
    return program


def rows(result):
    """{(section, name): (state, text)} of a report as JSON; the last of a name wins."""
    report = json.loads(result.stdout)
    assert report["well"] == (result.returncode == 0), result
    return {(row["section"], row["name"]): (row["state"], row["text"]) for row in report["rows"]}


def examined(program, **environment):
    found = rows(cushim("doctor", "--json", str(program), **environment))
    return {name: value for (section, name), value in found.items() if section == "the program"}


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
    assert told.returncode == 0 and len(told.stderr.splitlines()) == 1 and "synchronisation" in told.stderr, told
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
    assert "--async-keep needs a value: --async-keep=VALUE" in cushim("run", "--async_keep", "env").stderr
    too_long = "--" + 200 * "a-"
    assert too_long in cushim("run", too_long + "=1", "env").stderr


@tap.test
def an_option_wins_over_its_variable_and_the_others_stay():
    result = cushim("run", "--large=64M", "env", CUSHIM_LARGE="1G", CUSHIM_POOL="0")
    assert "CUSHIM_LARGE=64M" in result.stdout.splitlines()
    assert "CUSHIM_POOL=0" in result.stdout.splitlines()


@tap.test
def a_wrong_option_is_one_line_and_nothing_starts():
    for option, part in (("--nonsense=1", "--nonsense"), ("--ipc=maybe", "auto|dedicated"),
                         ("--large=12Q", "--large=12Q"), ("--large=1", "too small"),
                         ("--stats", "needs a value"), ("-v", "-v"), ("--pool=", "--pool=")):
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
    for arguments in (["rum"], ["help", "rum"], ["doctor", "--rum"], ["doctor", "a", "b"]):
        result = cushim(*arguments)
        assert result.returncode == 2
        assert result.stdout == ""
        assert "help" in only_line(result)
    result = cushim()
    assert result.returncode == 2
    assert result.stdout == "" and "SYNOPSIS" in result.stderr


@tap.test
def a_fully_static_program_is_named_and_runs():
    for name, flag in (("fully-static", "-static"), ("static-pie", "-static-pie")):
        program = build(name, flag)
        result = cushim("run", str(program))
        assert result.returncode == 7
        assert "fully static" in only_line(result)


@tap.test
def a_dynamic_program_and_a_script_run_without_a_word():
    script = scratch / "script"
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    for program in (build("dynamic"), script):
        result = cushim("run", str(program))
        assert (result.returncode, result.stderr) == (7, ""), result


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
        result = cushim("doctor", "--json", str(damaged))
        assert result.returncode in (0, 1), (n_bytes, result)
    for place in range(32, 400, 3):
        damaged.write_bytes(whole[:place] + b"\xff\xff\xff\x7f" + whole[place + 4:])
        result = cushim("doctor", "--json", str(damaged), LD_LIBRARY_PATH="/nowhere")
        assert result.returncode in (0, 1), (place, result)


@tap.test
def doctor_misses_a_program_that_is_not_there():
    result = cushim("doctor", "no-such-program")
    assert result.returncode == 1
    assert "No such file" in result.stdout


@tap.test
def doctor_lists_settings_and_finds_the_wrong_ones():
    result = cushim("doctor", CUSHIM_LARGE="lots", CUSHIM_NONSENSE="1", CUSHIM_STATS="1", CUSHIM_SIM_SEED="1")
    assert result.returncode == 1
    text = result.stdout
    assert "CUSHIM_LARGE=lots is not a size" in text, text
    assert "CUSHIM_NONSENSE=1 is no option" in text
    assert "CUSHIM_STATS=1" in text
    assert "CUSHIM_SIM_SEED" not in text


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
def doctor_s_allocations_come_through_both_doors():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    # The user's own switch must not make a healthy machine look ill.
    result = cushim("doctor", "--json", LD_LIBRARY_PATH=str(SIM), CUSHIM_POOL="0")
    found = {name: value for (section, name), value in rows(result).items() if section.startswith("the probe")}
    assert found["dlsym"][0] == found["cuGetProcAddress"][0] == "ok", found
    assert found["pool"] == ("ok", "2 of 2 allocations served"), found
    assert result.returncode == 0, result.stdout


@tap.test
def doctor_names_the_driver_s_own_error():
    if not (SIM / "libcuda.so.1").exists():
        tap.skip("the software device is not built")
    result = cushim("doctor", LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_DEVICES="0")
    assert result.returncode == 1
    assert "!!  device" in result.stdout, result.stdout


def moved(folder):
    folder.mkdir(exist_ok=True)
    shutil.copy(CUSHIM, folder / "cushim")
    return folder / "cushim"


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
        assert "cannot stand in LD_PRELOAD" in only_line(result)


@tap.test
def a_program_may_have_any_name():
    folder = scratch / "any name:at $all"
    folder.mkdir()
    shutil.copy(build("dynamic"), folder / "a b:c")
    assert cushim("run", str(folder / "a b:c")).returncode == 7


tap.run()
