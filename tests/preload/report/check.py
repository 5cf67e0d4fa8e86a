"""The checking mode: its reports about programs with a mistake, and that it changes nothing else.

    check.py --preload ... --sim ... CHECK_PROGRAM PROGRAMS...
"""
import functools
import sys
import pathlib
import os
import re

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
PROGRAM, *OTHERS = OPTIONS.programs
TOLD = re.compile(rb"error check: (?:overrun|use after free): the block of (\d+) bytes at 0x[0-9a-f]+ was written "
                  rb"(before its start|behind its end|after its free): 0x07 at offset (-?\d+); found by cu\w+\n")


def run(mistake, mode="frees", preload=True, **settings):
    settings.setdefault("CUSHIM_CHECK_QUARANTINE", "300K")
    return fixture.Run(OPTIONS, [PROGRAM, mistake], preload=preload, CUSHIM_CHECK=mode, **settings)


@functools.cache
def native(mistake):
    return run(mistake, preload=False)


def told(done):
    return [(int(n), what.decode(), int(at)) for n, what, at in TOLD.findall(done.err)]


def damage(done):
    """The findings that a later call made; the others are calls that were refused."""
    return [each for each in done.report["harms"] if "found_by" in each]


def expect(mistake, *want, mode="frees", **settings):
    done = run(mistake, mode, **settings)
    assert (done.code, done.out) == (native(mistake).code, native(mistake).out), (done.code, done.out, native(mistake).out, done.err)
    assert told(done) == list(want), done.err
    done.check_report()
    assert [(each["bytes"], each["harm"], each["offset"]) for each in damage(done)] == \
        [(n, what, at) for n, what, at in want], done.report["harms"]
    assert done.report["n_harms"] == len(done.report["harms"]), done.report["harms"]
    return done


@fixture.tap.test
def a_clean_program_is_told_in_a_line_what_was_looked_at():
    for mode in ("frees", "full"):
        for settings in ({}, {"CUSHIM_FREE": "relaxed"}, {"CUSHIM_ARENA": "16M"}, {"CUSHIM_ZERO": "on"}):
            done = expect("clean", mode=mode, **settings)
            wanted = (rb"cushim: the check of \S+ found nothing: it looked at [1-9][\d,]* freed blocks"
                      rb"(, [1-9]\d* never freed)?, 9 could not be looked at\n")
            assert re.fullmatch(wanted, done.err), done.err
            # five freed in stream order; four obtained and freed under a capture, and counted once
            assert done.report["unchecked"] == 9, done.report["unchecked"]


@fixture.tap.test
def what_is_cleared_is_not_poisoned():
    plain, checked = (run("fresh", mode, CUSHIM_ZERO="on") for mode in ("off", "frees"))
    assert plain.code == checked.code == 0
    assert plain.out == checked.out, (plain.out, checked.out)


@fixture.tap.test
def what_is_fresh_is_not_a_number():
    assert b"fresh %d\n" % (1000 * 0xff) in run("fresh").out


@fixture.tap.test
def a_byte_behind_the_end_is_found_at_the_free_with_the_stack_of_the_allocation():
    done = expect("over", (1000, "behind its end", 1000))
    assert re.search(rb"allocated at \d+: \S*check_program\S*\(obtain_block\+0x", done.err), done.err
    assert b"freed at" not in done.err, done.err
    assert b"_start" not in done.err and b"libc.so" not in done.err, done.err  # nobody wrote what calls main
    stack = done.report["harms"][0]["allocated"]
    assert any("obtain_block" in frame for frame in stack), stack
    assert not any("cushim-preload" in frame for frame in stack), stack


@fixture.tap.test
def work_that_runs_at_the_free_is_waited_for():
    for seed in range(1, 5):
        expect("late", (1000, "behind its end", 1000), CUSHIM_SIM_SEED=str(seed))
        expect("late", (1000, "behind its end", 1000), CUSHIM_SIM_SEED=str(seed), CUSHIM_FREE="relaxed")


@fixture.tap.test
def a_byte_before_the_start_is_found():
    expect("under", (1000, "before its start", -1))


@fixture.tap.test
def the_last_byte_of_a_guard_is_looked_at():
    expect("far", (1000, "behind its end", 1511))


@fixture.tap.test
def a_write_after_a_free_is_found_with_both_stacks():
    done = expect("after", (1000, "after its free", 500))
    assert re.search(rb"allocated at \d+: \S*\(obtain_block\+0x", done.err), done.err
    assert re.search(rb"freed at \d+: \S*\(free_block\+0x", done.err), done.err
    assert any("free_block" in frame for frame in done.report["harms"][0]["freed"])


@fixture.tap.test
def relaxed_frees_are_looked_at_as_well():
    for mistake, want in {"over": (1000, "behind its end", 1000),
                          "after": (1000, "after its free", 500)}.items():
        expect(mistake, want, CUSHIM_FREE="relaxed")


REFUSED = {  # mistake: counter of the report, the line
    "twice": ("double_frees", r"double free: cuMemFree_v2 of the block of 1000 bytes at A, which was freed before"),
    "inner": ("interior_frees", r"interior free: cuMemFree_v2 at offset 512 of the block of 1000 bytes at A"),
    "copy": ("overruns", r"overrun: cuMemcpyDtoH_v2 of 2000 bytes at offset 0 of the block of 1000 bytes at A"),
    "set": ("uses_after_free",
            r"use after free: cuMemsetD8_v2 of 10 bytes at offset 100 of the block of 1000 bytes at A, which was freed"),
}


@fixture.tap.test
def wrong_frees_and_copies_are_refused_and_told_with_the_fault_the_call_and_three_stacks():
    for mistake, (counter, line) in REFUSED.items():
        done = expect(mistake)
        assert done.report["findings"][counter] == 1, (mistake, done.report["findings"])
        text = re.sub(r"0x[0-9a-f]{6,}", "A", done.err.decode())
        assert f" error check: {line}; refused, as by the driver\n" in text, (mistake, text)
        harm, = done.report["harms"]
        fault, call = re.match(r"(.*?): (\w+)", line).groups()
        assert (harm["fault"], harm["call"], harm["bytes"]) == (fault, call, 1000), harm
        assert harm["offset"] == int((re.search(r"at offset (\d+)", line) or [0, 0])[1]), harm
        assert harm["call_bytes"] == int((re.search(r"_v2 of (\d+) bytes", line) or [0, 0])[1]), harm
        for stack, frame in (("allocated", "obtain_block"), ("freed", "free_block"), ("called_at", "main")):
            what = {"called_at": "called at"}.get(stack, stack + " at")
            is_known = stack != "freed" or mistake in ("twice", "set")
            assert (f"check:   {what} 0: " in text) == is_known == bool(harm[stack]), (mistake, stack, text)
            if is_known and stack != "called_at":
                assert any(frame in each for each in harm[stack]), harm
            assert not any("cushim-preload" in each for each in harm[stack]), harm


@fixture.tap.test
def a_fault_with_memory_that_has_no_guards_is_told_too():
    done = expect("pinned")
    harm, = done.report["harms"]
    assert (harm["fault"], harm["call"]) == ("double free", "cuMemFreeHost"), harm
    assert re.search(rb"check: double free: cuMemFreeHost at 0x\w+, where no block is; refused, as by the driver\n", done.err), done.err


@fixture.tap.test
def damage_is_told_with_the_call_that_found_it():
    for mistake, fault in {"over": "overrun", "under": "overrun", "after": "use after free"}.items():
        harm, = run(mistake).report["harms"]
        assert (harm["fault"], harm["found_by"]) == (fault, "cuMemFree_v2"), harm
        assert any("free_block" in each for each in harm["found_at"]), harm
    harm, = run("sync", "full").report["harms"]
    assert harm["found_by"] == "cuCtxSynchronize", harm


@fixture.tap.test
def every_finding_is_in_the_report_however_many():
    done = run("hundred")
    assert done.code == 0 and len(done.report["harms"]) == done.report["n_harms"] == 100, (done.code, done.err[-500:])
    assert done.report["findings"]["double_frees"] == 100, done.report["findings"]


@fixture.tap.test
def what_a_synchronisation_looks_at_does_not_grow_with_the_blocks():
    for n_blocks in (5000,) if OPTIONS.few else (5000, 10000):
        done = fixture.Run(OPTIONS, [PROGRAM, "turns", str(n_blocks), "0"], CUSHIM_CHECK="full")
        lines = done.out.decode().splitlines()
        assert lines == ["reads 8192, waits 256"] * 3, (n_blocks, lines)
        harm, = done.report["harms"]
        assert harm["harm"] == "behind its end" and harm["found_by"] == "cuCtxSynchronize", harm


@fixture.tap.test
def blocks_that_were_freed_take_no_turn_of_those_that_live():
    done = fixture.Run(OPTIONS, [PROGRAM, "turns", "100", "5000"], CUSHIM_CHECK="full")
    assert done.out.decode().splitlines() == ["reads 200, waits 7"] * 3, done.out


@fixture.tap.test
def a_context_that_goes_is_looked_at():
    expect("leak", (1000, "behind its end", 1000))


@fixture.tap.test
def full_looks_at_synchronisations_and_frees_does_not():
    expect("sync", mode="frees")
    expect("sync", (1000, "behind its end", 1000), mode="full")


@fixture.tap.test
def a_block_with_guards_is_not_shared_by_a_handle():
    plain, checked = (run("ipc", mode) for mode in ("off", "frees"))
    assert b"handle: 0\n" in plain.out, plain.out
    assert b"handle: 0\n" not in checked.out and b"handle: " in checked.out, checked.out


@fixture.tap.test
def a_quarantine_of_nothing_keeps_nothing():
    expect("after", CUSHIM_CHECK_QUARANTINE="0")
    expect("over", (1000, "behind its end", 1000), CUSHIM_CHECK_QUARANTINE="0")


@fixture.tap.test
def memory_that_runs_short_is_taken_from_the_quarantine():
    expect("clean", CUSHIM_SIM_MEMORY="4M", CUSHIM_CHECK_QUARANTINE="1G")


SMALL = {"CUSHIM_SIM_MEMORY": "256M"}  # no room for two large blocks


@fixture.tap.test
def a_large_block_is_set_in_pieces_each_of_which_may_take_its_time():
    done = run("large", **SMALL)
    # two guards and three pieces of what lies between; the set of the program is another name
    assert done.out == b"sets 5, requests 1\nsum 3000\n", (done.out, done.err)
    assert done.report["unchecked"] == 0, done.report["unchecked"]


@fixture.tap.test
def a_device_that_stands_still_is_no_reason_for_out_of_memory():
    for settings in ({}, {"CUSHIM_FREE": "relaxed"}):
        done = run("stuck", **SMALL, **settings)
        assert (done.code, done.out) == (0, b"stuck: 0\nsum 3000\n"), (done.out, done.err)
        assert done.report["unchecked"] == 1, done.report["unchecked"]
        device = done.report["devices"][0]["kinds"]["device"]
        assert (device["requests"], device["frees"], device["live_bytes"]) == (1, 1, 0), device


@fixture.tap.test
def no_block_loses_its_bytes_whichever_call_fails():
    for seed in range(1, 3 if OPTIONS.few else 13):
        for settings in ({}, {"CUSHIM_FREE": "relaxed"}, {"CUSHIM_ZERO": "on"}):
            done = run("refused", CUSHIM_SIM_SEED=str(seed), **settings)
            assert (done.code, done.out) == (0, b""), (seed, settings, done.out, done.err)


@fixture.tap.test
def the_peak_is_that_of_a_run_without_the_check():
    plain, checked = (run("clean", mode).report["devices"][0]["kinds"]["device"] for mode in ("off", "frees"))
    assert plain["peak_live_bytes"] == checked["peak_live_bytes"] > 0, (plain, checked)


def is_wrong(name):
    """Programs that make mistakes on purpose, each of which is told with its stacks."""
    return name.startswith(("errors", "driver_api", "reset"))


def add_program(program):
    name = os.path.basename(program).replace("-", "_")

    def same():
        native = fixture.Run(OPTIONS, [program], preload=False)
        for mode in ("frees", "full"):
            done = fixture.Run(OPTIONS, [program], CUSHIM_CHECK=mode)
            assert (done.code, done.out) == (native.code, native.out), done.out
            assert is_wrong(name) or re.sub(rb"cushim: the check of \S+ found nothing.*\n", b"", done.err) == native.err, done.err
            assert damage(done) == [], done.report["harms"]
            assert is_wrong(name) or done.report["harms"] == [], done.report["harms"]

    same.__name__ = f"{name}_does_under_the_check_what_it_does_natively"
    fixture.tap.test(same)


if OPTIONS.threads:
    fixture.tap.keep(())  # a program with a mistake has one
for each in OTHERS:
    add_program(each)
fixture.tap.run()
