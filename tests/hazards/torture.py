#!/usr/bin/env python3
"""Memory is reused at once, in any order of the streams: no word is wrong, in both modes of free. The same programs go
wrong under builds that skip the wait or the fence; otherwise they would test nothing.

    torture.py --build FOLDER [--seeds 10000]

The seeds are divided among a device with room, a device so small that the pool constantly gives memory back, and a
limit that is equally small.
"""
import runs

OPTIONS = runs.arguments(__doc__)
LARGEST = ("--size", 4 << 20)
# the settings: (share of the seeds, options of the program, variables)
SETTINGS = {
    "with_room": (0.4, (), {}),
    "without_host_effects": (0.2, ("--no-effects",), {}),
    "on_a_tight_device": (0.1, LARGEST, {"CUSHIM_SIM_MEMORY": "12M"}),
    "under_a_tight_limit": (0.1, LARGEST, {"CUSHIM_LIMIT": "12M"}),
    "with_a_kernel_that_spins": (0.1, ("--spin", 1), {}),
    "with_a_capture_open": (0.1, ("--capture", 1), {}),
}
PIECE = 50  # seeds of one process


def count_bad(mode, setting, n_seeds, *more):
    return runs.count_bad(OPTIONS, mode, "torture", setting, n_seeds, *more, settings=SETTINGS, piece=PIECE)


def add_test(mode, setting):
    share = SETTINGS[setting][0]
    n_seeds = max(4, round(share * OPTIONS.seeds * (0.1 if mode == "native" else 1)))

    def test():
        n_bad, text = count_bad(mode, setting, n_seeds)
        assert n_bad == 0, text

    test.__name__ = f"{mode}_{setting}_no_word_goes_wrong"
    runs.tap.test(test)


def add_persistent_test():
    def test():
        n_bad, text = count_bad("relaxed", "without_host_effects", max(4, OPTIONS.seeds // 20), "--spin", 2)
        assert n_bad == 0, text

    test.__name__ = "relaxed_beside_a_kernel_that_never_ends_no_word_goes_wrong"
    runs.tap.test(test)


def add_careless_test(mode):
    def test():
        for setting in SETTINGS:
            n_bad, _ = count_bad(mode, setting, 5)
            assert n_bad > 0, setting

    test.__name__ = f"a_pool_with_{mode.replace(' ', '_')}_is_found_out_in_every_setting"
    runs.tap.test(test)


@runs.tap.test
def the_device_is_seeded_with_each_seed():
    for each_mode in ("native", "relaxed"):
        text = runs.run(OPTIONS, each_mode, "torture", "--seed", 1, "--seeds", 3, "--verbose")
        assert "device seeded 3 times" in text, text


for each in OPTIONS.modes:
    if each in runs.CARELESS:
        add_careless_test(each)
    else:
        for name in SETTINGS:
            add_test(each, name)
add_persistent_test()
runs.tap.run()
