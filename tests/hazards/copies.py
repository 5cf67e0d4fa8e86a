#!/usr/bin/env python3
"""Copies from and to pageable memory behind work that is under way: no word goes wrong, staged or not.
The same program goes wrong under a build that does not wait for the stream: else it would show nothing.

    copies.py --build FOLDER [--seeds 10000]
"""
import concurrent.futures
import os

import runs

OPTIONS = runs.arguments(__doc__)
STAGED = {"CUSHIM_COPY_STAGE": "on", "CUSHIM_COPY_STAGE_MIN": "64K", "CUSHIM_COPY_RING": "4M"}
PIECE = 25  # seeds of one process
# what surrounds the copies: (its share of the seeds, options of the program, variables)
SETTINGS = {
    "with_helpers": (0.4, (), {}),
    "without_helpers": (0.2, (), {"CUSHIM_COPY_THREADS": "0"}),
    "with_calls_that_fail": (0.3, ("--fail", 1, "--capture", 0), {}),
    "with_a_capture_open": (0.1, ("--capture", 1), {}),
}
ORDER = list(SETTINGS)


def count_bad(mode, setting, n_seeds):
    _, words, variables = SETTINGS[setting]
    first = 1 + 10 ** 6 * ORDER.index(setting)

    def run_piece(at):
        n = min(PIECE, n_seeds - at)
        text = runs.run(OPTIONS, mode, "copies", "--seed", first + at, "--seeds", n, *words, "--verbose",
                        **(STAGED | variables if mode != "native" else {}))
        n_bad, n_done = map(int, runs.TORTURE.search(text).groups()[:2])
        assert n_done == n, text
        return n_bad, text if n_bad else ""

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = list(pool.map(run_piece, range(0, n_seeds, PIECE)))
    return sum(n for n, _ in pieces), "".join(text for _, text in pieces)


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
    for name in SETTINGS:
        add_test(each, name)
if not OPTIONS.in_front:
    add_careless_test("no fence")
runs.tap.run()
