"""Every run leaves its report, whatever ended it; and who looks at a live page, or at what is none, from outside.

    live.py CUSHIM PRELOAD SIM_FOLDER LIVE KILLS CC...

LIVE is live.c, KILLS how many programs are killed at a random moment.
"""
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

LIVE, KILLS = sys.argv.pop(4), int(sys.argv.pop(4))

import fixture  # noqa: E402
from fixture import CUSHIM, PRELOAD, scratch, tap  # noqa: E402
from live_fixture import HEAD, device, environment, folder, pages, report_of, run, started, stat  # noqa: E402

N_KEPT, BYTES = 3, 1000


@tap.test
def every_end_leaves_a_report():
    signals = {number: f"ended by SIG{number.name.removeprefix('SIG')}" for number in
               (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGHUP, signal.SIGBUS)}
    ends = {f"signal{int(number)}": (-number, how) for number, how in signals.items()}
    ends.update({"_exit": (5, "ended by _exit or became another program, exit status 5"),
                 "quick_exit": (6, "ended by _exit or became another program, exit status 6"),
                 "exec": (7, "ended by _exit or became another program, exit status 7"), "exit": (4, "with status 4")})
    for how, (code, ended) in ends.items():
        result, report = report_of(LIVE, how)
        assert result.returncode == code and result.stderr == "", (how, result)
        assert report and report.get("ended") == ended, (how, report)
        assert report["source"] == ("process" if how == "exit" else "live page"), report
        counted = device(report)
        assert (counted["requests"], counted["frees"], counted["live_bytes"]) == (N_KEPT, 0, N_KEPT * BYTES), counted
        parts = [counted[name] for name in ("live_bytes", "rounding_bytes", "spare_bytes", "idle_bytes")]
        assert sum(parts) == counted["held_bytes"], counted


@tap.test
def reports_from_pages_are_like_those_of_the_processes():
    _, killed = report_of(LIVE, "signal9")
    _, told = report_of(LIVE, "exit")
    timed = re.compile("_ns$")
    same = {key: value for key, value in device(told).items() if not timed.search(key)}
    assert {key: value for key, value in device(killed).items() if not timed.search(key)} == same
    assert set(killed) == set(told), set(told) ^ set(killed)
    assert killed["calls"]["cuMemAlloc_v2"] == N_KEPT and killed["calls"] == told["calls"], (killed, told)
    assert killed["lookups"] == told["lookups"], killed


@tap.test
def reports_from_pages_follow_the_schema():
    for how in ("signal9", "exit"):
        fixture.valid(report_of(LIVE, how)[1])


@tap.test
def a_report_as_text_says_how_it_ended_and_whence_it_is():
    result = run("--stats", LIVE, "signal9")
    lines = result.stderr.splitlines()
    assert result.returncode == -9 and lines[0].startswith(HEAD), result
    assert lines[1] == "  ended by SIGKILL; read from its live page", lines
    assert all(len(line) <= 80 for line in lines), lines
    result = run("--stats", LIVE, "exit")
    assert "live page" not in result.stderr and result.stderr.startswith(HEAD), result


@tap.test
def a_report_says_what_ran_and_where():
    words = ("signal9", "two \x1b[2J<b>")
    result = run("--stats", "--free=relaxed", "--copy-threads=3", "--keep=64M", LIVE, *words)
    lines = (HEAD + result.stderr.split(HEAD)[1]).splitlines()
    wanted = f"  {LIVE} signal9 'two ?[2J<b>'"
    assert lines[2] == (wanted if len(wanted) <= 80 else wanted[:77] + "..."), lines
    assert lines[3].startswith(f"  on {socket.gethostname()}, driver of CUDA 1"[:77]), lines
    assert lines[3].endswith((", copy-threads=3, free=relaxed, keep=64M", "...")) and len(lines[3]) <= 80, lines
    for how in ("signal9", "exit"):
        _, report = report_of("--free=relaxed", "--keep=65536k", LIVE, how, *words[1:], CUSHIM_LARGE="nonsense", CUSHIM_POOL="on")
        assert report["arguments"] == [LIVE, how, *words[1:]] and report["host"] == socket.gethostname(), report
        assert report["options"] == ["free=relaxed", "keep=64M"] and report["driver_version"] >= 12000, report
        device, = report["devices"]
        assert re.fullmatch(r"GPU(-[0-9a-f]+){5}", device["uuid"]) and re.fullmatch(r"[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.0", device["pci"]), device
        assert report["folder"] == os.getcwd()[-255:] and report["boot"] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(), report
        assert 0 < report["start_ns"] < time.clock_gettime_ns(time.CLOCK_MONOTONIC), report
    # a bare preload has them without a page, too; what is long is cut
    file = scratch / "bare.json"
    subprocess.run([LIVE, "exit", "x" * 2000], env=environment(LD_PRELOAD=str(PRELOAD), CUSHIM_STATS=str(file)))
    report = json.loads(file.read_text())
    assert report["arguments"] == [LIVE, "exit", "x" * (1023 - len(LIVE) - 6)], report


@tap.test
def parts_of_a_report_are_shown_alone():
    """Of programs that nobody waited for."""
    for how in ("again_signal9", "out_signal9"):
        run("--check", "--oom=off", "--log=off", LIVE, how, CUSHIM_SIM_MEMORY="64M")
    again, out = sorted((json.loads(text + "}") for text in stat("--json").stdout.split("\n}\n") if text), key=lambda one: len(one["out_of_memory"]))
    numbers = [str(one["pid"]) for one in (again, out)]
    lines = stat("--findings", numbers[0]).stdout.splitlines()
    assert lines[0].startswith(f"{HEAD}live, process {numbers[0]}, "), lines
    assert lines[1] == "finding: 1 free of memory already freed, or never allocated" and any("free_twice" in line for line in lines), lines
    assert stat("--findings", numbers[1]).stdout.splitlines()[1:] == ["  nothing was found"]
    text = stat("--oom", numbers[1]).stdout
    assert text.startswith(f"{HEAD}live, process {numbers[1]}, ") and "out of memory #1: 10.0 MiB" in text and "run_out" in text, text
    assert stat("--oom", numbers[0]).stdout.splitlines()[1:] == ["  each request found memory"]
    for part, first in (("--findings", "finding: 1 free"), ("--oom", "out of memory #1")):
        text = stat(part, "--all").stdout
        assert text.count(HEAD) == 2 and text.count(first) == 1 and all(number in text for number in numbers), text
    assert stat("--all").stdout.count("verdict: ") == 2
    for words in (["--findings"], ["--oom", "--json", "live"], ["--oom", "--sites", "live"], ["--all", "live"], ["--clean", "--all"],
                  ["--clean", "--oom"], ["--feilds", "live"]):
        result = stat(*words)
        assert result.returncode == 2 and result.stderr.count("\n") == 1 and not result.stdout, (words, result)
    stat("--clean")
    assert stat("--oom", "--all").returncode == 1


SHORTAGE = '''out of memory #1: 10.0 MiB of device memory for device 0
  device     64.0 MiB = cudaMalloc 62.0 MiB + other 0 B + free 2.00 MiB
  held       62.0 MiB = live 60.0 MiB + rounding 72 B
             + spare 2.00 MiB + idle 0 B
  not live   in use by the GPU 0 B, in caches 0 B, largest 2.00 MiB
  tried      waited for the GPU; caches gave 1.00 KiB,
             segments 0 B, other pools 0 B
  biggest    6 x 10.0 MiB, 3 x 1.00 KiB (live blocks)
  asked at   run_out  '''
ADVICE = '''  advice     60.0 MiB are live, so it cannot fit: free some of it first;
             `biggest` says what it is
'''


STRAY = """import ctypes, os, signal, sys
cuda, contexts, block = ctypes.CDLL("libcuda.so.1"), [ctypes.c_void_p(), ctypes.c_void_p()], ctypes.c_uint64()
cuda.cuInit(0)
for number, context in enumerate(contexts):
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0
cuda.cuCtxSetCurrent(contexts[1])
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000)) == 0
os._exit(0) if "exit" in sys.argv else os.kill(os.getpid(), signal.SIGKILL)
"""


@tap.test
def a_context_that_nothing_used_is_told_of_a_killed_process_too():
    for how in "kill", "exit":
        _, report = report_of("--oom=off", sys.executable, "-c", STRAY, how, CUSHIM_SIM_DEVICES="2")
        harm, = report["harms"]
        assert (harm["fault"], harm["call"], harm["offset"], report["n_harms"]) == ("stray context", "cuDevicePrimaryCtxRetain", 0, 1) and harm["called_at"], report
        text = run("--stats", sys.executable, "-c", STRAY, how, CUSHIM_SIM_DEVICES="2").stderr
        assert "finding: stray context: cuDevicePrimaryCtxRetain made a context on device 0," in text, text


FORKED = """import ctypes, os, signal
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000)) == 0
child = os.fork()
if child == 0:
    cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000))
    os._exit(0)
os.waitpid(child, 0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@tap.test
def cuda_after_a_fork_is_told_of_a_killed_parent_too():
    result, report = report_of(sys.executable, "-c", FORKED)
    harm, = report["harms"]
    assert (harm["fault"], harm["call"], harm["offset"], report["n_harms"]) == ("CUDA after fork", "cuMemAlloc_v2", int(result.stdout), 1), (result, report)
    assert result.stderr.count("its calls fail; spawn instead of fork") == 1, result


def lines_of(text):
    return [line.rstrip() for line in text.splitlines()]


@tap.test
def out_of_memory_is_told_with_what_lives_and_who_asked():
    line = next(i for i, text in enumerate((fixture.ROOT / "tests/cli/live.c").read_text().splitlines(), 1)
                if "cuMemAlloc(&block, 10 << 20)" in text)
    for how, code in (("out", 4), ("out_signal9", -9)):
        result = run("--stats", LIVE, how, CUSHIM_SIM_MEMORY="64M")
        assert result.returncode == code, result
        now, end = result.stderr.split(HEAD)
        assert now == "cushim: " + SHORTAGE.splitlines()[0] + "\n", now  # the report has the rest
        assert SHORTAGE + f"live.c:{line}" in end and ADVICE in end, end
        result, report = report_of(LIVE, how, CUSHIM_SIM_MEMORY="64M", CUSHIM_OOM="off")
        assert result.stderr == "", result
        told, = report["out_of_memory"]
        assert (told["asked_bytes"], told["live_blocks"][0]) == (10 << 20, {"count": 6, "bytes": 10 << 20}), told
        assert told["asked_at"][0]["function"] == "run_out", told
    result = run("--oom=line", LIVE, "out", CUSHIM_SIM_MEMORY="64M")
    assert result.stderr == "cushim: " + SHORTAGE.splitlines()[0] + "\n", result
    result = run(LIVE, "out", CUSHIM_SIM_MEMORY="64M")
    assert result.stderr.startswith("cushim: " + SHORTAGE + "live+0x") and ADVICE + "  lines by" in result.stderr, result
    result = run(LIVE, "share_out", CUSHIM_SIM_MEMORY="64M")
    told = re.search(r"  shared     (3\d\.\d MiB) were freed and serve nobody: ", result.stderr)
    assert told and f"  advice     {told[1]} were freed, but other processes have their IPC handles" in result.stderr, result
    for limit in "25%", "64M":  # of the device, and not of what the limit leaves of it
        result = run(f"--limit={limit}", LIVE, "out", CUSHIM_SIM_MEMORY="256M")
        assert re.search(r"\n  biggest    6 x 10\.0 MiB, .*\n  advice     --limit allows 64\.0 MiB, and 60\.0 MiB are live: free some first\n"
                         r" {13}\(`biggest` says what it is\), or raise --limit, while it runs by\n {13}`cushim limit \d+ SIZE`\n", result.stderr, re.S), result
        for word in "--stats", "--live=off":  # the program has ended, or no command reaches it
            result = run(word, f"--limit={limit}", LIVE, "out", CUSHIM_SIM_MEMORY="256M")
            assert "says what it is), or raise --limit\n" in result.stderr and "cushim limit" not in result.stderr, result


@tap.test
def what_a_program_prints_of_frames_becomes_lines_by_the_command_below_it():
    for name, *flags in ("with a blank", "-fPIE", "-pie"), ("fixed", "-fno-pie", "-no-pie"):
        program = fixture.build(name, "-g", "-O0", f"-L{fixture.SIM}", "-l:libcuda.so.1", "-ldl", *flags, source=fixture.NAMED_SOURCE % ("some", "ask", "mark", "ask"))
        text = run(program).stderr
        command, = re.findall(r"\n  lines by   (addr2line .*)\n", text)
        named = subprocess.run(command, shell=True, text=True, capture_output=True, timeout=60).stdout
        assert re.match(r"ask at \S*some\.c:10\b.*\nmain at \S*some\.c:", named), (text, named)
    assert "lines by" not in run(f"--trace={scratch / 'traced'}", LIVE, "out", CUSHIM_SIM_MEMORY="64M").stderr  # because the recording has them


@tap.test
def who_watches_sees_it_again_until_it_ends():
    process = started(LIVE, "pause")
    watcher = subprocess.Popen([CUSHIM, "stat", "--watch=1", str(process.pid)], env=environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    n_heads = 0
    while n_heads < 2:
        line = watcher.stdout.readline()
        assert line, watcher.stderr.read()
        n_heads += line.startswith(HEAD)
    process.kill()
    process.wait()
    out, err = watcher.communicate(timeout=60)  # its page stays, and does not change
    assert watcher.returncode == 0 and err == "" and out.count("\n  it ended; read from its live page\n") == 1, (out, err)
    assert stat("--watch").stdout.count("  ended\n") == 1 and stat("--watch", "--json").stdout.count("it ended") == 1
    stat("--clean")
    for bad in ("--watch=0", "--watch=x", "--watch=1s", "--watch=", "--watch=99999", "--watch=-1"):
        result = stat(bad)
        assert result.returncode == 2 and re.search("whole number|needs a value", result.stderr), (bad, result)


@tap.test
def findings_have_lines_of_the_source_whatever_ends_the_program():
    source = (fixture.ROOT / "tests/cli/live.c").read_text().splitlines()
    lines = {what: next(i for i, text in enumerate(source, 1) if what in text) for what in ("to_free", "the first", "again")}
    stacks = [("  allocated", "to_free"), ("  freed", "the first"), ("  called at", "again")]
    for how, code in (("again", 4), ("again_signal9", -9)):
        result = run("--stats", "--check", "--log=off", LIVE, how)
        assert result.returncode == code, result
        finding = result.stderr[result.stderr.index("finding: double free: cuMemFree_v2 of the block of"):]
        for name, what in stacks:
            assert re.search(rf"^{name:12} free_twice  live\.c:{lines[what]}$", finding, re.MULTILINE), (name, finding)
        result, report = report_of("--check", "--log=off", LIVE, how)
        harm, = report["harms"]
        assert (harm["fault"], harm["harm"], report["n_harms"]) == ("double free", "freed again", 1), report
        assert "free_twice" in harm["called_at"][0] and "free_twice" in harm["allocated"][0], harm


@tap.test
def the_report_stands_behind_all_that_the_program_prints():
    """Into a pipe stdio writes what it holds at the very end; and a child of the program tells for itself."""
    for where in ("-", "stderr"):
        done = subprocess.run([CUSHIM, "run", "--stats=" + where, LIVE, "print"], env=environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        assert done.returncode == 4 and done.stdout.startswith("printed\n" + HEAD), done.stdout
        assert done.stdout.count(HEAD) == 1, done.stdout
    own, other = os.memfd_create("cushim-report"), os.memfd_create("another")
    for waiter, is_left in ((f"{os.getpid()}-{own}", True), (f"{os.getpid()}-{other}", False), (f"{os.getpid()}-99999", False),
                            (f"1-{own}", False), ("-1--1", False), ("x", False), ("", False)):
        done = subprocess.run([LIVE, "exit"], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120,
                              env=environment(CUSHIM_WAITER=waiter, CUSHIM_STATS="stderr", LD_PRELOAD=str(fixture.PRELOAD)))
        told = os.pread(own, 1 << 16, 0).decode() if is_left else done.stderr
        assert done.returncode == 4 and told.startswith(HEAD) and (done.stderr == "") == is_left, (waiter, done)
    os.close(own)
    os.close(other)


@tap.test
def who_is_killed_at_any_moment_has_counted_all_that_it_did():
    """As many pairs in the report as the program made; each thread may have been at one."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    counts, file = scratch / "counts", scratch / "killed.json"
    for _ in range(KILLS):
        n_threads = rng.choice((1, 2, 5))
        counts.write_bytes(bytes(256 * 64))
        file.unlink(missing_ok=True)
        process = started(f"--stats={file}", LIVE, "pairs", str(counts), str(n_threads),
                          CUSHIM_FREE=rng.choice(("exact", "relaxed")))
        time.sleep(rng.random() / 50)
        child, = children(process.pid)
        os.kill(child, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -9 and err == "", (seed, err)
        done = sum(word for word, in struct.iter_unpack("<Q56x", counts.read_bytes()))
        counted = device(json.loads(file.read_text()))
        requests, frees = counted["requests"] - N_KEPT, counted["frees"]
        assert done <= frees <= requests <= done + n_threads, (seed, done, n_threads, counted)
        assert N_KEPT * BYTES <= counted["live_bytes"] <= (N_KEPT + n_threads) * BYTES, (seed, counted)
    assert not pages()


def children(process):
    return [int(word) for word in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@tap.test
def more_threads_than_rows_are_told():
    counts, file = scratch / "counts", scratch / "many.txt"
    counts.write_bytes(bytes(256 * 64))
    process = started(f"--stats={file}", LIVE, "pairs", str(counts), "200")
    while 0 in [word for word, in struct.iter_unpack("<Q56x", counts.read_bytes())][:200]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    process.communicate(timeout=60)
    assert re.search(r"^  \d+ threads had no row in it: some requests are missing$", file.read_text(), re.MULTILINE), \
        file.read_text()


@tap.test
def who_looks_sees_large_copies_and_who_moved_them():
    for value in ("on", "off"):
        process = started(f"--copy-stage={value}", "--copy-stage-min=1M", LIVE, "copy")
        report = json.loads(stat("--json", str(process.pid)).stdout)
        text = stat(str(process.pid)).stdout
        process.kill()
        process.communicate(timeout=60)
        stat("--clean")
        ways = {"staged": report["staged"], "by the driver": report["large_copies"]}
        n_of = {way: [each[name]["count"] for name in ("host_to_device", "device_to_host")] for way, each in ways.items()}
        left = {reason: n for reason, n in report["staged"]["left"].items() if n}
        if value == "off":
            assert (n_of["by the driver"], n_of["staged"], left) == ([1, 1], [0, 0], {}), report
        elif len(os.sched_getaffinity(0)) > 1:
            assert (n_of["by the driver"], n_of["staged"], left) == ([0, 0], [1, 1], {"capture": 1}), report
            assert re.search(r"^  not staged +1  a stream capture was open$", text, re.MULTILINE), text
        for way, each in ways.items():
            for name, words in (("host_to_device", "to device"), ("device_to_host", "to host")):
                n = each[name]["count"]
                assert each[name]["bytes"] == n << 20 and (each[name]["ns"] > 0) == (n > 0), report
                row = rf"^  {words} +{way} +{n} +{n}\.00 MiB +\S+ \w+ +[\d.]+$"
                assert not n or re.search(row, text, re.MULTILINE), text


@tap.test
def each_process_of_a_run_counts_for_itself():
    file = scratch / "fresh.json"
    result = run(f"--stats={file}", LIVE, "fork_fresh")
    together = json.loads(file.read_text())
    assert result.returncode == 0 and together["schema"] == "cushim-reports/1" and not pages(), (result, together)
    own, child = together["reports"]
    assert child["ended"] == "it ended without a report of its own" and own["run"] == child["run"], child
    assert device(own)["requests"] == N_KEPT and device(child)["requests"] == 2 * N_KEPT, (own, child)
    assert own["calls"]["cuMemAlloc_v2"] == N_KEPT and child["calls"]["cuMemAlloc_v2"] == 2 * N_KEPT, (own, child)
    assert own["calls"]["cuMemFree_v2"] == 1 and "cuMemFree_v2" not in child["calls"], "what came before the fork is the parent's"
    text = run("--stats", LIVE, "fork_fresh").stderr
    assert text.count(HEAD) == 2 and all(len(line) <= 80 for line in text.splitlines()), text
    assert re.search(r"^     -  *\d+  live +2\.93 KiB +2\.00 MiB +3 +0 ns  exit\n"
                     r"     -  *\d+  live +5\.86 KiB +2\.00 MiB +6 +0 ns  ended\n"
                     r" {17}2 in all +8\.79 KiB +4\.00 MiB +9 +0 ns  $", text, re.MULTILINE), text


@tap.test
def a_child_that_is_killed_takes_nothing_from_its_parent():
    result, report = report_of(LIVE, "fork")
    assert result.returncode == 4 and report["source"] == "process" and device(report)["requests"] == N_KEPT, report


@tap.test
def a_child_that_can_have_no_page_leaves_its_parents_alone():
    result, report = report_of(LIVE, "fork_without_page")
    assert result.returncode == -9 and report["ended"] == "ended by SIGKILL" and device(report)["requests"] == N_KEPT, report


@tap.test
def who_becomes_itself_again_leaves_two_reports():
    result = run(f"--stats={scratch}/again.txt", LIVE, "exec_again")
    text = (scratch / "again.txt").read_text()
    assert result.returncode == -9 and text.count("read from its live page") == 2, (result, text)
    result = run(f"--stats={scratch}/again-%p.txt", LIVE, "exec_again")
    assert result.returncode == -9 and len(list(scratch.glob("again-*.txt"))) == 1, result


@tap.test
def a_wrapper_that_is_killed_with_its_program_gets_no_line():
    result = run("--stats", "sh", "-c", '"$0" signal9; kill -INT $$', LIVE)
    assert result.returncode == -2 and "; read from its live page\n" in result.stderr and "sh ended by" not in result.stderr, result


@tap.test
def who_is_killed_before_it_used_anything_is_told_in_a_line():
    result = run("--stats", LIVE, "early")
    assert result.returncode == -9, result
    assert result.stderr == (f"cushim: {LIVE} ended by SIGKILL without a report: it used no CUDA memory that cushim can see, "
                             "or had no live page\n"), result


@tap.test
def signals_reach_the_program_and_the_exit_status_is_its_own():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        process = started("--stats", LIVE, "pause")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -number and f"  ended by {number.name}; read" in err, (number, process.returncode, err)
    process = started("--stats", LIVE, "pause")
    child, = children(process.pid)
    process.send_signal(signal.SIGINT)  # the terminal sends it to both
    os.kill(child, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and "ended by SIGINT" in err, err


@tap.test
def a_program_outlives_its_waiter_and_tells_itself():
    file = scratch / "alone.json"
    process = started(f"--stats={file}", LIVE, "pause")
    child, = children(process.pid)
    process.kill()
    process.wait()
    assert stat(str(child)).stdout.startswith(HEAD)
    os.kill(child, signal.SIGKILL)
    while "ended" not in stat().stdout:
        time.sleep(0.01)
    assert f"{child}  live " in stat().stdout and len(pages()) == 1, stat()
    assert "  it ended; read from its live page" in stat(str(child)).stdout, stat(str(child))
    assert stat("--clean").returncode == 0 and not pages()


@tap.test
def without_waiting_it_is_the_program():
    result = run("--stats", "--no-wait", LIVE, "signal9")
    assert result.returncode == -9 and result.stderr == "" and len(pages()) == 1, result
    stat("--clean")
    process = started("--stats", "--no-wait", LIVE, "pause")
    assert not children(process.pid)
    process.kill()
    process.communicate()
    stat("--clean")


@tap.test
def a_running_program_is_seen_and_does_nothing_for_it():
    process = started(LIVE, "pause")  # without --stats: cushim became it
    rows = stat()
    assert rows.returncode == 0 and re.search(rf"^ *{process.pid}  live +0 +2\.93 KiB +2\.00 MiB +2\.93 KiB +66\.6 %  runs$",
                                              rows.stdout, re.MULTILINE), rows
    for word in (str(process.pid), "live"):
        text = stat(word).stdout
        assert text.startswith(f"{HEAD}live, process {process.pid}, ") and "\n  it goes on; read from its live page\n" in text, text
    report = json.loads(stat("--json", str(process.pid)).stdout)
    assert device(report)["requests"] == N_KEPT, report
    assert stat("frobnicate").returncode == 1
    stat("--clean")
    assert len(pages()) == 1, "a living one is not removed"
    process.terminate()
    process.communicate()
    stat("--clean")


@tap.test
def a_normal_end_leaves_no_page_and_off_makes_none():
    assert run(LIVE, "exit").returncode == 4 and not pages()
    for off in ({"CUSHIM_LIVE": "0"}, {"CUSHIM": "0"}):
        run(LIVE, "signal9", **off)
        assert not pages(), off
    assert stat().returncode == 1


@tap.test
def who_ends_past_the_c_library_without_the_command_is_told_of_by_its_page():
    """As programs of Go do: exit_group, and no destructor runs."""
    for live, n in (("0", 0), ("1", 1)):
        file = scratch / "past.json"
        wished = environment(LD_PRELOAD=str(PRELOAD), CUSHIM_STATS=str(file), CUSHIM_LIVE=live)
        result = subprocess.run([LIVE, "_exit"], env=wished, text=True, capture_output=True, timeout=120)
        assert result.returncode == 5 and result.stderr == "" and not file.exists(), result
        assert len(pages()) == n, pages()
    result = stat("--all")  # nobody knows when it ended
    assert result.returncode == 0 and re.search(r"^cushim .* or more\n  it ended; read from its live page\n", result.stdout, re.MULTILINE), result
    pages()[0].unlink()


@tap.test
def pages_that_nobody_came_for_go_after_a_day():
    run(LIVE, "signal9")
    page, = pages()
    for days, is_there in ((0.9, True), (1.1, False)):
        os.utime(page, (time.time() - days * 86400,) * 2)
        run(LIVE, "exit")
        assert page.exists() == is_there, days
    process = started(LIVE, "pause")
    page, = pages()
    os.utime(page, (0, 0))
    run(LIVE, "exit")
    assert page.exists(), "that of a living one stays"
    process.terminate()
    process.communicate()
    stat("--clean")


def many_left(n, text):
    """n pages of a process that ended, the first one the oldest; none is as old as a day."""
    process = subprocess.Popen(["true"])
    process.wait()
    found = [folder / f"{process.pid}-{i}.page" for i in range(n)]
    for i, page in enumerate(found):
        page.write_bytes(text)
        os.utime(page, (time.time() - 1000 + i,) * 2)
    return found


@tap.test
def of_pages_that_nobody_came_for_the_last_64_stay_whatever_version_they_are_of():
    left = many_left(70, b"of another version")
    kept = folder / "notes.page"
    kept.write_text("no page")
    os.utime(kept, (0, 0))
    run(LIVE, "exit")
    assert [page.exists() for page in left] == [False] * 6 + [True] * 64
    wanted = r"cushim: 64 pages are of another version of cushim, or damaged: \d+-6\.page, \d+-7\.page, \d+-8\.page and 61 more; `cushim stat --clean` removes what ended "
    assert re.match(wanted, stat().stderr), stat().stderr
    assert "64 pages" in stat("--clean").stderr
    assert not any(page.exists() for page in left) and kept.read_text() == "no page"
    kept.unlink()


@tap.test
def what_is_no_page_harms_nobody():
    run(LIVE, "signal9")
    page, = pages()
    whole = page.read_bytes()
    page.chmod(0o600)  # while it is mapped nobody but root may cut it
    for n_bytes in (0, 1, 63, 64, 4095, 4096, len(whole) // 2, len(whole) - 1):
        page.write_bytes(whole[:n_bytes])
        result = stat()
        assert result.returncode == 1, n_bytes
        assert f"1 page is of another version of cushim, or damaged: {page.name}; " in result.stderr, (n_bytes, result.stderr)
    page.unlink()
    os.mkfifo(folder / "1-1.page")
    (folder / "2-1.page").mkdir()
    (folder / "3-1.page").symlink_to("/dev/zero")
    (folder / "4-1.page").write_bytes(os.urandom(len(whole)))
    assert stat().returncode == 1
    result, report = report_of_beside(LIVE, "signal9")
    assert result.returncode == -9 and device(report)["requests"] == N_KEPT
    for name in ("1-1.page", "3-1.page", "4-1.page"):
        (folder / name).unlink()
    (folder / "2-1.page").rmdir()


def report_of_beside(*words):
    file = scratch / "beside.json"
    result = run(f"--stats={file}", *words)
    return result, json.loads(file.read_text())


@tap.test
def a_folder_that_is_not_ours_alone_is_left_alone():
    for mode in (0o755, 0o770, 0o777):
        folder.chmod(mode)
        result = run("--stats", LIVE, "exit")
        assert result.returncode == 4 and "\n" + HEAD in result.stderr and not pages(), (oct(mode), result)
        result = run("--stats", LIVE, "_exit")  # nobody knows what it used, and one line is enough
        assert result.returncode == 5 and result.stderr.count("\n") == 1 and "no live page of " in result.stderr, result
    folder.chmod(0o700)
    result = run("--stats", LIVE, "_exit", CUSHIM_LIVE="0")
    assert result.stderr == f"cushim: {LIVE} has no report: it used no CUDA memory that cushim can see, or had no live page; `cushim doctor {LIVE} ...` may say why\n", result
    link = scratch / "link"
    link.symlink_to(folder)
    result = run("--stats", LIVE, "exit", CUSHIM_LIVE_DIR=str(link))
    assert result.returncode == 4 and "\n" + HEAD in result.stderr and not pages(), result
    result = run("--stats", LIVE, "exit", CUSHIM_LIVE_DIR="/proc/nowhere")
    assert result.returncode == 4 and "\n" + HEAD in result.stderr, result


@tap.test
def a_full_disk_and_a_small_limit_cost_the_page_alone():
    result = run(LIVE, "limited")
    assert result.returncode == -9 and result.stderr == "" and not pages(), result
    full = scratch / "full"
    full.mkdir()
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "x", str(full)], capture_output=True)
    if probe.returncode:
        tap.skip("no file system can be mounted here")
    command = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=16k,mode=700 x "$0" && exec "$@"', str(full), str(CUSHIM), "run",
               "--stats", LIVE, "exit"]
    result = subprocess.run(command, env=environment(CUSHIM_LIVE_DIR=str(full)), text=True, capture_output=True, timeout=120)
    assert result.returncode == 4 and "\n" + HEAD in result.stderr, result


tap.run()
