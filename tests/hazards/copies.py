#!/usr/bin/env python3
"""Copies from and to pageable memory after unfinished work: no word is wrong, staged or not. The same program goes
wrong under a build that does not wait for the stream; otherwise it would test nothing.

    copies.py --build FOLDER [--seeds 10000]
"""
import runs

OPTIONS = runs.arguments(__doc__)
STAGED = {"CUSHIM_COPY_STAGE": "on", "CUSHIM_COPY_STAGE_MIN": "64K", "CUSHIM_COPY_RING": "4M"}
PIECE = 25  # seeds of one process
# the settings: (share of the seeds, options of the program, variables)
SETTINGS = {
    "with_helpers": (0.4, (), {}),
    "without_helpers": (0.2, (), {"CUSHIM_COPY_THREADS": "0"}),
    "with_calls_that_fail": (0.3, ("--fail", 1, "--capture", 0), {}),
    "with_a_capture_open": (0.1, ("--capture", 1), {}),
}


def count_bad(mode, setting, n_seeds):
    staged = STAGED if mode != "native" else {}
    return runs.count_bad(OPTIONS, mode, "copies", setting, n_seeds, settings=SETTINGS, piece=PIECE, **staged)


def add_test(mode, setting):
    n_seeds = max(4, round(SETTINGS[setting][0] * OPTIONS.seeds * (0.1 if mode == "native" else 0.4)))

    def test():
        n_bad, text = count_bad(mode, setting, n_seeds)
        assert n_bad == 0, text

    test.__name__ = f"{mode}_{setting}_no_word_goes_wrong"
    runs.tap.test(test)


def add_careless_test(mode):
    def test():
        for setting in SETTINGS:
            n_bad, _ = count_bad(mode, setting, 10)
            assert n_bad > 0, setting

    test.__name__ = "copies_that_do_not_wait_for_their_stream_are_found_out_in_every_setting"
    runs.tap.test(test)


for each in ("native", "exact"):
    for name in SETTINGS if each in OPTIONS.modes else ():
        add_test(each, name)
if not OPTIONS.in_front:
    add_careless_test("no fence")
runs.tap.run()
