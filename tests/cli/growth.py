"""Which sites may leak, by the report of a run and by that of a recording, which have one rule.

    growth.py CUSHIM PRELOAD SIM_FOLDER GROWTH CC...

GROWTH is growth.c.
"""
import json
import re
import subprocess
import sys
import time

GROWTH = sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, cushim, scratch, tap  # noqa: E402
from live_fixture import environment, report_of  # noqa: E402


HERE = environment(CUSHIM_LIVE_DIR=str(scratch / "recorded"))


def of_keep(sites):
    """Of each site in the function `keep`, of which there is one: its live blocks, and whether it grows."""
    return [(site["live_blocks"], site["grows"]) for site in sites if site["stack"] and site["stack"][0]["function"] == "keep"]


def of_recording(folder):
    """The same of a recording, which may have nothing yet."""
    recording, = json.loads(cushim("report", "--format=json", str(folder)).stdout) or [{"memory": []}]
    return of_keep(recording["memory"][0]["sites"]) if recording["memory"] else []


def verdicts(situation):
    """Whether `keep` grows, by each of both reports."""
    _, report = report_of("--sites=1", GROWTH, situation)
    folder = scratch / f"{situation}.cushim"
    cushim("record", "-o", str(folder), GROWTH, situation, **HERE)
    return [[grows for _, grows in found] for found in (of_keep(report["sites"]), of_recording(folder))]


def test_of(situation, name, grows):
    def judged():
        found = verdicts(situation)
        assert found == [[grows], [grows]], found
    judged.__name__ = name
    tap.test(judged)


for row in (("leak", "a_program_that_only_asks_may_leak", True),
            ("stop", "a_pause_hides_no_leak", True),
            ("load", "a_program_that_loads_and_then_computes_does_not_leak", False),
            ("kill", "neither_does_one_that_is_killed_while_it_computes", False),
            ("result", "neither_does_one_that_asks_once_more_at_its_end", False),
            ("warm", "a_cache_that_is_full_does_not_leak", False),
            ("burst", "a_burst_that_is_given_back_does_not_leak", False)):
    test_of(*row)

@tap.test
def the_time_of_a_recording_has_the_pause_at_its_end():
    for situation in "load", "kill":
        text = cushim("report", "--format=text", str(scratch / f"{situation}.cushim")).stdout
        assert re.search(r"^  recorded [\d.]+ s \(no GPU\), ", text, re.MULTILINE), text


@tap.test
def a_program_that_still_computes_stops_being_one_that_may_leak():
    folder = scratch / "run.cushim"
    process = subprocess.Popen([CUSHIM, "record", "-o", str(folder), GROWTH, "run"], env=HERE, stderr=subprocess.DEVNULL)
    for _ in range(300):
        time.sleep(0.1)
        if folder.exists() and list(folder.glob("*.trace")) and of_recording(folder) == [(100, False)]:
            break
    found = of_recording(folder)
    process.terminate()
    process.wait()
    assert found == [(100, False)], found


tap.run()
