"""A recording has what a program asked for, whatever ended it; and where none can be made the program runs all the same.

    trace.py CUSHIM PRELOAD SIM_FOLDER LIVE CC...

LIVE is live.c.  The file is read here as docs/internals/trace-format.md says, not by src/trace.
"""
import json
import os
import struct
import subprocess
import sys

LIVE = sys.argv.pop(4)

from fixture import CUSHIM, SIM, cushim, scratch, tap  # noqa: E402

HEAD, CHUNK, N_KEPT, BYTES = 4096, 64, 3, 1000
FIELDS = {1: 3, 2: 1, 3: 2, 4: 2, 5: 2, 6: 4, 7: 1}  # numbers behind the time; 8 to 12 have texts and frames
TEXT_BEHIND = {8: 0, 10: 3, 11: 2, 12: 1}


def number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def numbers(data, at, n):
    values = []
    for _ in range(n):
        value, at = number(data, at)
        values.append(value)
    return values, at


def events(data):
    """(code, flags, fields) of one chunk's events."""
    at = 0
    while at < len(data):
        code, flags = data[at] >> 4, data[at] & 15
        _, at = number(data, at + 1)
        if code in FIELDS:
            fields, at = numbers(data, at, FIELDS[code])
        elif code == 9:
            fields, at = numbers(data, at, 2)
            _, at = numbers(data, at, fields[1])
        else:
            fields, at = numbers(data, at, TEXT_BEHIND[code] + 1)
            fields[-1], at = data[at:at + fields[-1]].decode(), at + fields[-1]
        yield code, flags, fields


def read(path):
    """(state, events) of a recording."""
    data = path.read_bytes()
    assert data[:8] == b"CUSHIMTR" and struct.unpack_from("<II", data, 8) == (2, HEAD), data[:16]
    found, at = [], HEAD
    while at < len(data):
        magic, n_bytes, _, _, _, used = struct.unpack_from("<8s5Q", data, at)
        assert magic == b"CUSHIMCH", (at, magic)
        found += events(data[at + CHUNK:at + CHUNK + used])
        at += n_bytes
    return struct.unpack_from("<Q", data, 16)[0], found


def recorded(how, folder, **more):
    result = cushim("run", LIVE, how, **{"LD_LIBRARY_PATH": str(SIM), "CUSHIM_TRACE": str(folder), **more})
    return result, sorted(folder.glob("*.trace")) if folder.exists() else []


@tap.test
def every_end_leaves_a_recording():
    for how, state in {"exit": 2, "_exit": 1, "signal9": 1, "signal11": 1, "exec": 1}.items():
        for free in ("exact", "relaxed"):
            folder = scratch / f"{how}-{free}"
            result, files = recorded(how, folder, CUSHIM_FREE=free)
            assert result.stderr == "" and len(files) == 1, (how, result, files)
            now, found = read(files[0])
            allocs = [fields for code, _, fields in found if code == 1]
            assert now == state, (how, now)
            assert [n_bytes for _, n_bytes, _ in allocs] == [BYTES] * N_KEPT, (how, allocs)
            stacks = {fields[0] for code, _, fields in found if code == 9}
            assert {stack for _, _, stack in allocs} <= stacks, (how, allocs, stacks)


@tap.test
def segments_are_what_the_process_holds():
    file = scratch / "held.json"
    _, (recording,) = recorded("exit", scratch / "segments", CUSHIM_STATS=str(file))
    found = read(recording)[1]
    segments = [(flags & 1, *fields) for code, flags, fields in found if code == 5]
    assert sum(-n_bytes if is_back else n_bytes for is_back, _, n_bytes in segments) == json.loads(file.read_text())["devices"][0]["kinds"]["device"]["held_bytes"], segments
    (total, name), = [fields for code, _, fields in found if code == 12]
    assert total > segments[0][2] and name, (total, name)


@tap.test
def stacks_can_be_left_out():
    _, files = recorded("exit", scratch / "no-stacks", CUSHIM_STACKS="none")
    assert not [code for code, _, _ in read(files[0])[1] if code in (9, 10)]


@tap.test
def large_copies_are_recorded_with_bytes_time_and_reason():
    staging = {"CUSHIM_COPY_STAGE": "on", "CUSHIM_COPY_STAGE_MIN": "1M"} if len(os.sched_getaffinity(0)) > 1 else {}
    for more, wanted in ((staging, [(0, ""), (1, ""), (2, "capture")]), ({"CUSHIM_COPY_STAGE_MIN": "1M"}, [(2, ""), (3, "")])):
        process = subprocess.Popen([CUSHIM, "run", LIVE, "copy"], stdout=subprocess.PIPE, text=True, env={
            **os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_TRACE": str(scratch / f"copies-{len(more)}"), "CUSHIM_LIVE": "0",
            **more})
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.communicate(timeout=60)
        file, = (scratch / f"copies-{len(more)}").glob("*.trace")
        copies = [(flags, *fields) for code, flags, fields in read(file)[1] if code == 11]
        if more or staging:
            assert [(flags, why) for flags, _, _, why in copies] == wanted, copies
        assert all(n_bytes == 1 << 20 and (ns > 0) for _, n_bytes, ns, _ in copies), copies


@tap.test
def nothing_is_recorded_unasked():
    folder = scratch / "unasked"
    result, files = recorded("exit", folder, CUSHIM_TRACE=None)
    assert not files and not folder.exists() and result.stderr == "", result


@tap.test
def a_folder_that_cannot_be_leaves_the_program_alone():
    (scratch / "file").write_text("")
    for folder, why in ((scratch / "file", "Not a directory"), (scratch / "no" / "such", "No such file or directory")):
        result, _ = recorded("exit", folder)
        assert result.returncode == 4 and result.stderr.count("\n") == 1 and why in result.stderr, result
    result = cushim("run", LIVE, "exit", LD_LIBRARY_PATH=str(SIM), CUSHIM_TRACE="relative")
    assert result.returncode == 4 and "does not have the form: /FOLDER" in result.stderr, result


tap.run()
