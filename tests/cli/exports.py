"""What `cushim report` writes for other tools, read by what is none of ours.

    exports.py CUSHIM PRELOAD SIM_FOLDER HOLDER CC...

HOLDER is holder.c, whose amounts are known.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

HOLDER = os.path.abspath(sys.argv.pop(4))

from fixture import CUSHIM, SIM, cushim, scratch, tap  # noqa: E402

N_HELD, HELD, N_STEPS, CHURN, LEAK, PINNED = 4, 1 << 20, 200, 4000, 1000, 1 << 16
LIVE = N_HELD * HELD + N_STEPS * LEAK
N_REQUESTS = N_HELD + 2 * N_STEPS
FOLDER = scratch / "holder.cushim"


def written(form, recording=FOLDER):
    """The bytes of a format, of a recording that is made first."""
    if not FOLDER.exists():
        assert "1 process, " in cushim("record", "-o", str(FOLDER), HOLDER, LD_LIBRARY_PATH=str(SIM)).stderr
    done = subprocess.run([CUSHIM, "report", f"--format={form}", str(recording)], capture_output=True, timeout=120)
    assert done.returncode == 0 and done.stderr == b"", done
    return done.stdout


def summary():
    return json.loads(written("json"))[0]["memory"]


# ---- profile.proto, as its numbers are assigned in google/pprof ----

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{field: values} of a message: numbers, or bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
            assert at <= len(data), key
        else:
            assert key & 7 == 0, key
        found[key >> 3].append(value)
    return found


def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


@tap.test
def pprof_has_what_was_asked_for_and_what_lives():
    profile = fields(written("pprof"))
    strings = [text.decode() for text in profile[6]]
    types = [tuple(strings[fields(one)[i][0]] for i in (1, 2)) for one in profile[1]]
    assert types == [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"),
                     ("peak_objects", "count"), ("peak_space", "bytes")] and strings[0] == "", types
    functions = {one[1][0]: (strings[one[2][0]], strings[one[4][0]]) for one in map(fields, profile[5])}
    mappings = {one[1][0]: (one[2][0], one[3][0], strings[one[5][0]]) for one in map(fields, profile[3])}
    locations = {}
    for one in map(fields, profile[4]):
        line, = map(fields, one[4])
        start, end, _ = mappings[one[2][0]]
        assert start <= one[3][0] < end, one
        locations[one[1][0]] = (*functions[line[1][0]], line[2][0] if line[2] else 0)
    sums, of = collections.defaultdict(lambda: [0] * 6), {}
    for one in map(fields, profile[2]):
        label, = map(fields, one[3])
        assert strings[label[1][0]] == "memory"
        values, stack = packed(one[2][0]), [locations[i] for i in packed(one[1][0])]
        of[stack[0][0]] = values, stack
        sums[strings[label[2][0]]] = [a + b for a, b in zip(sums[strings[label[2][0]]], values)]
    assert sums["device 0"][:5] == [N_REQUESTS, N_HELD * HELD + N_STEPS * (CHURN + LEAK), N_HELD + N_STEPS, LIVE, N_HELD + N_STEPS + 1], sums
    assert sums["device 0"][5] == LIVE + CHURN and sums["pinned memory"] == [1, PINNED] * 3, sums
    values, stack = of["leak_some"]
    source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "holder.c")).read().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "/* leaked */" in text)
    assert values[:4] == [N_STEPS, N_STEPS * LEAK] * 2 and stack[0] == ("leak_some", "holder.c", line) and stack[1][0] == "main", (values, stack)


@tap.test
def protoc_reads_it_and_knows_each_field():
    if not shutil.which("protoc"):
        tap.skip("no protoc")
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["protoc", "--decode=Profile", "-I", here, "profile.proto"], input=written("pprof"), capture_output=True, timeout=60)
    text = done.stdout.decode()
    assert done.returncode == 0 and not re.search(r"^ *\d+[:{ ]", text, re.MULTILINE), (done.stderr, text[:2000])  # no field without a name
    samples = [list(map(int, re.findall(r"^  value: (\d+)$", body, re.MULTILINE))) for body in re.findall(r"^sample {\n(.*?)^}", text, re.MULTILINE | re.DOTALL)]
    assert sum(values[3] for values in samples) == LIVE + PINNED and sum(values[0] for values in samples) == N_REQUESTS + 1, samples


@tap.test
def folded_stacks_sum_to_the_peak():
    sums = collections.Counter()
    for line in written("folded").decode().splitlines():
        stack, _, n = line.rpartition(" ")
        frames = stack.split(";")
        assert "main" in frames[-2] and len(frames) > 2, line
        sums[frames[0]] += int(n)
    assert sums == {"device 0": LIVE + CHURN, "pinned memory": PINNED}, sums


@tap.test
def perfetto_has_counters_in_the_order_of_time():
    events = json.loads(written("perfetto"))["traceEvents"]
    assert events[0]["ph"] == "M" and events[0]["args"]["name"].endswith("holder (no GPU)"), events[0]
    live = [event for event in events if event["name"] == "device 0 device live"]
    assert max(event["args"]["bytes"] for event in live) == LIVE + CHURN and live[-1]["args"]["bytes"] == LIVE
    assert [event["ts"] for event in live] == sorted(event["ts"] for event in live) and len(live) == N_REQUESTS + N_STEPS
    held = [event["args"]["bytes"] for event in events if event["name"] == "device 0 device held"]
    assert max(held) == summary()[0]["peak_held_bytes"], held
    refused, = [event for event in events if event["name"] == "out of memory"]
    assert refused["ph"] == "i" and refused["args"]["bytes"] == 1 << 46, refused
    for event in events:
        assert event["ph"] in "MCXi" and ("dur" in event) == (event["ph"] == "X"), event


@tap.test
def a_line_an_event_says_all_of_it():
    lines = [line.split() for line in written("trace-text").decode().splitlines()]
    what = collections.Counter(words[6] for words in lines)
    assert (what["alloc"], what["free"], what["refuse"]) == (N_REQUESTS + 1, N_STEPS, 1), what
    assert sum(int(words[8]) for words in lines if words[6] == "alloc") == N_HELD * HELD + N_STEPS * (CHURN + LEAK) + PINNED
    assert len(lines) == json.loads(written("json"))[0]["events"]


@tap.test
def several_processes_are_one_trace_and_no_profile():
    both = scratch / "both.cushim"
    result = cushim("record", "-o", str(both), "sh", "-c", f"{HOLDER} & {HOLDER} kill; wait", LD_LIBRARY_PATH=str(SIM))
    assert f"{both}: 2 processes" in result.stderr, result
    events = json.loads(written("perfetto", both))["traceEvents"]
    assert len({event["pid"] for event in events}) == 2
    result = cushim("report", "--format=pprof", str(both))
    assert result.returncode == 1 and result.stdout == "" and "these are 2 processes, but --format=pprof takes one at a time" in result.stderr, result
    for file in both.glob("*.trace"):
        assert fields(written("pprof", file))[2]


@tap.test
def a_full_disk_ends_it_in_one_line():
    written("json")
    for form in ("perfetto", "trace-text", "pprof"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([CUSHIM, "report", f"--format={form}", str(FOLDER)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == 125 and done.stderr.count("\n") == 1 and "No space left" in done.stderr, done


tap.run()
