"""Mapped memory and arrays in recordings, sites and reports, of a program whose amounts are known.

    mapped.py CUSHIM PRELOAD SIM_FOLDER MAPPER CC...

MAPPER is mapper.c.
"""
import json
import os
import re
import sys

MAPPER = os.path.abspath(sys.argv.pop(4))

import fixture  # noqa: E402
from fixture import SIM, cushim, scratch, tap  # noqa: E402

PAGE, N_STEPS, N_WEIGHTS, N_ACTIVATIONS, N_LEAKED = 2 << 20, 50, 4, 8, 3
OF_A_STEP = PAGE * N_ACTIVATIONS * (N_ACTIVATIONS + 1) // 2
TEXTURE = 4 << 20
PEAK = PAGE + N_WEIGHTS * PAGE + TEXTURE + OF_A_STEP + N_LEAKED * PAGE
AT_END = (N_WEIGHTS - 1 + N_LEAKED) * PAGE
N_REQUESTS = N_WEIGHTS + N_STEPS * N_ACTIVATIONS + N_LEAKED
FORMATS = ("html", "perfetto", "folded", "pprof", "trace-text")


def recorded():
    folder = scratch / "recorded"
    if not folder.exists():
        result = cushim("record", "-o", str(folder), MAPPER, LD_LIBRARY_PATH=str(SIM))
        assert f"cushim: {folder}: 1 process, " in result.stderr, result
    return str(folder)


def sites(rows):
    return {site["stack"][0]["function"]: site for site in rows if site["stack"]}


@tap.test
def a_recording_has_each_byte_by_the_place_that_asked():
    one, = json.loads(cushim("report", "--format=json", recorded()).stdout)
    device, = fixture.valid(one)["memory"]
    assert device["memory"] == "device 0" and device["requests"] == N_REQUESTS + 2, device
    assert (device["peak_live_bytes"], device["live_bytes"], device["live_blocks"]) == (PEAK, AT_END, N_WEIGHTS - 1 + N_LEAKED), device
    assert device["peak_held_bytes"] == PEAK, device
    found = sites(device["sites"])
    step, weights, leak, texture = (found[name] for name in ("step_takes", "weights_take", "leaker_takes", "texture_takes"))
    assert (step["bytes_at_peak"], step["blocks_at_peak"], step["live_bytes"], step["frees"]) == (OF_A_STEP, N_ACTIVATIONS, 0, N_STEPS * N_ACTIVATIONS), step
    assert (weights["bytes_at_peak"], weights["live_bytes"], weights["frees"]) == (N_WEIGHTS * PAGE, (N_WEIGHTS - 1) * PAGE, 1), weights
    assert (leak["bytes_at_peak"], leak["live_blocks"]) == (N_LEAKED * PAGE, N_LEAKED), leak
    assert (texture["bytes_at_peak"], texture["live_bytes"]) == (TEXTURE, 0), texture


@tap.test
def idle_memory_is_held_and_serves_without_a_call():
    folder, out = scratch / "idle", scratch / "idle.json"
    assert cushim("record", f"--stats={out}", "-o", str(folder), MAPPER, LD_LIBRARY_PATH=str(SIM)).returncode == 0
    kinds = json.loads(out.read_text())["devices"][0]["kinds"]
    assert kinds["mapped"]["idle_bytes"] >= 8 * PAGE, kinds
    held, n = re.search(r"^held +([0-9.]+) MiB in (\d+) segments: live 0 B, idle \1 MiB$", cushim("report", "--at=end", str(folder)).stdout, re.MULTILINE).groups()
    assert float(held) * (1 << 20) == kinds["mapped"]["idle_bytes"] + kinds["device"]["held_bytes"], (held, kinds)
    one, = json.loads(cushim("report", "--format=json", str(folder)).stdout)
    assert one["memory"][0]["no_call"] == kinds["mapped"]["no_call"] > 0, one["memory"][0]


@tap.test
def people_read_the_true_peak_first():
    text = cushim("report", recorded()).stdout
    assert re.search(r"^peak      92\.0 MiB live after .*; 92\.0 MiB held at most$", text, re.M) and PEAK == 92 << 20, text
    assert re.search(r"72\.0 MiB +8 blocks\n +step_takes mapper\.c", text), text
    moment = cushim("report", "--at=peak", "--by=context", recorded()).stdout
    assert "the driver's own" in moment, moment


@tap.test
def every_format_has_it():
    for name in FORMATS:
        out = scratch / f"mapped.{name}"
        result = cushim("report", f"--format={name}", "-o", str(out), recorded())
        assert result.returncode == 0 and out.stat().st_size > 100, (name, result)
    assert " mapped alloc 0x" in (scratch / "mapped.trace-text").read_text()
    assert " array free 0x" in (scratch / "mapped.trace-text").read_text()


@tap.test
def a_report_agrees_with_the_recording_and_sites_have_the_places():
    out = scratch / "mapped.json"
    result = cushim("run", "--sites=1K", f"--stats={out}", MAPPER, LD_LIBRARY_PATH=str(SIM))
    assert result.returncode == 0, result
    report = fixture.valid(json.loads(out.read_text()))
    device, = report["devices"]
    mapped, array = device["kinds"]["mapped"], device["kinds"]["array"]
    assert (mapped["requests"], mapped["frees"], mapped["live_bytes"]) == (N_REQUESTS, N_REQUESTS - N_WEIGHTS + 1 - N_LEAKED, AT_END), mapped
    assert mapped["held_bytes"] == mapped["live_bytes"] + mapped["idle_bytes"] <= PEAK, mapped
    assert mapped["no_call"] > N_STEPS * N_ACTIVATIONS * 9 // 10, mapped
    assert mapped["peak_live_bytes"] == PEAK - PAGE - TEXTURE, mapped
    assert (array["requests"], array["frees"], array["live_bytes"], array["peak_live_bytes"]) == (1, 1, 0, TEXTURE), array
    assert device["virtual"] == {name: mapped[name] for name in ("requests", "requested_bytes", "live_bytes", "peak_live_bytes")}, device
    found = sites(report["sites"])
    assert found["weights_take"]["live_bytes"] == (N_WEIGHTS - 1) * PAGE, found
    assert found["leaker_takes"]["live_bytes"] == N_LEAKED * PAGE and found["step_takes"]["live_bytes"] == 0, found


@tap.test
def people_read_how_much_of_it_made_no_driver_call():
    on, off = (cushim("run", "--stats", *words, MAPPER, LD_LIBRARY_PATH=str(SIM)).stderr for words in ((), ("--mapped=off",)))
    assert re.search(r"by cuMemCreate \(407 calls\):\n +9\d\.\d+ % of these made no driver call$", on, re.M) and N_REQUESTS == 407, on
    assert re.search(r"by cuMemCreate \(407 calls\): forwarded$", off, re.M), off


@tap.test
def a_plan_counts_it_against_a_limit():
    plan = cushim("replay", "--plan", "--with=exact,exact+limit=64M", "--least-limit", recorded()).stdout
    least = re.search(r"with exact: ([\d.]+) MiB", plan)
    assert least and int(least[1].split(".")[0]) << 20 == PEAK, plan
    assert re.search(r"exact\+limit=64M .* [1-9]\d*$", plan, re.M), plan


KINDS = {"mapped": "mapped", "async": "async", "pool": "async", "array": "array", "levels": "array", "pitch": "device", "plain": "device"}
MIB = 1 << 20


def refused(how, *words, **more):
    out = scratch / "refused.json"
    result = cushim("run", f"--stats={out}", MAPPER, how, *words, LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_MEMORY="64M", **more)
    assert result.returncode == 3, result
    report = fixture.valid(json.loads(out.read_text()))
    told, = report["out_of_memory"]
    return result.stderr, report, told


@tap.test
def out_of_memory_is_told_once_of_each_kind_with_the_device_as_it_was():
    for how, kind in KINDS.items():
        text, report, told = refused(how)
        assert (told["kind"], told["asked_bytes"], told["is_native"]) == (kind, 48 * MIB, how != "plain"), told
        split = {name: told[name + "_bytes"] for name in ("total", "free", "plain", "async", "mapped", "array")}
        assert split == {"total": 64 * MIB, "free": 44 * MIB, "plain": 2 * MIB, "async": 6 * MIB, "mapped": 8 * MIB, "array": 4 * MIB}, (how, told)
        assert text.count("out of memory #") == 1 and f"48.0 MiB of {kind} memory for device 0" in text, text
        assert "  device     64.0 MiB = cudaMalloc 2.00 MiB + async 6.00 MiB + mapped 8.00 MiB\n" in text, text
        assert "             + array 4.00 MiB + other 0 B + free 44.0 MiB\n" in text, text
        assert "20.0 MiB are live, so it cannot fit" in text, text
        assert not told["served_bytes"], told
        assert any(frame["function"].startswith("ask_") for frame in told["asked_at"]), told
        assert sum(kinds["refused"] for kinds in report["devices"][0]["kinds"].values()) == 1, report


@tap.test
def a_probe_that_the_program_got_over_is_told_as_one():
    for how in KINDS:
        text, _, told = refused(how, "probe")
        assert told["served_bytes"] == 32 * MIB, (how, told)
        shown = cushim("run", "--stats", "--oom=off", MAPPER, how, "probe", LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_MEMORY="64M").stderr
        assert "  a probe    32.0 MiB were served right after: the program got over it\n" in shown and "  advice" not in shown, shown


@tap.test
def a_limit_refuses_each_kind_and_says_so():
    for how, kind in KINDS.items():
        text, _, told = refused(how, CUSHIM_LIMIT="40M")
        assert told["kind"] == kind and told["limit_bytes"] == 40 * MIB, told
        assert "--limit allows 40.0 MiB in all: ask for less at a time,\n" in text, (how, text)


@tap.test
def a_process_whose_only_request_was_refused_has_a_report():
    for how, kind in KINDS.items():
        result = cushim("run", "--stats", "--oom=off", MAPPER, how, "alone", LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_MEMORY="32M")
        assert result.returncode == 3 and f"out of memory #1: 48.0 MiB of {kind} memory for device 0" in result.stderr, (how, result)
        assert "verdict: there was no memory for 1 request of device memory, and no other came" in result.stderr, (how, result)


@tap.test
def what_asks_for_no_number_of_bytes_is_told_of_too():
    """Contexts, code and launches of graphs, of which nobody knows what they would have taken."""
    for how, kind, function in ("context", "context", "ask_context"), ("module", "context", "ask_module"), ("launch", "graph", "ask_graph"):
        out = scratch / f"unknown-{how}.json"
        result = cushim("run", f"--stats={out}", MAPPER, how, LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_MEMORY="64M", CUSHIM_SIM_KERNELS="skip")
        assert result.returncode == 3 and result.stderr.count("out of memory #") == 1, result
        assert f"out of memory #1: an unknown amount of {kind} memory for device 0\n" in result.stderr and " 20.0 MiB are live, and " in result.stderr, result
        report = fixture.valid(json.loads(out.read_text()))
        told, = report["out_of_memory"]
        assert (told["kind"], told["asked_bytes"], told["free_bytes"], told["is_native"]) == (kind, 0, 44 * MIB, True), told
        assert function in [frame["function"] for frame in told["asked_at"]], told
        assert report["devices"][0]["kinds"][kind]["refused"] == 1, report


@tap.test
def a_recording_has_the_refused_request():
    for how in KINDS:
        folder = scratch / f"refused-{how}"
        result = cushim("record", "-o", str(folder), MAPPER, how, LD_LIBRARY_PATH=str(SIM), CUSHIM_SIM_MEMORY="64M")
        assert result.returncode == 3, result
        text = cushim("report", str(folder)).stdout
        assert re.search(rf"^refused   1 request found no memory:\s+ask_{how} ", text, re.M), text


tap.run()
