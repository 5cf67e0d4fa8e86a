"""Every command of README and the guides is run: here on the software device, or by the test that OTHERS names.

    guide.py ROOT CUSHIM PROGRAM PAUSING SIM_FOLDER

A command is an indented line that begins with the name of a program.  `cushim` runs as it stands, with PROGRAM in place of ./app and
a script that asks for a block in place of a Python program.  `cushim stat` finds PAUSING at work, by the name or number that the page
gives.  What cannot run here is in OTHERS, with what runs it.  With an environment of PyTorch on PATH the commands of torchrun run, too.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT, CUSHIM, PROGRAM, PAUSING, SIM = (pathlib.Path(word).resolve() for word in sys.argv[1:6])
PAGES = ["README.md"] + sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/guide").glob("*.md"))

# the beginning of a command -> who runs it
OTHERS = {
    "./tools/check": "CI",
    "tests/gpu/run": "by hand, on a GPU",
    "$ ./tools/quickstart": "tests/examples/quickstart.py",
    "./tools/quickstart": "tests/examples/quickstart.py",
    "$ cushim record -o train.cushim ./train": "tests/examples/quickstart.py",
    "$ ./vecadd": "tests/examples/quickstart.py",
    "$ cushim run --stats=vecadd.txt": "tests/examples/quickstart.py",
    "$ cc -rdynamic -o overrun": "tests/examples/checked.py",
    "$ cushim run --check ./overrun": "tests/examples/checked.py",
    **dict.fromkeys(("$ cc -g -o leaky", "$ cushim run --stats ./leaky", "$ cushim run --stats --sites ./leaky", "$ cushim record -o leaky.cushim",
                     "$ cushim report leaky.cushim", "$ cushim run ./leaky", "$ cushim record -o out.cushim", "$ cushim report --at=end out.cushim",
                     "$ cushim replay out.cushim"), "tests/examples/walk.py"),
    "cc -o alloc_copy": "tests/examples/install.py",
    "pip install": "tests/install",
    "pip wheel": "tests/install",
    "python -m build": "tests/install",
    "dpkg-buildpackage": "tests/install",
    "apt install": "tests/install/run, by hand",
    "python -m cushim": "tests/install",
    "python -m pip show": "tests/install",
    "python -c": "tests/install",
    "cushim run --sites=1 -- pytest": "tests/install",
    "meson setup": "tests/examples/install.py, tests/examples/quickstart.py",
    "meson install": "tests/examples/install.py",
    "cushim merge report": "the tests of ranks below",
    "cushim limit": "tests/cli/limits.py",
    "cushim suspend": "tests/cli/suspend.py",
    "cushim resume": "tests/cli/suspend.py",
    "cushim run --suspend": "tests/cli/suspend.py",
    "cushim trim": "tests/cli/control.py",
    "cushim record --pid": "tests/cli/attach.py",
    "cushim snapshot": "tests/cli/attach.py",
    "srun": "by hand: tests/install/clusters",
    "docker": "by hand: tests/install/clusters",
    "apptainer": "nobody: Debian 12 has no package of it",
}
UNTESTED = "not run by a test"  # what a page says beside a command that nobody runs
PROGRAMS = r"cushim(?! \d)|mpirun|bwrap|srun|torchrun|docker|apptainer|python3?|pip|apt|dpkg-buildpackage|meson|ninja|cc|\$ .*|\./\S+|tests/\S+|[A-Z_]+=\S+"
IN_A_TABLE = re.compile(r"`(cushim [^`]* (?:\./app|\S+\.py))`")
COMMAND = re.compile(rf"    ((?:{PROGRAMS})( .*)?)$")
TRAIN = """import ctypes, sys
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20))
print("trained", *sys.argv[1:])
"""


def commands(text):
    """The lines of a page's indented blocks that begin with a program, without their remarks, and the commands of its tables."""
    in_fence = False
    for line in text.splitlines():
        in_fence ^= line.startswith("```")
        if line.startswith("|"):
            yield from IN_A_TABLE.findall(line)
        found = None if in_fence else COMMAND.match(line)
        if found:
            yield re.sub(r"\s{2,}#.*|\s+# .*", "", found[1]).rstrip()


def runs_elsewhere(command):
    return next((who for begin, who in OTHERS.items() if command.startswith(begin)), None)


def run(command, folder, script=TRAIN):
    """Runs a command as a shell would, where ./app, python3, cushim and a program at work are there; returns what it did."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    env |= {"LD_LIBRARY_PATH": str(SIM), "PATH": f"{folder}:{env['PATH']}", "CUSHIM_LIVE_DIR": str(folder / "live"),
            # as root, and on few processors
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    for name, target in (("app", PAUSING if " stat" in command else PROGRAM), ("cushim", CUSHIM)):
        (folder / name).symlink_to(target)
    if not shutil.which("python"):  # as in the environment that the page installs into
        (folder / "python").symlink_to(sys.executable)
    (folder / "live").mkdir(mode=0o700)
    (folder / "train.py").write_text(script)
    line = command.replace("/path/to/libcushim-preload.so", str(CUSHIM.parents[2] / "preload/libcushim-preload.so"))
    with at_work(folder, env) if " stat" in command else contextlib.nullcontext() as number:
        line = re.sub(r"(?<=stat )((?:--\S+ )*)\d+", rf"\g<1>{number}", line)
        return subprocess.run(["bash", "-c", line], cwd=folder, env=env, text=True, capture_output=True,
                              timeout=1000 if "torchrun" in line else 100)


@contextlib.contextmanager
def at_work(folder, env):
    process = subprocess.Popen([folder / "cushim", "run", "./app", "pause"], cwd=folder, env=env, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # what it says when it has memory
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def fault(command, folder):
    done = run(command, folder)
    if done.returncode:
        return f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    if "--stats ./app" in command and "cushim 0." not in done.stderr:
        return f"{command}: no report\n{done.stderr}"
    return None


def missing(command):
    """A launcher of the page that this machine lacks."""
    return next((word for word in ("mpirun", "bwrap", "torchrun") if word in command.split() and not shutil.which(word)), None)


def faults(text):
    for command in dict.fromkeys(commands(text)):
        if not runs_elsewhere(command) and not missing(command):
            with tempfile.TemporaryDirectory(prefix="cushim-guide-") as folder:
                found = fault(command, pathlib.Path(folder))
            if found:
                yield found


for page in PAGES:
    def commands_run(page=page):
        found = list(faults((ROOT / page).read_text()))
        assert not found, "\n".join(found)
    commands_run.__name__ = re.sub(r"\W", "_", f"the commands of {page} run")
    tap.test(commands_run)


@tap.test
def a_command_that_fails_is_found():
    text = ("Prose.\n\n    cushim run --pool=off ./app   # counts\n    cushim run --nonsense ./app\n    cushim stat nobody\n    cushim stat 7\n"
            "\n    device 0  a sample\n```\n    cushim dance\n```\n    ./nothing\n")
    assert list(commands(text)) == ["cushim run --pool=off ./app", "cushim run --nonsense ./app", "cushim stat nobody",
                                    "cushim stat 7", "./nothing"]
    assert [found.split(":")[0] for found in faults(text)] == ["cushim run --nonsense ./app", "cushim stat nobody",
                                                               "./nothing"]


@tap.test
def what_nobody_runs_says_so():
    for page in PAGES:
        text = (ROOT / page).read_text()
        unrun = [command for command in commands(text) if (runs_elsewhere(command) or "").startswith("nobody")]
        assert not unrun or text.count(UNTESTED) > 1, (page, unrun)


# A program of ranks: it has memory of the device.
TRAIN = """
import ctypes
runtime, address = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
assert runtime.cudaFree(address) == 0
"""


def each_rank_reports(command):
    """Runs it; of two ranks each has a report of its own, and `cushim merge` makes a table of them."""
    if missing(command):
        tap.skip(f"no {missing(command)} here")
    with tempfile.TemporaryDirectory(prefix="cushim-guide-") as name:
        folder = pathlib.Path(name)
        done = run(command, folder, TRAIN)
        assert done.returncode == 0, done.stderr
        reports = sorted(folder.glob("report-*.json"))
        assert [path.stem.rpartition("-")[2] for path in reports] == ["0", "1"], (reports, done.stderr)
        assert [json.loads(path.read_text())["ranks"] for path in reports] == [2, 2], reports
        merged = subprocess.run([CUSHIM, "merge", *reports], text=True, capture_output=True)
        assert re.search(r"^ +2 in all ", merged.stdout, re.MULTILINE), merged
        assert re.findall(r"^ +([01]) +\d+ ", merged.stdout, re.MULTILINE) == ["0", "1"], merged


@tap.test
def each_rank_of_mpirun_has_a_report():
    each_rank_reports("mpirun -n 2 cushim run --stats=report-%h-%r.json ./app")


@tap.test
def each_worker_of_torchrun_has_a_report():
    each_rank_reports("cushim run --stats=report-%r.json torchrun --nproc-per-node=2 train.py")


@tap.test
def each_launcher_s_variable_for_the_rank_is_known():
    for variable in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"):
        with tempfile.TemporaryDirectory(prefix="cushim-guide-") as name:
            done = run(f"env {variable}=7 cushim run --stats=report-%r.json ./app", pathlib.Path(name))
            assert done.returncode == 0 and (pathlib.Path(name) / "report-7.json").exists(), (variable, done.stderr)


@tap.test
def what_others_run_is_on_a_page():
    every = [command for page in PAGES for command in commands((ROOT / page).read_text())]
    assert [begin for begin in OTHERS if not any(command.startswith(begin) for command in every)] == []
    assert len(every) > 50, len(every)


tap.run()
