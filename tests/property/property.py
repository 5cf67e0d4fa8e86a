#!/usr/bin/env python3
"""Requests that the driver alone serves are served, with bounds on held memory; the costs of a pair; stalls.

    property.py --build FOLDER [--seeds 295]

Known failures are listed in `expected`: each must still fail with its seed, otherwise its row must be removed.
"""
import argparse
import concurrent.futures
import functools
import os
import pathlib
import shutil
import tempfile

import traces
import tap

parser = argparse.ArgumentParser()
parser.add_argument("--build", required=True)
parser.add_argument("--compiler", default="", help="and how it was told to optimise, for what: see traces.COUNTED_WITH")
parser.add_argument("--seeds", type=int, default=traces.N_SEEDS)
OPTIONS = parser.parse_args()
BUILD = traces.Build(OPTIONS.build)
ROWS = traces.expected()
GENERATORS = BUILD.generators()
PROCESSORS = concurrent.futures.ThreadPoolExecutor(os.cpu_count())


@functools.lru_cache(maxsize=None)
def begin(what):
    """Play a generator's traces, and in all modes also later seeds that failed once or that rows name."""
    n = 1 if what in traces.CASES else traces.BY_HAND.get(what, OPTIONS.seeds)
    named = {row.seed for (_, of, _), row in ROWS.items() if of == what}
    more = sorted(seed for seed in named.union(traces.FOUND.get(what, [])) if seed > traces.N_IN_EVERY_MODE)
    pieces = [*traces.pieces(what, n), *(((seed, 1), traces.modes_of(what)) for seed in more)]
    return [PROCESSORS.submit(traces.play, BUILD, what, *piece) for piece in pieces]


def add_trace_test(what, mode):
    def test():
        findings = [found for part in begin(what) for found in part.result().get(mode, [])]
        said = traces.complaints(traces.gather(findings, what, mode), what, mode, ROWS)
        assert not said, "\n".join(said)

    test.__name__ = f"{what.replace('-', '_')}_in_{mode}_is_served_as_natively_and_held_in_bounds"
    tap.test(test)


def add_pair_test(n_bytes, mode):
    def test():
        said = traces.complaints(traces.judge_pair(BUILD, n_bytes, mode), f"pair-{n_bytes}", mode, ROWS)
        assert not said, "\n".join(said)

    test.__name__ = f"a_pair_of_{n_bytes}_bytes_in_{mode}_makes_the_calls_and_takes_the_locks_it_may"
    tap.test(test)


@functools.cache
def pages(mode):
    """(bytes, pages) for blocks of each size: see tests/property/pages.c."""
    text = BUILD.run(mode, "pages", *traces.pair_words(mode), CUSHIM_SIM_MEMORY="16G")
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    assert len(rows) == 2048
    return rows


def add_pages_test(mode):
    def test():
        assert all(taken == filled for _, filled, taken in pages(None)), "the software device packs by 512 bytes"
        more = [(n_bytes, filled, taken) for n_bytes, filled, taken in pages(mode)
                if taken > filled + (filled // 8 + 1 if n_bytes <= 128 << 10 else 0)]
        assert not more, f"{len(more)} sizes, the first ones {more[:3]}"

    test.__name__ = f"blocks_of_each_size_in_{mode}_take_at_most_an_eighth_more_pages_than_natively"
    tap.test(test)


def add_workload_test(what, mode):
    def test():
        (found,) = traces.play(BUILD, what, (1, 1), [mode])[mode]
        held, calls = found["held"] / found["live"], found["warm_calls"] / max(found["warm_requests"], 1)
        may_hold, may_call = traces.WORKLOADS[what]
        if mode == "pool":
            may_hold = traces.MAY_HOLD_IN_POOL
        assert held <= may_hold and calls <= may_call, f"held {held:.2f} of live, {calls:.3f} driver calls a warm request"

    test.__name__ = f"{what.split('/')[-1].split('.')[0].replace('-', '_')}_in_{mode}_holds_and_asks_no_more_than_it_may"
    tap.test(test)


@functools.cache
def instructions(mode):
    if shutil.which("valgrind") is None:
        tap.skip("no valgrind")
    return traces.count_instructions(BUILD, 4096, mode)[1]


def add_instructions_test(mode):
    def test():
        if OPTIONS.compiler != traces.COUNTED_WITH:
            tap.skip(f"counted with {traces.COUNTED_WITH}; this is {OPTIONS.compiler}")
        ours = instructions(mode)
        allowed = traces.INSTRUCTIONS[mode]
        assert ours <= allowed, f"{ours:.1f} instructions a pair, {allowed} allowed"

    test.__name__ = f"a_pair_of_4096_bytes_in_{mode}_takes_no_more_instructions_than_it_may"
    tap.test(test)


@tap.test
def a_copy_takes_no_more_instructions_than_allowed():
    if OPTIONS.compiler != traces.COUNTED_WITH:
        tap.skip(f"counted with {traces.COUNTED_WITH}; this is {OPTIONS.compiler}")
    if shutil.which("valgrind") is None:
        tap.skip("no valgrind")
    for mode in ("exact", "relaxed"):  # a copy that is done when the call returns is no effect for which a free waits
        ours = traces.count_instructions(BUILD, 4096, mode, "copy")[1]
        assert ours <= traces.COPY_INSTRUCTIONS, (mode, ours)


def add_stall_test(mode):
    def test():
        stall_us = traces.longest_stall_us(BUILD, mode, 2)
        if stall_us is None:
            tap.skip("no right to a thread of SCHED_FIFO")
        broken = {"stalls": {1: f"{stall_us} us"}} if stall_us > traces.STALL_US else {}
        said = traces.complaints(broken, "fifo", mode, ROWS)
        assert not said, "\n".join(said)

    test.__name__ = f"an_urgent_thread_in_{mode}_does_not_burn_its_processor_waiting_for_another"
    tap.test(test)


def add_yield_test(name):
    def test():
        library = BUILD.library(f"lib{name}.so")
        if library is None:
            tap.skip(f"{name} is not built")
        broken = {"yields": {1: "asks libc for sched_yield"}} if traces.asks_for_yield(library) else {}
        said = traces.complaints(broken, "object", name, ROWS)
        assert not said, "\n".join(said)

    test.__name__ = f"{name.replace('-', '_')}_asks_for_no_sched_yield"
    tap.test(test)


def of_seed(seed):
    return {"P1": {seed: "words"}}


@tap.test
def an_unexpected_failure_is_reported():
    assert len(traces.complaints(of_seed(3), "comb", "exact", {})) == 1
    assert len(traces.complaints(of_seed(3), "comb", "exact", traces.read_expected("P1 comb vmm=3 | why"))) == 1


@tap.test
def an_expected_failure_passes_and_its_row_must_go_once_it_holds():
    rows = traces.read_expected("# a remark\nP1 comb exact=3 vmm=4 | why")
    assert traces.complaints(of_seed(3), "comb", "exact", rows) == []
    assert "take it off" in traces.complaints({}, "comb", "exact", rows)[0]
    assert "write exact=5" in traces.complaints(of_seed(5), "comb", "exact", rows)[0]


@tap.test
def every_seed_is_played_once_in_some_mode_and_the_first_ones_in_all():
    pieces = traces.pieces("comb", 295, 30)
    assert [seed for (first, n), _ in pieces for seed in range(first, first + n)] == list(range(1, 296))
    assert pieces[0] == ((1, 30), list(traces.MODES)) and [modes for _, modes in pieces[1:]] == [[mode] for mode in traces.MODES]
    assert traces.pieces("frag-1-1536-98-20", 1) == [((1, 1), list(traces.MODES))]


@tap.test
def rows_name_generators_and_modes_that_are_played():
    known = {*GENERATORS, *traces.CASES, *traces.BY_HAND, "fifo", "object", *(f"pair-{n}" for n in traces.SIZES)}
    assert {what for _, what, _ in ROWS} <= known


@tap.test
def a_live_page_adds_no_instruction_no_lock_and_no_call_to_a_pair():
    """The only difference is that counters are in the page."""
    with tempfile.TemporaryDirectory(prefix="property-") as folder:
        page = {"CUSHIM_LIVE": "1", "CUSHIM_LIVE_DIR": folder}
        for mode in ("exact", "relaxed"):
            before = os.stat(folder).st_mtime_ns
            locks = [traces.count_pair(BUILD, 4096, mode, **more) for more in ({}, page)]
            assert locks[0] == locks[1] and os.stat(folder).st_mtime_ns != before, locks  # a page was created
        bare, ours = instructions("exact"), traces.count_instructions(BUILD, 4096, "exact", **page)[1]
        assert ours <= 1.01 * bare, (bare, ours)
        calls = [traces.count_system_calls(BUILD, 4096, "relaxed", **more) for more in ({}, page)]
        assert max(calls) < traces.CALLGRIND_PAIRS[1] / 10, calls  # because the device's worker sometimes waits


@tap.test
def observing_a_pair_takes_no_more_instructions_and_bytes_than_allowed():
    if OPTIONS.compiler != traces.COUNTED_WITH:
        tap.skip(f"counted with {traces.COUNTED_WITH}; this is {OPTIONS.compiler}")
    if shutil.which("valgrind") is None:
        tap.skip("no valgrind")
    with tempfile.TemporaryDirectory(prefix="property-") as folder:
        for what, more in (("sites", {"CUSHIM_LIVE": "1", "CUSHIM_LIVE_DIR": folder, "CUSHIM_SITES": "512K"}),
                           ("recorded", {"CUSHIM_TRACE": folder, "CUSHIM_STACKS": "none"})):
            ours = traces.count_instructions(BUILD, 4096, "relaxed", **more)[1]
            assert instructions("relaxed") + 100 < ours <= traces.WATCHED_INSTRUCTIONS[what], (what, ours)
        used = [traces.used_bytes(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".trace")]
        assert len(used) == 2, used
        n_events = 2 * (traces.CALLGRIND_PAIRS[1] - traces.CALLGRIND_PAIRS[0])
        assert abs(used[0] - used[1]) <= traces.EVENT_BYTES * n_events, (used, n_events)


@tap.test
def a_preload_that_serves_less_than_native_is_found_out():
    found = traces.play(BUILD, "sawtooth", (1, 3), ["exact"], CUSHIM_LIMIT="50%")["exact"]
    assert all(each["verdict"] == "unserved" for each in found), found


for each in [*traces.CASES, *GENERATORS, *traces.BY_HAND]:
    begin(each)
    for each_mode in traces.modes_of(each):
        add_trace_test(each, each_mode)
for each_mode in ("exact", "relaxed", "vmm", "pool"):
    add_pages_test(each_mode)
for each in traces.SIZES:
    for each_mode in ("exact", "relaxed", "pool"):
        add_pair_test(each, each_mode)
for each_mode in ("exact", "relaxed", "pool"):
    for each in traces.WORKLOADS:
        add_workload_test(each, each_mode)
for each in ("exact", "relaxed", "pool"):
    add_instructions_test(each)
    add_stall_test(each)
for each in ("cushim-preload", "cushim", "cushim-kernels"):
    add_yield_test(each)
tap.run()
