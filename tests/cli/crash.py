"""Where programs end otherwise than on a quiet machine: in a container, at a terminal, sealed, without files, in crowds.

    crash.py CUSHIM PRELOAD SIM_FOLDER LIVE PROCESSES CC...

LIVE is live.c, PROCESSES how many run at once.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

LIVE, PROCESSES = os.path.abspath(sys.argv.pop(4)), int(sys.argv.pop(4))

from fixture import CUSHIM, SIM, scratch, tap  # noqa: E402

N_KEPT = 3
folder = scratch / "live"
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **more}


def run(*words, before=(), **more):
    return subprocess.run([*before, CUSHIM, "run", *words], env=environment(**more), text=True, capture_output=True, timeout=120)


def pages():
    return sorted(folder.glob("*.page")) if folder.exists() else []


def requests(file):
    return json.loads(file.read_text())["devices"][0]["kinds"]["device"]["requests"]


@tap.test
def the_first_process_of_a_container_reports_and_reaps():
    container = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*container, "true"], capture_output=True).returncode:
        tap.skip("no namespaces here")
    for how, code in ("exit", 4), ("signal9", 137), ("orphan", 4):
        file = scratch / f"container-{how}.json"
        result = run(f"--stats={file}", LIVE, how, before=container)
        # a signal that the first process of a namespace sends itself does nothing: then it says so by its status
        assert result.returncode == code and requests(file) == N_KEPT and not pages(), (how, result)


def read_until(terminal, wanted, seconds=60):
    text, deadline = "", time.monotonic() + seconds
    while not re.search(wanted, text):
        ready, _, _ = select.select([terminal], [], [], max(deadline - time.monotonic(), 0))
        assert ready, (wanted, text)
        text += os.read(terminal, 4096).decode(errors="replace")
    return text


def wait_for_foreground_job(terminal, shell, seconds=60):
    """Until what is typed reaches the job: `fg` prints its line before that."""
    deadline = time.monotonic() + seconds
    while os.tcgetpgrp(terminal) == shell:
        assert time.monotonic() < deadline, "the shell keeps the terminal"
        time.sleep(0.01)


@tap.test
def a_terminal_stops_and_ends_it_as_any_program():
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment(PS1="$ ", HISTFILE="/dev/null", TERM="dumb"))
    try:
        read_until(terminal, r"\$ ")
        os.write(terminal, f"{CUSHIM} run --stats {LIVE} pause\n".encode())
        read_until(terminal, r"ready\r\n")
        os.write(terminal, b"\x1a")
        read_until(terminal, r"Stopped")
        os.write(terminal, b"echo still $((40 + 2)); fg\n")
        read_until(terminal, r"still 42\r\n(.|\n)*pause\r\n")
        wait_for_foreground_job(terminal, process)
        os.write(terminal, b"\x03")
        text = read_until(terminal, r"verdict(.|\n)*\$ ")
        assert "ended by SIGINT" in text and " 3 requests" in text, text
        os.write(terminal, b"echo status $?\n")
        read_until(terminal, r"status 130\r\n")
        assert not pages(), pages()
    finally:
        os.write(terminal, b"exit\nexit\n")
        os.close(terminal)
        os.waitpid(process, 0)


@tap.test
def a_program_that_may_open_nothing_runs_on():
    for how, code in ("no_files", 4), ("sealed", 4):
        plain = subprocess.run([LIVE, how], env=environment(), text=True, capture_output=True, timeout=60)
        if plain.returncode != code:
            tap.skip(f"{how}: the program itself ends with {plain.returncode} here")
        for more in ({}, {"CUSHIM_FREE": "relaxed"}, {"CUSHIM_TRACE": str(scratch / f"trace-{how}")}, {"CUSHIM_CHECK": "full"}):
            file = scratch / f"{how}.json"
            file.unlink(missing_ok=True)
            result = run(f"--stats={file}", LIVE, how, **more)
            assert result.returncode == code and result.stderr.count("\n") <= 2 + len({"CUSHIM_TRACE", "CUSHIM_CHECK"} & more.keys()), (how, more, result)
            if how == "no_files":
                assert requests(file) == N_KEPT, (how, more)
            assert not pages(), pages()


@tap.test
def a_program_that_becomes_itself_100_times_leaves_each_report():
    file = scratch / "again.txt"
    result = run(f"--stats={file}", LIVE, "exec100")
    text = file.read_text()
    assert result.returncode == -9 and text.count("read from its live page") == text.count(" 3 requests") == 101, (result, text.count("read from"))
    assert not pages(), pages()


@tap.test
def each_of_many_processes_at_once_has_its_report():
    ends = ("exit", "_exit", "signal9", "signal11", "exec")
    script = "".join(f"{LIVE} {ends[i % len(ends)]} & " for i in range(PROCESSES))
    result = run(f"--stats={scratch}/many-%p.json", "bash", "-c", f"{script} wait")
    found = list(scratch.glob("many-*.json"))
    assert result.returncode == 0 and len(found) == PROCESSES and all(requests(file) == N_KEPT for file in found), (result, len(found))
    assert not pages(), pages()


tap.run()
