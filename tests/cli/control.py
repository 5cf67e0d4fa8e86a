"""`cushim trim`, and the thread of `cushim run --control`.

    control.py CUSHIM PRELOAD SIM_FOLDER KEEPER CC...

KEEPER is keeper.c.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

KEEPER = os.path.abspath(sys.argv.pop(4))

from fixture import CUSHIM, tap  # noqa: E402
from live_fixture import device, environment, run, stat  # noqa: E402


class Keeper:
    def __init__(self, kind, *options, mib=20, reserve="1G"):
        self.process = subprocess.Popen([CUSHIM, "run", *options, "--", KEEPER, str(mib), kind], env=environment(CUSHIM_RESERVE=reserve), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()

    def threads(self):
        """The names of its threads, and their masks of blocked signals."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return {re.search(r"Name:\s(.*)", text)[1]: int(re.search(r"SigBlk:\s(.*)", text)[1], 16) for text in
                ((task / "status").read_text() for task in tasks)}

    def held(self):
        return device(json.loads(stat("--json", str(self.pid)).stdout))["held_bytes"]

    def end(self, code=0):
        self.process.stdin.close()
        assert self.process.wait(60) == code, self.process.stderr.read()
        return self.process.stderr.read()


def trim(*words, lines=1):
    done = subprocess.run([CUSHIM, "trim", *map(str, words)], env=environment(), text=True, capture_output=True, timeout=60)
    assert done.stderr.count("\n") == lines, done
    return done.returncode, done.stderr


@tap.test
def a_process_with_the_thread_gives_back_while_it_makes_no_call():
    keeper = Keeper("freed", "--control")
    mask = keeper.threads()["cushim-control"]
    blocked = {number for number in range(1, 65) if mask >> number - 1 & 1}
    assert blocked >= set(range(1, 65)) - {signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL, signal.SIGSTOP, 32, 33}, hex(mask)
    assert keeper.held() >= 20 << 20
    code, said = trim(keeper.pid)
    assert code == 0 and f"process {keeper.pid} (keeper) gave back 20.0 MiB" in said and keeper.held() == 0, said
    code, said = trim("keeper")  # again, by its name
    assert code == 0 and "gave back 0 B" in said, said
    assert keeper.end() == ""


@tap.test
def the_thread_gives_back_what_nothing_asks_for():
    keeper, deadline = Keeper("freed", "--control", mib=100, reserve="0"), time.monotonic() + 60
    while keeper.held():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    keeper.end()


@tap.test
def one_without_it_does_so_at_a_later_call_and_has_no_thread_of_ours():
    keeper = Keeper("freed")
    assert not any("cushim" in name for name in keeper.threads())
    code, said = trim(keeper.pid)
    assert code == 0 and "at its next synchronisation" in said, said
    assert keeper.held() >= 20 << 20
    keeper.process.stdin.write("\n")
    keeper.process.stdin.flush()
    assert keeper.process.stdout.readline() == "well\n"
    assert keeper.held() == 0 and keeper.end() == ""


@tap.test
def the_thread_keeps_no_process_alive():
    done = run("--control", "--", KEEPER, "1", "leaves")  # its main thread ends, and no other one is its own
    assert done.returncode == 0 and done.stdout == "ready\n", done
    for how in "device", "freed":
        Keeper(how, "--control").end()


@tap.test
def a_forked_child_has_its_own():
    parent = Keeper("forks", "--control")
    code, said = trim("keeper", lines=2)
    assert code == 0 and "gave back 20.0 MiB" in said and f"process {parent.pid} (keeper) gives back" in said, said
    assert not any("cushim" in name for name in parent.threads())
    parent.end()


@tap.test
def a_refused_thread_is_one_line():
    done = run("--control", "--", KEEPER, "1", "sealed")
    if done.returncode == 95:
        tap.skip("no filter of calls here")
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "no thread, so requests wait for the next call" in done.stderr, done


@tap.test
def a_process_that_ends_meanwhile_is_told():
    keeper = Keeper("freed", "--control")
    keeper.process.send_signal(signal.SIGSTOP)
    while any(") T" not in (task / "stat").read_text() for task in pathlib.Path(f"/proc/{keeper.pid}/task").iterdir()):
        time.sleep(0.01)
    asking = subprocess.Popen([CUSHIM, "trim", str(keeper.pid)], env=environment(), text=True, stderr=subprocess.PIPE)
    time.sleep(0.3)
    keeper.process.kill()
    said = asking.communicate(timeout=60)[1]
    assert said in (f"cushim: process {keeper.pid} (keeper) has ended\n", f"cushim: no live page of {keeper.pid}; `cushim run` starts a program with one\n"), said  # if it began too late
    assert asking.returncode == 1
    keeper.process.wait()


@tap.test
def what_is_not_there_is_said():
    assert trim("nobody-has-this-name") == (1, "cushim: no live page of nobody-has-this-name; `cushim run` starts a program with one\n")
    assert trim()[0] == 2


tap.run()
