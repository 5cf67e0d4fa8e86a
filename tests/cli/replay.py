"""What `cushim replay --plan` says: of recordings with the setting of their run, what was; of others, what the engine would do.

    replay.py CUSHIM PRELOAD SIM_FOLDER HOLDER TRAINER DAMAGED CC...

HOLDER is holder.c, TRAINER trainer.cpp, DAMAGED how many damaged recordings are planned.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys

HOLDER, TRAINER = (os.path.abspath(sys.argv.pop(4)) for _ in range(2))
DAMAGED = int(sys.argv.pop(4))

from fixture import CUSHIM, SIM, cushim, scratch, tap, valid  # noqa: E402

MIB = 1 << 20
PROGRAM = '''
import ctypes, random, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)):
    assert result == 0, result
rng, blocks = random.Random(int(sys.argv[1])), []
for i in range(1500):
    if blocks and rng.random() < 0.48:
        assert cuda.cuMemFree_v2(blocks.pop(rng.randrange(len(blocks)))) == 0
        continue
    block = ctypes.c_uint64()
    if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(2 ** rng.uniform(4, 25)))) == 0:
        blocks.append(block)
'''


def recorded(name, *command, **more):
    folder = scratch / name
    result = cushim("record", "-o", str(folder), *map(str, command), LD_LIBRARY_PATH=str(SIM), **more)
    assert f"cushim: {folder}: 1 process, " in result.stderr, result
    return folder


def planned(recording, *words):
    """{setting: {memory: sums}} of a recording."""
    result = cushim("replay", "--plan", "--json", *words, str(recording))
    assert result.returncode == 0 and result.stderr == "", result
    one, = map(valid, json.loads(result.stdout))
    return {row["with"]: {memory["memory"]: memory for memory in row["memory"]} | ({"least": row["least_limit_bytes"]} if "least_limit_bytes" in row else {})
            for row in one["settings"]}


# ---- recordings that no program made, as docs/internals/trace-format.md says ----

def number(value):
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def signed(value):
    return number(2 * value if value >= 0 else -2 * value - 1)


def made(name, events):
    """A recording of (seconds, "alloc" or "free", block, bytes), all of one place."""
    body, last_ns, last_address = b"\x60" + number(0) + number(0) + number(0) + number(77) + number(1), 0, 0
    for seconds, what, block, n_bytes in events:
        ns, address = int(seconds * 1e9) // 16 * 16, block << 30
        body += bytes([0x10 if what == "alloc" else 0x20]) + number((ns - last_ns) >> 4) + signed((address >> 8) - (last_address >> 8))
        body += number(n_bytes) + number(0) if what == "alloc" else b""
        last_ns, last_address = ns, address
    head = struct.pack("<8sII", b"CUSHIMTR", 2, 4096).ljust(4096, b"\0")
    size = 16384
    while size < len(body) + 64:
        size *= 2
    file = scratch / f"{name}.trace"
    file.write_bytes(head + (struct.pack("<8s5Q", b"CUSHIMCH", size, 0, 0, 1000000000, len(body)).ljust(64, b"\0") + body).ljust(size, b"\0"))
    return file


@tap.test
def the_plan_of_a_runs_own_setting_is_what_the_run_had():
    script = scratch / "random.py"
    script.write_text(PROGRAM)
    seed = random.randrange(1 << 32)
    programs = {"holder": [HOLDER], "trainer": [TRAINER], "random": [sys.executable, script, seed], "more": [sys.executable, script, seed + 1]}
    for name, command in programs.items():
        for free, more in (("exact", {}), ("relaxed", {}), ("exact", {"keep": "0"}), ("exact", {"buckets": "pow2"}), ("exact", {"limit": "300M"})):
            setting = "+".join([free, *(f"{option}={value}" for option, value in more.items())])
            folder = recorded(f"{name}-{setting}", *command, CUSHIM_FREE=free, **{f"CUSHIM_{option.upper()}": value for option, value in more.items()})
            plan = planned(folder, f"--with={setting}")
            summary, = json.loads(cushim("report", "--format=json", str(folder), PATH="/nowhere").stdout)
            for memory in summary["memory"]:
                ours, was = plan[setting][memory["memory"]], plan["as recorded"][memory["memory"]]
                for field, theirs in {"peak_held_bytes": "peak_held_bytes", "peak_live_bytes": "peak_live_bytes", "requests": "requests"}.items():
                    assert was[field] == memory[theirs], (seed, setting, was, memory)
                # the engine looks at a clock that ticks each few milliseconds; the recording does not have when
                loose = {"driver_calls": was["driver_calls"] // 2 + 4, "peak_held_bytes": was["peak_held_bytes"] // 10 + 2 * MIB}
                for field, value in was.items():
                    if field in loose and (name, free) != ("holder", "exact"):
                        assert abs(ours[field] - value) <= loose[field], (seed, name, setting, ours, was)
                    else:
                        assert ours[field] == value, (seed, name, setting, ours, was)


@tap.test
def settings_differ_as_they_should():
    plan = planned(recorded("differ", TRAINER), "--with=native,exact,exact+keep=0,exact+limit=32M", "--least-limit")
    native, exact, bare, limited = (plan[name]["device 0"] for name in ("native", "exact", "exact+keep=0", "exact+limit=32M"))
    assert native["driver_calls"] > 1900 > 100 > exact["driver_calls"] and "peak_held_bytes" not in native, plan
    assert bare["peak_held_bytes"] < exact["peak_held_bytes"] and limited["peak_held_bytes"] <= 32 * MIB and limited["refused"] > exact["refused"], plan
    least = plan["exact"]["least"]
    assert "least" not in plan["native"] and exact["peak_live_bytes"] <= least <= exact["peak_held_bytes"], plan
    folder = scratch / "differ"
    enough, less = (f"exact+limit={n // MIB}M" for n in (least, least - 2 * MIB))
    plan = planned(folder, f"--with={enough},{less}")
    assert plan[enough]["device 0"]["refused"] == exact["refused"] < plan[less]["device 0"]["refused"], plan


@tap.test
def time_goes_by_as_it_did():
    """What was not used for long is given back when more is asked for: so it is of a run with pauses, and not of one without."""
    held = {}
    for step in (0.001, 10):
        events, t = [(0, "alloc", 9, 100 * MIB)], 0
        for i in range(6):
            t += step
            events += [(t, "alloc", 1, 400 * MIB), (t, "free", 1, 0)]
        for i in range(4):
            t += step
            events += [(t, "alloc", 100 + i, 30 * MIB)]
        held[step] = planned(made(f"step-{step}", events), "--with=exact")["exact"]["device 0"]["peak_held_bytes"]
    assert held[10] < held[0.001], held


@tap.test
def a_request_of_no_bytes_is_passed_over():
    file = made("nothing", [(0, "alloc", 1, MIB), (0.1, "alloc", 2, 0), (0.2, "free", 2, 0)])
    assert planned(file, "--with=exact")["exact"]["device 0"]["peak_live_bytes"] == MIB


@tap.test
def a_person_reads_it_in_80_columns():
    result = cushim("replay", "--plan", "--with=native,exact,relaxed+keep=100G+limit=1000G+buckets=pow2", "--least-limit", str(recorded("read", TRAINER)))
    assert result.returncode == 0 and max(map(len, result.stdout.splitlines())) <= 80, result.stdout
    for pattern in (r"^trainer   process \d+, planned without a device: no free waits$", r"^device 0, [\d,]+ requests$", r"^  as recorded  +\d+ ",
                    r"^  native +1,\d{3} +69\.1 MiB +- +- +1$", r"^  exact +\d+ +69\.1 MiB +112 MiB +1\.62 +1$", r"^least limit that serves as much with exact: [\d.]+ MiB$"):
        assert re.search(pattern, result.stdout, re.MULTILINE), (pattern, result.stdout)


@tap.test
def what_cannot_be_planned_is_said_in_one_line():
    folder = recorded("some", HOLDER)
    (scratch / "text").write_text("no recording")
    for words, code in (((), 2), (("--plan",), 2), (("--plan", folder, folder), 2), (("--plan", "--nonsense", folder), 2), (("--plan", "--with=", folder), 2),
                        (("--plan", "--with=fast", folder), 2), (("--plan", "--with=exact+keep=x", folder), 2), (("--plan", "--with=exact+check=full", folder), 2),
                        (("--plan", "--with=native+keep=0", folder), 2), (("--plan", "--with=" + ",".join(["exact"] * 17), folder), 2),
                        (("--plan", "--with=" + "exact+" * 40 + "exact", folder), 2), (("--plan", scratch / "text"), 1), (("--plan", "/nowhere"), 1)):
        result = cushim("replay", *map(str, words))
        assert result.returncode == code and result.stderr.count("\n") == 1 and result.stdout == "", (words, result)
    result = subprocess.run([CUSHIM, "replay", "--plan", folder], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
    assert result.returncode == 125 and "No space left" in result.stderr, result


@tap.test
def damaged_recordings_are_planned_as_far_as_they_go():
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    whole = next(recorded("damaged", HOLDER).glob("*.trace")).read_bytes()
    used = 4096 + 64 + int.from_bytes(whole[4096 + 40:4096 + 48], "little")
    file = scratch / "damaged.trace"
    for i in range(DAMAGED):
        data = bytearray(whole[:rng.randrange(4096 + 65, used)] if i % 4 == 0 else whole)
        for _ in range(rng.choice((1, 3, 20))):
            data[rng.randrange(4096 + 64, min(used, len(data)))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        result = cushim("replay", "--plan", "--with=exact,relaxed+limit=1G", str(file))
        assert result.returncode in (0, 1) and result.stderr.count("\n") <= 1, (seed, i, result)


tap.run()
