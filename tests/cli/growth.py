"""Which sites may leak, by the report of a run and by that of a recording, which have one rule.

    growth.py CUSHIM PRELOAD SIM_FOLDER GROWTH CC...

GROWTH is growth.c.
"""
import json
import sys

GROWTH = sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import cushim, scratch, tap  # noqa: E402
from live_fixture import environment, report_of  # noqa: E402


def verdicts(situation):
    """Whether `keep` grows, by each of both reports."""
    _, report = report_of("--sites=1", GROWTH, situation)
    folder = scratch / f"{situation}.cushim"
    cushim("record", "-o", str(folder), GROWTH, situation, **environment(CUSHIM_LIVE_DIR=str(scratch / "recorded")))
    recording, = json.loads(cushim("report", "--format=json", str(folder)).stdout)
    sites = report["sites"], recording["memory"][0]["sites"]
    return [[site["grows"] for site in of if site["stack"] and site["stack"][0]["function"] == "keep"] for of in sites]


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

tap.run()
