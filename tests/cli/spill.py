"""What is told of memory that lies on the host in place of the device (CUSHIM_SPILL).

    spill.py CUSHIM PRELOAD SIM_FOLDER MEMBER CC...

MEMBER is member.c.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

MEMBER = pathlib.Path(sys.argv.pop(4)).resolve()

from fixture import CUSHIM, SIM, cushim, scratch, tap  # noqa: E402

MIB = 1 << 20
SIM_DEVICE = {"LD_LIBRARY_PATH": str(SIM), "CUSHIM_SIM_MEMORY": "64M"}


def told_of(lines, *options, look=lambda process: None):
    """The report of a program that does this, what `look` found while it ran, and its answers."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    env |= SIM_DEVICE | {"CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    report = scratch / "report.json"
    with subprocess.Popen([CUSHIM, "run", f"--stats={report}", *options, MEMBER], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        answers = []
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(process.stdout.readline().strip())
        seen = look(process)
        _, errors = process.communicate()
    assert errors == "", errors
    return json.loads(report.read_text()), seen, answers


def screens(*commands):
    return lambda _: [cushim(*words).stdout for words in commands]


@tap.test
def stat_top_metrics_and_the_report_tell_how_much_lies_on_the_host():
    report, (stat, one, findings, top, metrics), answers = told_of(
        ["alloc 60", "alloc 40", "alloc 50", "told"], "--spill=128M",
        look=screens(["stat"], ["stat", "member"], ["stat", "--findings", "member"], ["top", "--once"], ["metrics"]))
    assert answers == ["had", "had", "had", "42 of 192"], answers
    finding = "finding: 90.0 MiB lie in host memory: kernels reach them at PCIe speed\n"
    row, spilled = stat.splitlines()[1:3]
    assert row.split()[3:7] == ["60.0", "MiB", "60.0", "MiB"] and spilled.split() == "90.0 MiB lie in host memory".split(), stat
    assert finding in one and finding in findings, (one, findings)
    assert top.splitlines()[-1] == "  90.0 MiB lie in host memory", top
    assert 'kind="spilled"' in metrics and [line for line in metrics.splitlines() if line.startswith("cushim_held_bytes")
                                            and 'kind="spilled"' in line and line.endswith(f" {90 * MIB}")], metrics
    kinds = report["devices"][0]["kinds"]
    assert (kinds["spilled"]["requests"], kinds["spilled"]["held_bytes"], kinds["device"]["live_bytes"]) == (2, 90 * MIB, 60 * MIB), kinds
    assert report["out_of_memory"] == [] and kinds["device"]["out_of_memory"] == 0, report


@tap.test
def a_report_says_what_lay_there_when_all_is_freed():
    _, (one,), _ = told_of(["alloc 60"], "--spill=128M", look=screens(["stat", "member"]))
    assert "host memory" not in one, one
    _, (one,), _ = told_of(["alloc 60", "alloc 40", "free", "wait"], "--spill=128M", look=screens(["stat", "member"]))
    assert "finding: 40.0 MiB lay in host memory: kernels reached them at PCIe speed\n" in one, one


@tap.test
def the_sites_of_a_report_tell_whose_it_is():
    report, (text,), _ = told_of(["alloc 60", "alloc 40", "alloc 50"], "--spill=128M", "--sites=1", look=screens(["stat", "--sites", "member"]))
    assert sorted((site["live_bytes"], site.get("spilled", False)) for site in report["sites"]) == [(60 * MIB, False), (90 * MIB, True)], report["sites"]
    rows = [line for line in text.splitlines() if line.startswith("  site ")]
    assert [row.endswith("  in host memory") for row in rows] == [True, False], text


@tap.test
def what_the_program_maps_is_counted_as_spilled():
    report, (text,), answers = told_of(["alloc 60", "mapped 40", "mapped 50", "told"], "--spill=128M", "--sites=1",
                                       look=screens(["stat", "--sites", "member"]))
    assert answers == ["had", "had", "had", "42 of 192"], answers
    kinds = report["devices"][0]["kinds"]
    assert (kinds["spilled"]["requests"], kinds["spilled"]["held_bytes"], "mapped" in kinds) == (2, 90 * MIB, False), kinds
    assert sorted((site["live_bytes"], site.get("spilled", False)) for site in report["sites"]) == [(60 * MIB, False), (90 * MIB, True)], report["sites"]
    assert [row.endswith("  in host memory") for row in text.splitlines() if row.startswith("  site ")] == [True, False], text


@tap.test
def the_page_of_a_recording_has_a_band_of_it():
    env = SIM_DEVICE | {"CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    subprocess.run([CUSHIM, "record", "--spill=128M", "-o", scratch / "spilled.cushim", MEMBER], env=os.environ | env, text=True, capture_output=True, check=True,
                   input="alloc 60\nalloc 40\nmapped 50\n")
    subprocess.run([CUSHIM, "report", "-o", scratch / "spilled.html", scratch / "spilled.cushim"], capture_output=True, check=True)
    data = re.search(r'id="data">(.*?)</script>', (scratch / "spilled.html").read_text(), re.DOTALL)[1]
    (scope,) = json.loads(data)["recordings"][0]["scopes"]
    assert scope["kinds"] == ["device", "spilled"] and scope["peak"][3:] == [60 * MIB, 90 * MIB], scope


@tap.test
def a_limit_and_a_spill_together_are_the_size_of_the_device():
    _, _, answers = told_of(["told", "alloc 30", "alloc 30", "alloc 30", "told"], "--limit=32M", "--spill=64M")
    assert answers == ["96 of 96", "had", "had", "had", "6 of 96"], answers


@tap.test
def a_refused_export_is_one_line():
    env = SIM_DEVICE | {"CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    done = subprocess.run([CUSHIM, "run", "--spill=64M", MEMBER], env=os.environ | env, text=True, capture_output=True, input="alloc 60\nmapped 40\nexport\n")
    assert done.stdout.split() == ["had", "had", "refused"], done
    assert done.stderr.count("\n") == 1 and "whose block lies in host memory (CUSHIM_SPILL)" in done.stderr, done


@tap.test
def a_request_beyond_it_is_out_of_memory_once():
    env = SIM_DEVICE | {"CUSHIM_LIVE_DIR": str(scratch / "live-pages")}
    done = subprocess.run([CUSHIM, "run", "--spill=64M", "--oom=line", MEMBER], env=os.environ | env, text=True, capture_output=True,
                          input="alloc 60\nalloc 40\nalloc 100\nfree\nalloc 60\n")
    assert done.stdout.split() == ["had", "had", "refused", "done", "had"], done
    assert done.stderr.count("out of memory #") == 1, done.stderr
    done = subprocess.run([CUSHIM, "run", "--spill=64M", MEMBER], env=os.environ | env, text=True, capture_output=True, input="alloc 60\nalloc 40\nalloc 100\n")
    assert "  spilled    40.0 MiB of --spill=64M lie in host memory\n" in done.stderr, done.stderr


tap.run()
