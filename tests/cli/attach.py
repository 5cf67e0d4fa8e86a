"""`cushim record --pid` and `cushim snapshot`: recordings of a program that runs already.

    attach.py CUSHIM PRELOAD SIM_FOLDER MEMBER KILLS CC...

MEMBER is member.c, KILLS how many commands are killed at a random moment, or TEST_KILLS of the environment.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

MEMBER, KILLS = pathlib.Path(sys.argv.pop(4)).resolve(), int(os.environ.get("TEST_KILLS", sys.argv.pop(4)))

from fixture import CUSHIM, scratch, tap, valid  # noqa: E402
from live_fixture import environment  # noqa: E402


class Member:
    def __init__(self, *options):
        self.process = subprocess.Popen([CUSHIM, "run", *options, "--", MEMBER], env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in self.process.stdin, self.process.stdout, self.process.stderr:
            stream.close()

    def ask(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            assert answer in ("had\n", "done\n"), (line, answer)


def call(*words):
    return subprocess.run([CUSHIM, *map(str, words)], env=environment(), text=True, capture_output=True, timeout=60, cwd=scratch)


def start(*words):
    """A command, and its first line."""
    process = subprocess.Popen([CUSHIM, *map(str, words)], env=environment(), text=True, stderr=subprocess.PIPE, cwd=scratch)
    return process, process.stderr.readline()


def stopped(process):
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    return said


def summary(name):
    """A recording, in which nothing is missing; and its device memory."""
    done = call("report", "--format=json", name)
    assert done.returncode == 0, done
    (report,) = json.loads(done.stdout)
    assert not any(report[name] for name in ("lost", "damaged", "strange", "foreign", "disorder")), report
    return valid(report), *[memory for memory in report["memory"] if memory["memory"] == "device 0"]


@tap.test
def a_recording_says_what_lived_before_and_what_came_after():
    with Member("--control", "--sites=1") as member:
        member.ask("mapped 6", "async 4", "alloc 3", "alloc 5", "alloc 2")
        recorder, said = start("record", "--pid", member.pid, "-o", "late")
        assert said == f"cushim: process {member.pid} (member) is recorded into late; Ctrl-C ends it\n"
        member.ask("free", "alloc 7", "alloc 9", "free", "free", "free", "alloc 1")
        assert re.search(r"late: 1 process, \d+ events", stopped(recorder))
        member.ask("alloc 8", "free")  # nobody sees it
        report, memory = summary("late")
        assert report["end"] == "the process ran on"
        assert (memory["blocks_before"], memory["bytes_before"]) == (5, 20 << 20) and memory["requests"] == 3, memory
        assert memory["peak_live_bytes"] == 34 << 20 and (memory["live_blocks"], memory["live_bytes"]) == (4, 14 << 20), memory
        assert all(site["stack"][0]["function"] == "take" and not site["grows"] for site in memory["sites"]), memory
        assert sum(site["frees"] for site in memory["sites"]) == 2, memory  # of requests in it
        text = call("report", "late").stdout
        assert "before    5 blocks, 20.0 MiB lived when the recording began" in text and "leak" not in text, text
        for words in (["report", "--format=html", "-o", "late.html", "late"], ["report", "--format=pprof", "-o", "late.pb", "late"], ["replay", "late"]):
            assert call(*words).returncode == 0, words
        before, said = start("record", f"--pid={member.pid}", "--for=1s")  # again, while nothing happens
        assert before.wait(60) == 0 and f"member.{member.pid}.cushim" in said, said
        assert summary(f"member.{member.pid}.cushim")[1]["blocks_before"] == 4


@tap.test
def a_snapshot_has_what_lives_and_two_can_be_compared():
    with Member("--control") as member:
        member.ask("alloc 3", "alloc 5")
        done = call("snapshot", "-o", "first", "member")
        assert done.returncode == 0 and re.fullmatch(r"cushim: first: 1 process, \d+ events, .*\n", done.stderr), done
        member.ask("alloc 12", "alloc 12")
        for i, name in enumerate([f"member.{member.pid}.cushim", f"member.{member.pid}-2.cushim"]):
            assert call("snapshot", member.pid).returncode == 0
            report, memory = summary(name)
            assert memory["blocks_before"] == memory["live_blocks"] == 4 and memory["requests"] == 0, memory
            assert memory["peak_held_bytes"] >= memory["live_bytes"] == 32 << 20, memory
            (site,) = memory["sites"]
            assert not site["stack"] and not site["grows"], site
        done = call("diff", "first", f"member.{member.pid}.cushim")
        assert done.returncode == 0 and re.search(r"live.* 8\.00 MiB +32\.0 MiB", done.stdout), done


@tap.test
def without_the_thread_it_begins_at_a_synchronisation():
    with Member() as member:
        member.ask("alloc 3")
        for words in ["record", "--pid", member.pid], ["snapshot", member.pid]:
            recorder, said = start(*words, "-o", words[0] + "-later")
            assert said.endswith("at its next synchronisation, synchronous copy or query of free memory; with `cushim run --control` at once\n"), said
            member.ask("alloc 4", "wait")
            if words[0] == "record":
                assert "is recorded into" in recorder.stderr.readline()
                member.ask("free", "alloc 5")
                stopped(recorder)
                member.ask("alloc 6", "free")
            else:
                assert recorder.wait(60) == 0
        assert summary("record-later")[1]["blocks_before"] == 2 and summary("record-later")[1]["requests"] == 1
        assert summary("snapshot-later")[1]["bytes_before"] == 12 << 20
        recorder, said = start("record", "--pid", member.pid)
        recorder.terminate()
        assert recorder.wait(60) == 1 and recorder.communicate()[1] == ""


@tap.test
def what_goes_wrong_is_one_line():
    with Member("--control") as member:
        member.ask("alloc 3")
        recorder, _ = start("record", "--pid", member.pid, "-o", "busy")
        for words, code, said in (((f"--pid={member.pid}",), 1, f"process {member.pid} (member) is being recorded by another command"),
                                  (("--pid=0",), 1, "no live page of 0"), (("--pid=1", "true"), 2, "takes --pid or a program"),
                                  (("--pid=1", "--for=3x"), 2, "--for=3x is not a time"), (("--for=3s", "true"), 2, "--for goes with --pid"),
                                  (("--pid=1", "--stacks=none"), 2, "--stacks=none goes with a program"), ((), 2, "record needs a program")):
            done = call("record", *words)
            assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1, done
        member.process.kill()
        said = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 0 and said.startswith(f"cushim: process {member.pid} (member) has ended\ncushim: busy: 1 process"), said
        assert summary("busy")[1]["blocks_before"] == 1
    file = scratch / "of-another"
    file.mkdir()
    with Member("--control", f"--trace={file}") as member:
        member.ask("alloc 3")
        done = call("record", "--pid", member.pid, "-o", "twice")
        assert done.returncode == 1 and done.stderr == f"cushim: process {member.pid} (member) is recorded already, from its start on\n", done
        assert not (scratch / "twice").exists()
        done = call("record", "--pid", member.pid, "-o", "long" * 60 + "/" + "long" * 60)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done


@tap.test
def no_event_of_a_crowd_is_told_twice_or_missing():
    draw = random.Random(3)
    with Member("--control", "--limit=1G") as member:
        n_requests = 0
        member.ask("alloc 3", "crowd")
        for i in range(8):
            recorder, said = start("record", "--pid", member.pid, "-o", f"crowd-{i}")
            assert "is recorded" in said, said
            time.sleep(draw.random() * 0.4)
            stopped(recorder)
            memory = summary(f"crowd-{i}")[1]
            assert 1 <= memory["blocks_before"] <= 65 and 1 <= memory["live_blocks"] <= 65, memory
            n_requests += memory["requests"]
        member.ask("wait")  # without them
        assert n_requests > 100
        assert call("snapshot", "-o", "alone", member.pid).returncode == 0
        assert summary("alone")[1]["live_blocks"] == 1


@tap.test
def kills_at_random_moments_leave_no_process_stuck_and_no_account_wrong():
    draw = random.Random(7)
    with Member("--control", "--limit=200M") as member:
        for i in range(KILLS):
            member.ask("alloc 30", "crowd")
            tool = subprocess.Popen([CUSHIM, *draw.choice((["record", "--pid", member.pid, "-o", f"kill-{i}"], ["snapshot", member.pid, "-o", f"kill-{i}"],
                                                           ["limit", member.pid, f"{150 + i % 50}M"], ["trim", member.pid]))],
                                    env=environment(), stderr=subprocess.DEVNULL, cwd=scratch)
            time.sleep(draw.random() * 0.05)
            tool.kill()
            tool.wait()
            member.ask("free")
        deadline = time.monotonic() + 120
        while "by another command" in (done := call("snapshot", "-o", "last", member.pid)).stderr:  # for as long as a killed one had asked
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert done.returncode == 0 and call("limit", member.pid, "100M").returncode == 0, done
        member.ask("alloc 99", "free", "wait")
        assert call("snapshot", "-o", "end", member.pid).returncode == 0
        maps = pathlib.Path(f"/proc/{member.pid}/maps").read_text()
        assert maps.count(".trace") <= 2, maps  # the head of the last one, and what its thread wrote last
        member.process.stdin.write("alloc 101\n")
        member.process.stdin.close()
        assert member.process.stdout.readline() == "refused\n" and member.process.wait(60) == 0


tap.run()
