"""`cushim diff` as a gate, and `cushim metrics`.

    gate.py CUSHIM PRELOAD SIM_FOLDER LIVE HOLDER CC...
"""
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

LIVE, HOLDER = sys.argv.pop(4), sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, SIM, scratch, tap  # noqa: E402

signal.signal(signal.SIGHUP, signal.SIG_DFL)


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k not in ("LD_PRELOAD", "RANK")}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live"), "XDG_CACHE_HOME": str(scratch / "cache"), **more}


def cushim(*words, **more):
    return subprocess.run([CUSHIM, *map(str, words)], env=environment(**more), text=True, capture_output=True, timeout=120)


def saved(name, devices=1, **counters):
    """A report as JSON, whose devices have these counters of device memory."""
    kinds = {"device": {"requests": 1000, "no_call": 990, "frees": 1000, "peak_live_bytes": 40 << 20, "peak_held_bytes": 50 << 20,
                        "held_bytes": 50 << 20, "wait_ns": 1000000, **counters}}
    path = scratch / name
    path.write_text(json.dumps({"schema": "cushim-report/1", "cushim": "0.1.0", "pid": 7, "program": "train", "run_ns": 10**9,
                                "source": "process", "devices": [{"device": i, "kinds": kinds} for i in range(devices)]}))
    return path


TABLE = """\
                                         before       after      change
  device 0 device.requests                1,000       1,000           0
  device 0 device.no_call                   990         990           0
  device 0 device.frees                   1,000         999      -0.1 %
  device 0 device.live_bytes                0 B    1.00 KiB         new
  device 0 device.peak_live_bytes      40.0 MiB    40.0 MiB           0
  device 0 device.peak_held_bytes      50.0 MiB    60.0 MiB     +20.0 %  FAILS
  device 0 device.native_allocs               0           0           0
  device 0 device.waits                       0           0           0
  device 0 device.out_of_memory               0           0           0
"""


@tap.test
def a_run_that_is_worse_than_it_may_be_fails_with_a_line():
    before, after = saved("before.json"), saved("after.json", peak_held_bytes=60 << 20, live_bytes=1024, frees=999)
    result = cushim("diff", "--fail-if", "peak_held>+5%", before, after)
    assert (result.returncode, result.stdout) == (1, TABLE), result
    assert result.stderr == "cushim: device 0: device.peak_held_bytes is 60.0 MiB, was 50.0 MiB: peak_held>+5%\n", result
    assert all(len(line) <= 80 for line in result.stdout.splitlines()), result
    result = cushim("diff", before, after)
    assert result.returncode == 0 and "FAILS" not in result.stdout and result.stderr == "", result


@tap.test
def of_several_processes_counts_are_sums_and_peaks_the_highest():
    one = saved("one.json")
    folder = scratch / "several"
    folder.mkdir()
    for pid in (7, 8):
        (folder / f"{pid}.json").write_text(json.dumps({**json.loads(one.read_text()), "pid": pid}))
    for condition, fails in {"peak_live>+0": False, "peak_held>+0": False, "requests=+1000": True, "frees>+999": True}.items():
        result = cushim("diff", f"--fail-if={condition}", one, folder)
        assert result.returncode == fails, (condition, result)


@tap.test
def conditions_mean_what_they_say():
    before = saved("before.json")
    after = saved("after.json", peak_held_bytes=60 << 20, live_bytes=1024, requests=1100, wait_ns=1500000)
    for condition, fails in {
            "peak_held>+20%": False, "peak_held>+19.9%": True, "peak_held>+9M": True, "peak_held>+10M": False, "peak_held>60M": False,
            "peak_held>59M": True, "peak_held_bytes>59.9M": True, "peak_held<+0": False, "peak_held<-0": False, "live>0": True, "live>+0": True,
            "live>+5%": True, "live=1K": True, "live=+1K": True, "live=0": False, "requests>+10%": False, "requests>+9%": True,
            "requests<1101": True, "wait_ns>1.4ms": True, "wait_ns>1500us": False, "wait_ns>+49%": True, "wait_ns<+0.6ms": True,
            "no_call<-1%": False, "double_frees>0": False, "pinned.live>0": False, "spare>1G": False, "spare>40M": True,
            "live>2K,peak_held>1": True, " live>2K , double_frees>0": False}.items():
        result = cushim("diff", f"--fail-if={condition}", before, after)
        assert result.returncode == fails and bool(result.stderr) == fails, (condition, result)


@tap.test
def what_is_missing_or_unknown_never_passes():
    one, two = saved("one.json"), saved("two.json", devices=2)
    for words in (["--fail-if=peak_helt>0", one, one], ["--fail-if=peak_held", one, one], ["--fail-if=>5", one, one], ["--fail-if=", one, one],
                  ["--fail-if=live>5%", one, one], ["--fail-if=live>x", one, one], ["--fail-if=live>5Q", one, one],
                  ["--fail-if=live>5s", one, one], ["--fail-if=requests>5K", one, one], ["--fail-if=live>+", one, one],
                  ["--fail-if=live>99999999999999T", one, one], ["--fail-if=live>1,", one, one], ["--fail-if", "live>0"], ["--fail-if"],
                  ["--nonsense", one, one], [one], [], [one, one, one], ["--fail-if=live>0", one, two], ["--fail-if=live>0", two, one],
                  [one, scratch / "none.json"], ["/dev/null", one], [one, "4194304"]):
        result = cushim("diff", *words)
        assert result.returncode == 2 and result.stderr.count("\n") == 1 and not result.stdout, (words, result)
    assert "did you mean `peak_held_bytes`" in cushim("diff", "--fail-if=peak_held_bites>0", one, one).stderr
    assert cushim("diff", one, two).returncode == 0


@tap.test
def a_program_that_leaks_is_caught():
    good, leaky = scratch / "good.json", scratch / "leaky.json"
    for file, n in ((good, "exit"), (leaky, "again")):
        cushim("run", f"--stats={file}", "--log=off", LIVE, n)
    result = cushim("diff", "--fail-if=double_frees>0", good, leaky)
    assert result.returncode == 1 and "device.double_frees is 1, was 0" in result.stderr, result
    assert cushim("diff", "--fail-if=double_frees>0", good, good).returncode == 0


# ---- recordings, and places ----

NO_MORE = """
       before       after      change  {}
     4.00 MiB         0 B    -100.0 %  hold_much holder.c < main holder.c
      195 KiB         0 B    -100.0 %  leak_some holder.c < main holder.c
{}     3.91 KiB         0 B    -100.0 %  churn holder.c < main holder.c
          0 B    2.93 KiB         new  keep_some live.c < main live.c
"""
ROWS = ["requests", "no_call", "frees", "live_bytes", "peak_live_bytes", "peak_held_bytes", "waits", "wait_ns"]  # that a recording has, too


def recorded(name, *words):
    """A recording, and the report of the same run."""
    folder, file = scratch / f"{name}.cushim", scratch / f"{name}.json"
    if not folder.exists():
        cushim("record", f"--stats={file}", "--oom=off", "-o", folder, *words)
    return folder, file


@tap.test
def a_recording_has_the_numbers_of_its_report():
    folder, file = recorded("holder", HOLDER)
    for sides in ((file, folder), (folder, file), (next(folder.iterdir()), folder)):
        result = cushim("diff", "--fail-if=requests>+0,requests<-0,peak_live>+0,wait_ns>+0,frees<-0", *sides)
        rows = [line.split() for line in result.stdout.splitlines()[1:]]
        assert result.returncode == 0 and not result.stderr, result
        assert [row[2] for row in rows] == [f"device.{name}" for name in ROWS] and all(row[-1] == "0" for row in rows), result
    assert " 404 " in result.stdout, result


@tap.test
def a_number_that_a_recording_lacks_never_passes():
    folder, file = recorded("holder", HOLDER)
    for name in ("native_allocs", "double_frees", "idle", "out_of_memory"):
        for sides in ((file, folder), (folder, file), (folder, folder)):
            result = cushim("diff", f"--fail-if={name}<0", *sides)
            assert result.returncode == 2 and result.stderr.startswith("cushim: a recording has no ") and not result.stdout, (name, result)
    assert cushim("diff", "--fail-if=native_allocs<0", file, file).returncode == 0


@tap.test
def places_are_told_by_function_and_file():
    before, after = recorded("holder", HOLDER)[0], recorded("live", LIVE, "exit")[0]
    assert cushim("diff", before, after).stdout.endswith(NO_MORE.format("at the peak, by site", "")), cushim("diff", before, after)
    sampled = [scratch / "sampled-holder.json", scratch / "sampled-live.json"]
    for file, words in zip(sampled, ([HOLDER], [LIVE, "exit"])):
        cushim("run", f"--stats={file}", "--sites=1", "--oom=off", *words)
    pinned = "     64.0 KiB         0 B    -100.0 %  pin_some holder.c < main holder.c\n"
    result = cushim("diff", *sampled)
    assert result.stdout.endswith(NO_MORE.format("peak live of a site, sampled", pinned)), result
    # another measure is not put beside it; no place that is as it was has a row
    for sides in ((before, sampled[1]), (sampled[0], after), (before, before), (sampled[0], sampled[0])):
        assert "place" not in cushim("diff", *sides).stdout, sides
    # a live page; another line of the same function is the same place
    moved = json.loads(sampled[1].read_text())
    for frame in moved["sites"][0]["stack"]:
        frame["line"] = frame.get("line", "x:0").split(":")[0] + ":9999"
    file = scratch / "moved.json"
    file.write_text(json.dumps(moved))
    process = subprocess.Popen([CUSHIM, "run", "--sites=1", LIVE, "pause"], env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    result = cushim("diff", file, process.pid)
    process.kill()
    process.wait()
    assert result.returncode == 0 and "device.requests" in result.stdout and "place" not in result.stdout, result


@tap.test
def hostile_places_are_shown_as_text():
    file = scratch / "hostile.json"
    stacks = [[{"function": "a\x1b[2Jb" * 50, "file": "/x/y" * 90}] * 9, [{"function": 7, "file": None}], 7, [], [7], [{"line": "\xff\x00:::"}]]
    report = json.loads(saved("before.json").read_text())
    file.write_text(json.dumps({**report, "sites": [{"stack": stack, "peak_live_bytes": 5} for stack in stacks] + [7, {}, {"peak_live_bytes": -3}]}))
    other = scratch / "without.json"
    other.write_text(json.dumps({**report, "sites": []}))
    for sides in ((file, other), (other, file)):
        result = cushim("diff", *sides)
        assert result.returncode == 0 and "\x1b" not in result.stdout and "a?[2Jb" in result.stdout and "no stack" in result.stdout, result
    assert "place" not in cushim("diff", file, saved("before.json")).stdout


@tap.test
def recordings_are_merged_into_the_table():
    (before, file), (after, _) = recorded("holder", HOLDER), recorded("live", LIVE, "exit")
    lines = cushim("merge", before, after).stdout.splitlines()
    assert [line.split()[2:] for line in lines[1:3]] == sorted(
        (["holder", "4.19", "MiB", "6.00", "MiB", "404", "0", "ns", "exit"], ["live", "2.93", "KiB", "2.00", "MiB", "3", "0", "ns", "exit", "4"]),
        key=lambda row: [line.split()[2] for line in lines[1:3]].index(row[0])), lines
    assert cushim("merge", file, before).stdout.splitlines()[1] == cushim("merge", before).stdout.splitlines()[1]
    result = cushim("merge", "-o", scratch / "merged.json", file, before)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and not (scratch / "merged.json").exists(), result
    cut = scratch / "cut.trace"
    for n_bytes in (0, 7, 1000):
        cut.write_bytes(next(before.iterdir()).read_bytes()[:n_bytes])
        for words, code in ((["merge", cut, before], 1), (["diff", cut, before], 2)):
            result = cushim(*words)
            assert result.returncode == code and result.stderr == f"cushim: {cut}: no recording; `cushim record` makes one\n", (n_bytes, result)


# ---- metrics ----

LABELS = r'\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\}'


def families(text):
    """What promtool checks of the text format: each name has one HELP and TYPE, its samples follow together, none comes twice."""
    found, name, seen = {}, None, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in found and re.fullmatch(r"[a-z_]+", name), line
            found[name] = {"samples": []}
        elif line.startswith("# TYPE "):
            _, _, of, kind = line.split()
            assert of == name and "type" not in found[name] and kind == ("counter" if name.endswith("_total") else "gauge"), line
            found[name]["type"] = kind
        else:
            sample = re.fullmatch(rf"([a-z_]+)({LABELS}) (\d+(?:\.\d+)?)", line)
            assert sample and sample[1] == name and (sample[1], sample[2]) not in seen, line
            seen.add((sample[1], sample[2]))
            found[name]["samples"].append((dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2])), float(sample[3])))
    return found


def started(*words, **more):
    process = subprocess.Popen([CUSHIM, "run", *words], env=environment(**more), text=True, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    return process


def ended(*processes):
    for process in processes:
        process.kill()
        process.communicate()
    cushim("stat", "--clean")


@tap.test
def metrics_have_the_numbers_of_what_runs_in_prometheus_format():
    odd = scratch / 'a"b\\c'
    odd.symlink_to(os.path.abspath(LIVE))
    processes = [started(LIVE, "pause"), started(odd, "pause", RANK="3")]
    result = cushim("metrics")
    ended(*processes)
    found = families(result.stdout)
    assert result.returncode == 0 and result.stderr == "", result
    first, second = (str(process.pid) for process in processes)
    assert [(labels["pid"], value) for labels, value in found["cushim_up"]["samples"]] == [(first, 1), (second, 1)], found
    for labels, _ in found["cushim_live_bytes"]["samples"]:
        assert labels.pop("host") and labels.pop("namespace") and labels.pop("user") and labels.pop("uuid").startswith("GPU-"), labels
    live = {labels["pid"]: (labels, value) for labels, value in found["cushim_live_bytes"]["samples"]}
    assert live[first] == ({"pid": first, "program": "live", "device": "0", "kind": "device", "software": "1"}, 3000), live
    assert live[second] == ({"pid": second, "program": 'a\\"b\\\\c', "rank": "3", "device": "0", "kind": "device", "software": "1"}, 3000), live
    value = {name: of["samples"][0][1] for name, of in found.items() if of["samples"]}
    assert value["cushim_requests_total"] == 3 and value["cushim_no_call_total"] == 2, value
    assert value["cushim_held_bytes"] == sum(value[f"cushim_{part}_bytes"] for part in ("live", "rounding", "spare", "idle")), value
    assert 0 < value["cushim_native_alloc_seconds_total"] < 60, value
    found = families(cushim("metrics").stdout)
    assert not any(of["samples"] for of in found.values()), "nobody runs"


@tap.test
def the_collector_finds_a_whole_file_that_it_may_read():
    process, file = started(LIVE, "pause"), scratch / "cushim.prom"
    file.write_text("before")
    watcher = subprocess.Popen([CUSHIM, "metrics", f"--file={file}", "--every=1"], env=environment())
    texts, deadline = set(), time.monotonic() + 60
    while len(texts) < 3 and time.monotonic() < deadline:
        text = file.read_text()
        assert text == "before" or families(text)["cushim_up"]["samples"], text
        texts.add((text, file.stat().st_ino))
    watcher.terminate()
    watcher.wait()
    ended(process)
    assert len(texts) >= 3 and stat.S_IMODE(file.stat().st_mode) == 0o644, (len(texts), file.stat())
    assert not [path for path in scratch.iterdir() if path.name.startswith(".cushim-")], "no draft is left"


@tap.test
def what_metrics_cannot_do_is_told_in_a_line():
    for words, code in ((["--file=/no/such/x.prom"], 125), (["--every=0"], 2), (["--every=1x"], 2), (["--nonsense"], 2), (["7"], 2), (["--file="], 2)):
        result = cushim("metrics", *words)
        assert result.returncode == code and result.stderr.count("\n") == 1 and not result.stdout, (words, result)
    with open("/dev/full", "w") as full:
        done = subprocess.run([CUSHIM, "metrics"], env=environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 125 and done.stderr.count("\n") == 1, done


tap.run()
