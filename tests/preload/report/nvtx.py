"""NVTX ranges that reset the arena: the injection, with NVTX's own headers, under both kinds of
libcudart.

    nvtx.py --preload ... --sim ... SHARED STATIC
"""
import sys
import pathlib
import re

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
PRELOAD = OPTIONS.preload.split()[-1]
PASSES = 6
FORMS = ("push", "wide", "domain", "registered", "start")


def run(program, form, **settings):
    settings.setdefault("CUSHIM_ARENA", "16M")
    settings.setdefault("CUSHIM_ARENA_RESET", "nvtx:forward")
    settings.setdefault("NVTX_INJECTION64_PATH", PRELOAD)
    done = fixture.Run(OPTIONS, [program, form], **settings)
    assert done.code == 0, done.err
    assert done.err == b"", done.err
    return done


def n_again(done):
    return int(re.fullmatch(rb"nvtx_ranges: (\d+) passes in the places of the first\n",
                            done.out).group(1))


def add_tests(program):
    link = program.rsplit("-", 1)[1]

    def resets():
        for form in FORMS:
            done = run(program, form)
            done.check_report()
            assert n_again(done) == PASSES - 1, (form, done.out)
            assert done.total("arena_kept") == PASSES, form
            assert done.total("arena") == done.total("requests"), form

    def leaves_alone():
        for form, settings in {"other": {}, "push": {"CUSHIM_ARENA_RESET": ""}}.items():
            done = run(program, form, **settings)
            assert n_again(done) == 0, (form, done.out)
            assert done.total("arena_kept") == 0, form

    def is_harmless_when_off():
        for settings in ({"CUSHIM": "0"}, {"CUSHIM_ARENA": "0"}, {"CUSHIM_POOL": "0"}):
            for form in FORMS:
                done = run(program, form, **settings)
                assert done.report is None or done.total("arena") == 0, settings

    def works_in_relaxed():
        for seed in ("1", "5", "99"):
            done = run(program, "push", CUSHIM_FREE="relaxed", CUSHIM_SIM_SEED=seed)
            done.check_report()
            assert done.total("arena") > 0

    resets.__name__ = f"the_end_of_the_named_range_resets_the_arena_{link}"
    leaves_alone.__name__ = f"other_ranges_leave_it_alone_{link}"
    is_harmless_when_off.__name__ = f"without_an_arena_an_injection_is_harmless_{link}"
    works_in_relaxed.__name__ = f"a_relaxed_arena_is_reset_too_{link}"
    for test in (resets, leaves_alone, is_harmless_when_off, works_in_relaxed):
        fixture.tap.test(test)


@fixture.tap.test
def an_injection_outside_a_preload_is_harmless():
    done = fixture.Run(OPTIONS, [OPTIONS.programs[0], "push"], preload=False, stats=False,
                   CUSHIM_ARENA="16M", CUSHIM_ARENA_RESET="nvtx:forward",
                   NVTX_INJECTION64_PATH=PRELOAD)
    assert done.code == 0 and done.err == b"", done.err


@fixture.tap.test
def a_value_that_names_no_range_is_one_line():
    done = fixture.Run(OPTIONS, [OPTIONS.programs[0], "push"], CUSHIM_ARENA="16M",
                   CUSHIM_ARENA_RESET="forward")
    assert done.code == 0, done.code
    assert done.err.count(b"\n") == 1 and b"does not have the form: nvtx:NAME" in done.err, done.err


for each in OPTIONS.programs:
    add_tests(each)
fixture.tap.run()
