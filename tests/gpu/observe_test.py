#!/usr/bin/env python3
"""The suite `observe` judges a recording by all kinds of memory: on a software device whose contexts take some, as on a GPU.

    observe_test.py BUILD_FOLDER SIM_FOLDER PROGRAM
"""
import copy
import functools
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / "suites"), str(pathlib.Path(__file__).resolve().parents[1])]
import host as machine
import observe
import tap

BUILD, SIM, PROGRAM = sys.argv[1:]
CONTEXT_BYTES = 64 << 20


@functools.cache
def part():
    with tempfile.TemporaryDirectory(prefix="observe-test-") as folder:
        host = machine.Host(folder, BUILD, 100, 1, SIM)
        try:
            return observe.recorded(host, "program", [PROGRAM], {"CUSHIM_SIM_CONTEXT": str(CONTEXT_BYTES)})
        finally:
            host.close()


@tap.test
def a_plan_has_what_contexts_take():
    assert part()["status"] == "pass", part()
    rows = part()["plan"].values()
    assert rows and all(row["peak_live_bytes"] > CONTEXT_BYTES > min(row["run_peaks_live_bytes"]) for row in rows), rows


@tap.test
def a_plan_of_other_bytes_is_a_fault():
    row, = [row for title, row in part()["plan"].items() if title.startswith("exact")]
    kinds = {str(i): {"peak_live_bytes": n} for i, n in enumerate(row["run_peaks_live_bytes"])}
    for more in (1, -min(row["run_peaks_live_bytes"]) - 1):
        other = copy.deepcopy(row) | {"peak_live_bytes": row["peak_live_bytes"] + more}
        judged = observe.new_part("")
        observe.judge_plan(judged, {"settings": [{"with": "exact", "memory": [other]}]}, {"devices": [{"device": 0, "kinds": kinds}]}, 0)
        assert len(judged["faults"]) == 1, (more, judged)


tap.run()
