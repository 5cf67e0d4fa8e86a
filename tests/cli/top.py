"""`cushim top` in a terminal: what it shows, how it follows keys and sizes, and that it leaves all as it was.

    top.py CUSHIM PRELOAD SIM_FOLDER LIVE HOLDER CC...
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

LIVE, HOLDER = sys.argv.pop(4), sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, SIM, scratch, tap  # noqa: E402

signal.signal(signal.SIGHUP, signal.SIG_DFL)
folder = scratch / "live"


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k not in ("LD_PRELOAD", "TMUX", "RANK", "LC_ALL")}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "LC_ALL": "C.UTF-8", **more}


def cushim(*words, **more):
    return subprocess.run([CUSHIM, *map(str, words)], env=environment(**more), text=True, capture_output=True)


def started():
    process = subprocess.Popen([CUSHIM, "run", LIVE, "pause"], env=environment(), text=True, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    return process


FAMILY = """
import ctypes, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, small, large = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)
cuda.cuMemAlloc_v2(ctypes.byref(small), ctypes.c_size_t(1000))
child = subprocess.Popen(["sh", "-c", '"$0" pause & echo $!; wait', sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="", flush=True)
print(child.stdout.readline(), end="", flush=True)
sys.stdin.readline()
cuda.cuMemAlloc_v2(ctypes.byref(large), ctypes.c_size_t(64 << 20))
sys.stdin.readline()
cuda.cuDevicePrimaryCtxReset_v2(device)
sys.stdin.readline()
"""


class Terminal:
    """A shell in a terminal of its own, with this many columns and rows."""

    n = 0  # each has a server of its own: one that was told to go may answer the next once more

    def __init__(self, columns=80, rows=24):
        if not shutil.which("tmux"):
            tap.skip("no tmux here")
        Terminal.n += 1
        self.socket = scratch / f"tmux{Terminal.n}"
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, "env", "PS1=shell> ", "sh")
        self.tmux("set-option", "-g", "window-size", "manual")
        self.wait("shell>")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *map(str, words)], env=environment(TERM="xterm-256color"),
                              text=True, capture_output=True)
        assert done.returncode == 0, done
        return done.stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.keys("Enter")

    def shown(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern, n_looks=3000):
        """What is shown when it has the pattern.  Looks are counted, not seconds: on a busy machine each takes longer, too."""
        for _ in range(n_looks):
            text = self.shown()
            if re.search(pattern, text, re.MULTILINE):
                return text
            time.sleep(0.02)
        raise AssertionError(f"{pattern} does not come:\n{text}")

    def wait_for_program(self):
        """Until a program other than the shell has the terminal, so that it gets what is typed, and none is stopped."""
        for _ in range(3000):
            name, tty = self.tmux("display-message", "-p", "#{pane_current_command} #{pane_tty}").split()
            states = subprocess.run(["ps", "-t", tty, "-o", "stat="], text=True, capture_output=True).stdout
            if name != "sh" and "T" not in states:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} has the terminal:\n{states}{self.shown()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


HEADS = r"^ process  program        dev      live      held     spare"


@tap.test
def a_table_is_drawn_in_every_size():
    process = started()
    row = rf"^ *{process.pid}  live             0  2\.93 KiB  2\.00 MiB  2\.00 MiB"
    try:
        with Terminal() as terminal:
            terminal.type(f"{CUSHIM} top --every=0.1")
            text = terminal.wait(row)
            assert text.startswith("cushim top  ") and re.search(HEADS, text, re.MULTILINE) and "q quit" in text, text
            for columns, rows in ((60, 20), (200, 50), (80, 24), (20, 4)):
                terminal.tmux("resize-window", "-x", columns, "-y", rows)
                # the bars fill what is left of the line, or are not there
                text = terminal.wait(rf"{row}.*[▁-█]{{6}}$" if columns >= 80 else rf"^ *{process.pid}")
                lines = text.rstrip("\n").splitlines()
                assert all(len(line) <= columns for line in lines) and len(lines) <= rows, (columns, rows, text)
            terminal.keys("q")
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")


@tap.test
def keys_sort_choose_show_and_pause():
    processes = [started(), started()]
    first, second = (str(process.pid) for process in processes)
    try:
        with Terminal() as terminal:
            terminal.type(f"{CUSHIM} top --every=0.1")
            for name in ("held", "live", "requests/s", "process"):
                terminal.wait(f"by {name}, ")
                terminal.keys("s")
            terminal.keys("p")
            terminal.wait("paused")
            terminal.keys("p")
            terminal.wait(r"every 0\.1 s  \d\d:\d\d:\d\d$")
            terminal.keys("Down")
            terminal.keys("Enter")
            text = terminal.wait("enter back")
            assert f"live, process {second}, " in text and "verdict:" in text, text
            terminal.keys("Enter")
            terminal.wait("s sort")
            terminal.keys("Up", "Up", "Enter")
            terminal.wait(f"live, process {first}, ")
            processes[0].kill()
            terminal.keys("Enter")
            terminal.wait(rf"^ *{first} .*ended$")
            terminal.keys("q")
            terminal.wait("shell> *$")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        cushim("stat", "--clean")


@tap.test
def peaks_are_forgotten():
    script = scratch / "family.py"
    script.write_text(FAMILY)
    parent = subprocess.Popen([CUSHIM, "run", sys.executable, script, LIVE], env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child, = (int(line) for line in (parent.stdout.readline(), parent.stdout.readline()) if line != "ready\n")  # in any order
    try:
        with Terminal(columns=120) as terminal:
            terminal.type(f"{CUSHIM} top --every=0.1")
            terminal.wait(rf"^ *{parent.pid} .* 0\.0  2\.00 MiB  ")
            terminal.wait(rf"^ *{child}  live ")
            print("more", file=parent.stdin, flush=True)
            terminal.wait(rf"^ *{parent.pid} .* 0\.0  66\.0 MiB  ")
            print("less", file=parent.stdin, flush=True)
            terminal.wait(rf"^ *{parent.pid}  python\S* +0 +0 B +0 B .* 0\.0  66\.0 MiB  ")
            terminal.keys("r")
            terminal.wait(rf"^ *{parent.pid}  python\S* +0 +0 B +0 B .* 0\.0 +0 B  ")
            terminal.keys("q")
            terminal.wait("shell> *$")
    finally:
        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.communicate()
        cushim("stat", "--clean")


NVML = r"""
struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { *device = (void *)uuid; return uuid[0] != 'G' || uuid[3] != '-'; }
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    (void)device;
    *memory = (struct memory){80ull << 30, 60ull << 30, 20ull << 30};
    return 0;
}
"""


@tap.test
def devices_have_a_line_and_nvml_says_how_large_they_are():
    process = started()
    library = fixture.build("libnvidia-ml.so.1", "-shared", "-fPIC", source=NVML)
    try:
        with Terminal() as terminal:
            terminal.type(f"LD_LIBRARY_PATH= {CUSHIM} top --every=0.1")  # the software device has an NVML
            terminal.wait(r"^dev 0  cushim software device       held  2\.00 MiB by 1 process$")
            terminal.keys("d")
            text = terminal.wait(rf"^cushim top .*\n\n{HEADS[1:]}")
            assert "dev 0" not in text, text
            terminal.keys("d")
            terminal.wait("^dev 0 ")
            terminal.keys("f")
            terminal.wait(r"live, process \d+\n  nothing was found, and each request found memory")
            terminal.keys("f")
            terminal.wait("s sort")
            terminal.tmux("resize-window", "-x", 80, "-y", 8)  # processes come first
            text = terminal.wait(rf"^ *{process.pid} ")
            terminal.tmux("resize-window", "-x", 80, "-y", 24)
            terminal.keys("q")
            terminal.wait("shell> *$")
            terminal.type(f"LD_LIBRARY_PATH={library.parent}:{SIM} {CUSHIM} top --every=0.1")
            text = terminal.wait(r"^dev 0  cushim soft held  2\.00 MiB of  80\.0 GiB  others  20\.0 GiB  free  60\.0 GiB$")
            assert all(len(line) <= 80 for line in text.splitlines()), text
            terminal.keys("q")
            terminal.wait("shell> *$")
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")


COUNTING = NVML + r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = 0; return (int)index; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, void *processes) {
    (void)device, (void)processes;
    int file = open(getenv("TEST_CALLS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    *n = 0;
    return write(file, "1", 1) != 1 || close(file);
}
"""


@tap.test
def nvml_is_asked_once_a_look_and_not_for_each_process():
    (scratch / "counting").mkdir()
    library, calls = fixture.build("counting/libnvidia-ml.so.1", "-shared", "-fPIC", source=COUNTING), scratch / "calls"
    processes = [started(), started(), started()]
    try:
        for words, n_looks in ((["top", "--once"], 2), (["metrics"], 1)):  # rates need two
            calls.unlink(missing_ok=True)
            result = cushim(*words, LD_LIBRARY_PATH=f"{library.parent}:{SIM}", TEST_CALLS=str(calls))
            assert all(str(process.pid) in result.stdout for process in processes), result
            assert calls.read_text() == "1" * n_looks, (words, calls.read_text())
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        cushim("stat", "--clean")


@tap.test
def the_terminal_is_as_it_was_whatever_ends_it():
    process = started()
    try:
        with Terminal() as terminal:
            for i, (end, code) in enumerate((("q", 0), ("C-c", 130), ("TERM", 143), ("HUP", 129), ("C-\\", 131))):
                terminal.type(f"clear; echo before; stty -g > {scratch / 'stty1'}")  # paths may fill lines: the screen is empty for each
                terminal.wait("^before")
                terminal.type(f"{CUSHIM} top --every=0.1")
                terminal.wait(HEADS)
                if end in ("TERM", "HUP"):
                    number = terminal.tmux("list-panes", "-F", "#{pane_pid}").strip()
                    child, = children(number)
                    os.kill(child, getattr(signal, "SIG" + end))
                else:
                    terminal.keys(end)
                terminal.wait(r"shell> *\n*\Z")
                terminal.type(f"echo ended-{i} $?; stty -g > {scratch / 'stty2'}")
                # behind a prompt where a slow shell prints that after what was typed
                text = terminal.wait(rf"^(?:shell> )?ended-{i} {code}\n(?:.*\n)*?shell> *$")
                assert "before" in text and "q quit" not in text and not re.search(HEADS, text, re.MULTILINE), (end, text)
                assert (scratch / "stty1").read_text() == (scratch / "stty2").read_text(), end
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")


def children(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(word) for word in file.read().split()]


@tap.test
def who_stops_it_has_the_shell_and_comes_back():
    process = started()
    try:
        with Terminal() as terminal:
            terminal.type("set -m; echo before")
            terminal.wait("^before")
            for _ in range(2):
                terminal.type(f"{CUSHIM} top --every=0.1")
                terminal.wait(HEADS)
                terminal.keys("C-z")
                text = terminal.wait(r"^(shell> )?\[1\].*Stopped")  # behind a prompt, if what was typed came before it
                assert "before" in text and "q quit" not in text, text
                terminal.type("echo echoed")
                terminal.wait("^echoed")
                terminal.type("fg")
                terminal.wait(HEADS)
                terminal.keys("q")
                terminal.wait(r"shell> *$")
                terminal.type("clear; echo before")
                terminal.wait("^before")
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")


@tap.test
def who_waits_for_a_program_stops_and_goes_on_with_it():
    with Terminal() as terminal:
        terminal.type("set -m; clear")
        terminal.type(f"{CUSHIM} run --stats {LIVE} pause")
        terminal.wait(r"\bready$")  # behind a prompt, if the shell was first
        for turn in range(2):
            terminal.wait_for_program()
            terminal.keys("C-z")
            terminal.wait(r"^(\^Z)?\[1\].*Stopped")
            terminal.type(f"clear; echo {turn} tur''ns")  # what is typed is shown, too, and is not what is waited for
            terminal.wait(rf"\b{turn} turns$")
            terminal.type("fg")
        terminal.wait_for_program()
        terminal.keys("C-c")
        terminal.wait("ended by SIGINT; read from its live page")
    assert not list(folder.glob("*.page"))


@tap.test
def more_rows_than_lines_are_gone_through():
    cushim("run", LIVE, "signal9")
    page, = folder.glob("*.page")
    for i in range(40):  # of numbers that no process has
        shutil.copy(page, folder / f"{4195000 + i}-1.page")
    try:
        with Terminal() as terminal:
            terminal.type(f"{CUSHIM} top --every=0.1")
            text = terminal.wait("rows 1 to 19 of 41")
            assert text.count(" live ") == 20, text  # and the head
            terminal.keys(*["Down"] * 45)
            terminal.wait("rows 23 to 41 of 41")
            terminal.keys(*["Up"] * 45)
            terminal.wait("rows 1 to 19 of 41")
            terminal.keys("q")
    finally:
        cushim("stat", "--clean")


@tap.test
def without_a_screen_it_prints():
    process = started()
    try:
        for words in ([], ["--once"]):
            result = cushim("top", *words, TERM="xterm")
            lines = result.stdout.splitlines()
            assert result.returncode == 0 and len(lines) == 2 and "\033" not in result.stdout, result
            assert all(len(line) <= 80 for line in lines) and lines[1].split()[:2] == [str(process.pid), "live"], result
        plain = cushim("top", "--once", LC_ALL="C").stdout
        assert plain.isascii(), plain
        with Terminal() as terminal:
            terminal.type(f"TERM=dumb {CUSHIM} top; echo ended $?")
            terminal.wait("^ended 0$")
        batch = subprocess.Popen([CUSHIM, "top", "--batch", "--every=0.1"], env=environment(), text=True, stdout=subprocess.PIPE)
        lines = [batch.stdout.readline() for _ in range(5)]
        batch.kill()
        batch.communicate()
        assert "process" in lines[0] and all(line.split()[0] == str(process.pid) for line in lines[1:]), lines
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")
    assert cushim("top", "--once").returncode == 1
    for words in (["--every=0"], ["--every=x"], ["--every=nan"], ["--every="], ["--every=1e9"], ["7"], ["--nonsense"], ["--once", "--batch"]):
        result = cushim("top", *words)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, (words, result)


tap.run()
