"""`cushim suspend` and `resume`, and `cushim run --suspend`, on processes that share a software device of 256 MiB.

    suspend.py CUSHIM PRELOAD SIM_FOLDER KEEPER KILLS CC...

KEEPER is keeper.c, KILLS how many times something is killed at a random moment, or TEST_KILLS of
the environment.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

KEEPER, KILLS = os.path.abspath(sys.argv.pop(4)), int(os.environ.get("TEST_KILLS", sys.argv.pop(4)))

from fixture import CUSHIM, SIM, build, scratch, tap  # noqa: E402
import live_fixture  # noqa: E402

folder = live_fixture.folder
shared = {"CUSHIM_SIM_SHARED": str(scratch / "device"), "CUSHIM_SIM_MEMORY": "256M"}


def environment(**more):
    return live_fixture.environment(**shared | more)


class Keeper:
    """A process that keeps memory, and says whether it is as it was."""

    def __init__(self, *words, before=(), **more):
        self.process = subprocess.Popen([*before, KEEPER, *map(str, words)], env=environment(**more), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def asks(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_well(self):
        """Waits as long as it is suspended."""
        self.asks()
        return self.process.stdout.readline() == "well\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def call(*words, before=(), timeout=60, **more):
    return subprocess.run([*before, CUSHIM, *map(str, words)], env=environment(**more), text=True, capture_output=True, timeout=timeout)


def line(done, code):
    """The one line of a command."""
    assert done.returncode == code and done.stderr.count("\n") == 1, done
    return done.stderr


def notes():
    return sorted(folder.glob("*.suspended"))


@tap.test
def memory_goes_and_comes_back_with_cushim_and_without():
    with Keeper(100) as one, Keeper(60, before=[CUSHIM, "run"]) as other:
        said = call("suspend", one.pid, "keeper")
        assert said.returncode == 0, said
        for keeper, size in (one, "100 MiB"), (other, "60.0 MiB"):
            assert re.search(rf"process {keeper.pid} \(keeper\) is suspended: {size} went to host memory in \S+ \w+, and", said.stderr), said
        said = call("stat").stdout
        assert re.search(rf"{other.pid}  keeper .* susp\.\n", said), said
        assert re.search(rf"{one.pid}  keeper +suspended for \S+ \w+, 100 MiB; cushim resume {one.pid}\n", said), said
        assert max(map(len, said.splitlines())) <= 80, said
        said = call("stat", one.pid)
        assert said.returncode == 0 and "100 MiB" in said.stdout, said
        told = json.loads(call("stat", "--json", other.pid).stdout)["suspended"]
        assert told["bytes"] == 60 << 20 and told["ns"] > 0, told
        said = call("metrics").stdout
        assert re.search(rf'cushim_suspended_bytes{{pid="{other.pid}",.*}} {60 << 20}\n', said), said
        assert re.search(rf"{other.pid}  keeper .*suspended for", call("top", "--once", COLUMNS="200").stdout.replace("suspen\n", "suspended for"))
        assert "is suspended already" in line(call("suspend", one.pid), 1)
        with Keeper(200) as third:  # it has room now
            one.asks()
            said = line(call("resume", one.pid), 1)
            assert "stays suspended: it needs 106 MiB of GPU 0, which has 56.0 MiB free" in said and f"{third.pid} (keeper) has 200 MiB" in said, said
        said = call("resume", "keeper")
        assert said.returncode == 0 and re.search(rf"process {one.pid} \(keeper\) goes on: 100 MiB came back in", said.stderr), said
        assert one.process.stdout.readline() == "well\n" and other.is_well() and one.is_well()
        assert "is not suspended" in line(call("resume", one.pid), 1)
        assert "suspended" not in json.loads(call("stat", "--json", other.pid).stdout)
    assert not notes()


@tap.test
def a_snapshot_of_what_is_suspended_waits_for_the_resume():
    with Keeper(10, before=[CUSHIM, "run"]) as keeper:
        assert call("suspend", keeper.pid).returncode == 0
        words = [CUSHIM, "snapshot", "-o", str(scratch / "of-suspended"), str(keeper.pid)]
        snapshot = subprocess.Popen(words, env=environment(), text=True, stderr=subprocess.PIPE)
        said = snapshot.stderr.readline()
        assert f"is suspended; it tells what it has when `cushim resume {keeper.pid}` brings it back" in said, said
        assert call("resume", keeper.pid).returncode == 0 and keeper.is_well()
        said = snapshot.communicate(timeout=60)[1]
        assert snapshot.returncode == 0 and "1 process" in said, said


@tap.test
def what_is_spilled_stays_on_the_host():
    with Keeper(100, before=[CUSHIM, "run", "--limit=64M", "--spill=200M"]) as keeper:
        assert "is suspended" in line(call("suspend", keeper.pid), 0)
        with Keeper(256) as all_of_it:  # the device is free
            assert all_of_it.is_well()
        assert "goes on" in line(call("resume", keeper.pid), 0) and keeper.is_well()
    assert not notes()


@tap.test
def what_cannot_be_suspended_goes_on_and_one_line_says_why():
    for words, before, why in ((["managed"], [CUSHIM, "run"], "it holds managed memory"), (["managed"], [], "managed memory, or memory of two"),
                               (["ipc"], [CUSHIM, "run"], "IPC is in use"), (["ipc"], [], r"\(IPC\); it goes on")):
        with Keeper(10, *words, before=before) as keeper:
            assert re.search(why, line(call("suspend", keeper.pid), 1)), (words, before)
            assert keeper.is_well() and not notes()
    assert "does not use CUDA" in line(call("suspend", os.getpid()), 1)
    with Keeper(10, before=[CUSHIM, "run"], CUSHIM_SIM_SHARED=str(scratch / "other")) as keeper:
        assert "--shared=FILE" in line(call("suspend", keeper.pid), 1)
    assert "no process 999999999" in line(call("suspend", 999999999), 1)
    assert "no process nobody-has-this-name" in line(call("resume", "nobody-has-this-name"), 1)
    assert "needs a process" in line(call("suspend"), 2)
    with Keeper(10) as keeper:
        keeper.process.send_signal(signal.SIGSTOP)
        while "T" not in open(f"/proc/{keeper.pid}/stat").read().rpartition(")")[2].split()[0]:
            time.sleep(0.01)
        assert "is stopped" in line(call("suspend", keeper.pid), 1)
        keeper.process.send_signal(signal.SIGCONT)
        assert keeper.is_well()
        old = scratch / "old" / "libcuda.so.1"
        old.parent.mkdir()
        build("old/libcuda.so.1", "-shared", "-fPIC", source="int cuInit(unsigned flags) { return flags; } int cuGetErrorName(int e, const char **n) { return e || n; }")
        assert "driver is too old" in line(call("suspend", keeper.pid, LD_LIBRARY_PATH=str(old.parent)), 1)
    assert not notes()


@tap.test
def a_process_of_another_user_is_left_alone():
    other = ["setpriv", "--reuid=65534", "--clear-groups"]
    if os.geteuid() or not shutil.which("setpriv") or subprocess.run([*other, CUSHIM, "--version"], capture_output=True).returncode:
        tap.skip("no other user can run what was built")
    own = scratch / "others-pages"
    own.mkdir(mode=0o700)
    os.chown(own, 65534, -1)
    os.chmod(scratch, 0o755)
    with Keeper(10) as keeper:
        for command in "suspend", "resume":
            said = line(call(command, keeper.pid, before=other, CUSHIM_LIVE_DIR=str(own)), 1)
            assert "not permitted, because it is another user's" in said, said
        assert keeper.is_well() and not notes()


@tap.test
def host_memory_is_looked_at_before():
    huge = {"CUSHIM_SIM_SHARED": str(scratch / "huge"), "CUSHIM_SIM_MEMORY": "1T", "CUSHIM_SIM_UNBACKED": "1"}
    keeper = subprocess.Popen([KEEPER, "900000", "untouched"], env={**environment(), **huge}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keeper.stdout.readline() == "ready\n"
    done = subprocess.run([CUSHIM, "suspend", str(keeper.pid)], env={**environment(), **huge}, text=True, capture_output=True, timeout=60)
    assert "not enough host memory, because it has 879 GiB on GPUs" in line(done, 1), done
    keeper.communicate("")


def start_run(*words, **more):
    return subprocess.Popen([CUSHIM, "run", *map(str, words)], env=environment(**more), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)


def parent_of(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        return None  # it has ended


@tap.test
def a_run_has_the_memory_and_gives_it_back_however_it_ends():
    with Keeper(200) as keeper:
        suspend = f"--suspend={keeper.pid}"
        for program, code in (["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -SEGV $$"], -signal.SIGSEGV), (["/nowhere/at-all"], 127):
            done = call("run", suspend, "--", *program)
            assert done.returncode == code and "is suspended: 200 MiB" in done.stderr and "goes on: 200 MiB" in done.stderr, done
            assert keeper.is_well()
        needs = call("run", suspend, "--", "sh", "-c", f"echo | {KEEPER} 200")
        assert needs.stdout == "ready\nwell\n", needs
        assert keeper.is_well()

        run = start_run(suspend, "--", "sh", "-c", "echo up; exec sleep 100")
        assert run.stdout.readline() == "up\n"
        os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C does
        assert run.wait(60) == -signal.SIGINT and keeper.is_well()

        run = start_run(suspend, "--", "sh", "-c", "echo $$; exec sleep 100")
        program = int(run.stdout.readline())
        run.kill()
        run.wait()
        keeper.asks()
        time.sleep(0.3)
        assert "susp" in call("stat").stdout  # the program still has the GPU
        os.kill(program, signal.SIGKILL)
        assert keeper.process.stdout.readline() == "well\n"

        run = start_run(suspend, "--", "sh", "-c", "echo $$; exec sleep 100")
        program = int(run.stdout.readline())
        children = {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == run.pid}
        for child in children - {program}:  # who watches the one that watches
            os.kill(child, signal.SIGKILL)
        os.kill(program, signal.SIGKILL)
        assert "goes on: 200 MiB" in run.communicate(timeout=60)[1] and keeper.is_well()

        with Keeper(10, "managed") as unfit:
            done = call("run", f"--suspend={keeper.pid},{unfit.pid}", "--", "echo", "up")
            assert done.returncode == 125 and "up" not in done.stdout and "goes on: 200 MiB" in done.stderr, done
            assert keeper.is_well() and unfit.is_well()

        with Keeper(10) as other:  # what somebody else suspended stays so
            assert call("suspend", other.pid).returncode == 0
            done = call("run", f"--suspend={keeper.pid},{other.pid}", "--", "echo", "up")
            assert done.returncode == 125 and "up" not in done.stdout and "is suspended already" in done.stderr, done
            assert f"process {other.pid} (keeper) goes on" not in done.stderr and keeper.is_well(), done
            assert call("resume", other.pid).returncode == 0 and other.is_well()
        assert "--no-wait does not" in line(call("run", suspend, "--no-wait", "--", "true"), 2)


@tap.test
def idle_processes_are_those_that_made_no_call_for_a_minute():
    with Keeper(50, before=[CUSHIM, "run"]) as keeper:
        assert "no process is idle" in call("run", "--suspend=idle", "--", "true").stderr
        later = ["unshare", "--user", "--map-root-user", "--time", "--monotonic", "100", "--fork"]
        if not shutil.which("unshare") or subprocess.run([*later, "true"], capture_output=True).returncode:
            tap.skip("no clock of its own for a process here")
        done = call("run", "--suspend=idle", "--", "true", before=later)
        assert done.returncode == 0 and f"process {keeper.pid} (keeper) goes on: 50.0 MiB" in done.stderr, done
        assert keeper.is_well()
        assert call("suspend", keeper.pid).returncode == 0
        done = call("run", "--suspend=idle", "--", "echo", "up", before=later)
        assert done.returncode == 0 and done.stdout == "up\n" and "no process is idle" in done.stderr, done
        assert call("resume", keeper.pid).returncode == 0 and keeper.is_well()


@tap.test
def kills_at_any_moment_leave_no_process_stuck_and_lose_nothing():
    chance = random.Random(20)
    keeper, n_targets = Keeper(20), 0
    try:
        for i in range(KILLS):
            tool = subprocess.Popen([CUSHIM, *chance.choice((["suspend", str(keeper.pid)], ["resume", str(keeper.pid)],
                                                             ["run", f"--suspend={keeper.pid}", "--", "true"]))],
                                    env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(chance.random() * 0.06)
            if chance.random() < 0.1:
                keeper.process.kill()
                for said in tool.communicate(timeout=60)[1].splitlines():
                    assert re.search(r"has ended|no process|is suspended: |is not suspended$|goes on: ", said), said
                keeper.process.communicate()
                assert "no process" in line(call("resume", keeper.pid), 1)
                keeper, n_targets = Keeper(20), n_targets + 1
                continue
            tool.kill()
            tool.communicate()
            keeper.asks()
            while "another command" in (said := call("resume", keeper.pid)).stderr:
                time.sleep(0.01)  # the child that watches over a run
            assert "goes on" in said.stderr or "is not suspended" in said.stderr, said
            assert keeper.process.stdout.readline() == "well\n", i
    finally:
        keeper.process.kill()
        keeper.process.communicate()
    call("stat")  # forgets the dead
    assert not notes(), notes()
    with Keeper(256) as all_of_it:
        assert all_of_it.is_well()
    assert n_targets or KILLS < 50


tap.run()
