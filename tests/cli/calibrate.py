"""`cushim calibrate`, and what reports say by it.

    calibrate.py CUSHIM PRELOAD SIM_FOLDER LIVE HOLDER CC...
"""
import json
import os
import random
import re
import subprocess
import sys
import time

LIVE, HOLDER = sys.argv.pop(4), sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, PRELOAD, SIM, scratch, tap  # noqa: E402

cache = scratch / "cache"
FILE = cache / "cushim" / "calibration.json"


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k not in ("LD_PRELOAD", "RANK")}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live"), "XDG_CACHE_HOME": str(cache), **more}


def cushim(*words, **more):
    return subprocess.run([CUSHIM, *map(str, words)], env=environment(**more), text=True, capture_output=True, timeout=120)


def report_of(*words, **more):
    path = scratch / "report.json"
    cushim("run", f"--stats={path}", *words, **more)
    return json.loads(path.read_text())


def calibrated(sizes, report, **more):
    """The file has these (bytes, ns of an allocation, ns of a free) for the device of a report."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps({"schema": "cushim-calibration/1", "devices": [{
        "uuid": report["devices"][0]["uuid"], "driver": driver(report), "is_software": 1, "calibrated": 1764000000,
        "sizes": [dict(zip(("bytes", "alloc_ns", "free_ns"), size)) for size in sizes], **more}]}))


def driver(report):
    module = "/sys/module/nvidia/version"
    return f"{report['driver_version']}" + (" " + open(module).read().split()[0] if os.path.exists(module) else "")


def time_of(sizes, column, n_bytes):
    """Of one call: on a straight line between the sizes beside its own, or as the smallest."""
    if n_bytes <= sizes[0][0] or len(sizes) == 1:
        return sizes[0][column]
    for one, other in zip(sizes, sizes[1:]):
        if n_bytes <= other[0]:
            return one[column] + (other[column] - one[column]) * (n_bytes - one[0]) / (other[0] - one[0])
    return max(other[column], one[column] + (other[column] - one[column]) * (n_bytes - one[0]) / (other[0] - one[0]))


@tap.test
def it_measures_each_device_and_keeps_the_others():
    FILE.unlink(missing_ok=True)
    for words, n_devices in (((), 2), (["--device=1"], 2)):
        before = time.time()
        result = cushim("calibrate", *words, CUSHIM_SIM_DEVICES="2", CUSHIM_SIM_MEMORY="64M")
        assert result.returncode == 0 and not result.stderr and result.stdout.endswith(f"written to {FILE}\n"), result
        assert len(re.findall("^device ", result.stdout, re.MULTILINE)) == 2 - len(words) and "no GPU" in result.stdout, result
        assert all(len(line) <= 80 for line in result.stdout.splitlines()[:-1]), result
        assert FILE.stat().st_mode & 0o777 == 0o600
        devices = json.loads(FILE.read_text())["devices"]
        assert len({row["uuid"] for row in devices}) == len(devices) == n_devices, devices
        for row in devices:
            assert [size["bytes"] for size in row["sizes"]] == [4096 * 4 ** i for i in range(7)], row  # up to 16 MiB of 64
            assert all(size["alloc_ns"] > 0 and size["free_ns"] > 0 for size in row["sizes"]) and row["is_software"] == 1, row
        assert int(before) <= devices[1]["calibrated"] <= time.time(), devices


@tap.test
def it_measures_the_driver_and_not_cushim():
    """Under the preload it starts again without: the software device counts what reaches it."""
    result = cushim("run", CUSHIM, "calibrate", CUSHIM_SIM_MEMORY="64M", CUSHIM_LOG="info")
    assert result.returncode == 0 and "written to" in result.stdout, result
    assert "memory is pooled" not in result.stderr, result
    assert "memory is pooled" in cushim("run", LIVE, "exit", CUSHIM_LOG="info").stderr


@tap.test
def the_verdict_says_what_it_would_take_natively():
    report = report_of(LIVE, "exit")
    assert "natively" not in report or report["natively"], report
    calibrated([(512, 1000, 500), (2048, 4000, 700)], report)  # three blocks of 1,000 bytes, none freed
    least, most = 3 * time_of([(512, 1000), (2048, 4000)], 1, 1000), 3 * (1000 + 3000 * 1000 / 2048)
    for how in ("exit", "signal9"):
        found = report_of(LIVE, how)["natively"]
        assert found["calibrated"] == "2025-11-24" and found["is_software"] is True, found
        assert 3000 <= found["least_ns"] <= least <= found["most_ns"], (found, least, most)
        text = cushim("run", "--stats", LIVE, how).stderr
        wanted = re.search(r"\n         natively these and their frees take ([\d.]+ us) to ([\d.]+ us), waits apart\n"
                           r"         \(calibrated 2025-11-24, no GPU; their mean size is known, not each\)\n", text)
        assert wanted, text
        assert all(len(line) <= 80 for line in text.splitlines() if "natively" in line or "calibrated" in line), text
    import jsonschema
    schema = json.loads((fixture.ROOT / "docs/schema/report-1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report_of(LIVE, "exit"))


@tap.test
def what_it_says_is_true_of_all_sizes_that_there_can_have_been():
    """HOLDER's sizes are known: four of 1 MiB, and 200 times 4,000 bytes that go and 1,000 that stay."""
    chance = random.Random(7)
    report = report_of(HOLDER)
    kind = report["devices"][0]["kinds"]["device"]
    requests = [1 << 20] * 4 + [4000] * kind["frees"] + [1000] * (kind["requests"] - kind["frees"] - 4)
    assert sum(requests) == kind["requested_bytes"], kind
    for turn in range(20):
        sizes, at = [], 0
        for _ in range(chance.randint(1, 8)):
            at += chance.randint(1, 1 << chance.choice((9, 12, 20)))
            sizes.append((at, chance.randint(1, 10 ** chance.choice((3, 6))), chance.randint(1, 10 ** 4)))
        calibrated(sizes, report)
        found = report_of(HOLDER)["natively"]
        true = sum(time_of(sizes, 1, n) for n in requests) + kind["frees"] * time_of(sizes, 2, 4000)
        assert found["least_ns"] <= true + 2 and true <= found["most_ns"] + 2, (turn, sizes, true, found)
    calibrated([(4096, 700, 300)], report)  # one size says the same of all
    found = report_of(HOLDER)["natively"]
    assert found["least_ns"] == found["most_ns"] == 700 * kind["requests"] + 300 * kind["frees"], found


@tap.test
def another_device_or_driver_is_not_taken_for_this_one():
    report = report_of(LIVE, "exit")
    sizes = [(512, 1000, 500)]
    calibrated(sizes, report)
    assert "natively" in report_of(LIVE, "exit")
    for more in ({"uuid": "GPU-00000000-0000-0000-0000-000000000000"}, {"driver": "12000"}, {"driver": ""}, {"uuid": 7}):
        calibrated(sizes, report, **more)
        assert "natively" not in report_of(LIVE, "exit"), more


@tap.test
def what_is_no_calibration_harms_no_report():
    report = report_of(LIVE, "exit")
    calibrated([(512, 1000, 500)], report)
    good = FILE.read_text()
    bad = ["", "{", "[]", "7", "null", good.replace("/1", "/2"), good[:-9], good.replace("512", "0"), good.replace("512", "-5"),
           good.replace("512", '"x"'), good.replace("1000", "0"), good.replace("1000", "1e30"), good.replace("1764000000", "99999999999"),
           good.replace('"sizes": [', '"sizes": [7, '), good.replace('"sizes": [{', '"sizes": {"x": [{').replace("}]}]", "}]}}]"),
           "[" * 1000, '{"schema": "cushim-calibration/1", "devices": [{"uuid": "x", "sizes": []}]}']
    for text in bad:
        FILE.write_text(text)
        result = cushim("run", "--stats", LIVE, "exit")
        assert result.returncode == 4 and result.stderr.count("verdict") == 1 and "natively these" not in result.stderr, (text, result)
    many = {"uuid": "x", "driver": "y", "sizes": [{"bytes": i + 1, "alloc_ns": 1, "free_ns": 1} for i in range(16)]}
    FILE.write_text(json.dumps({"schema": "cushim-calibration/1", "devices": [{**many, "uuid": f"GPU-{i}"} for i in range(200)]}))
    assert cushim("run", "--stats", LIVE, "exit").returncode == 4
    result = cushim("calibrate", CUSHIM_SIM_MEMORY="64M")  # a full file: the oldest go
    devices = json.loads(FILE.read_text())["devices"]
    assert result.returncode == 0 and len(devices) == 64 and devices[-1]["uuid"] == report["devices"][0]["uuid"], result
    FILE.unlink()
    FILE.mkdir()
    result = cushim("calibrate", CUSHIM_SIM_MEMORY="64M")
    assert result.returncode == 125 and result.stderr.count("\n") == 1 and str(FILE) in result.stderr, result
    assert "natively" not in report_of(LIVE, "exit")
    FILE.rmdir()


@tap.test
def a_wrong_command_line_or_no_device_is_one_line():
    for words in (["--device="], ["--device=x"], ["--device=-1"], ["--device=99"], ["--devise=1"], ["x"], ["--device=0", "y"]):
        result = cushim("calibrate", *words)
        assert result.returncode == 2 and result.stderr.count("\n") == 1 and not result.stdout, (words, result)
    result = cushim("calibrate", "--device=5")
    assert result.returncode == 1 and "no device of that number" in result.stderr and result.stderr.count("\n") == 1, result
    result = cushim("calibrate", LD_LIBRARY_PATH="/nowhere")
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result
    result = cushim("calibrate", XDG_CACHE_HOME="relative", HOME="")
    assert result.returncode == 125 and "neither XDG_CACHE_HOME nor HOME" in result.stderr, result
    assert cushim("calibrate", "--help").stdout.startswith("NAME\n    cushim calibrate - ")


tap.run()
