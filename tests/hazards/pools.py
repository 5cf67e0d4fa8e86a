#!/usr/bin/env python3
"""Blocks of a companion pool are reused at once, in any order of the streams: no word is wrong. The same program goes
wrong if every fence reports that it is complete; otherwise it would test nothing.

    pools.py --build FOLDER [--seeds 10000]
"""
import runs

OPTIONS = runs.arguments(__doc__)
# as in torture.py: a device so small that the pool constantly gives memory back, one thread, one stream
SETTINGS = {
    "with_room": (0.1, (), {}),
    "on_a_tight_device": (0.06, ("--size", 4 << 20), {"CUSHIM_SIM_MEMORY": "12M"}),
    "with_one_thread": (0.06, ("--threads", 1), {}),
    "with_one_stream": (0.03, ("--streams", 1), {}),
}
PIECE = 50  # seeds of one process


def count_bad(program, setting, n_seeds):
    return runs.count_bad(OPTIONS, "native", program, setting, n_seeds, settings=SETTINGS, piece=PIECE)


def add_test(setting):
    def test():
        n_bad, text = count_bad("pools", setting, max(4, round(SETTINGS[setting][0] * OPTIONS.seeds)))
        assert n_bad == 0, text

    test.__name__ = f"{setting}_no_word_goes_wrong"
    runs.tap.test(test)


for name in SETTINGS:
    add_test(name)


@runs.tap.test
def a_pool_whose_fences_complete_at_once_is_found_out():
    if "no fence" in OPTIONS.modes:  # it has races on purpose
        for setting in ("with_room", "on_a_tight_device", "with_one_thread"):
            n_bad, _ = count_bad("pools-careless", setting, 5)
            assert n_bad > 0, setting


runs.tap.run()
