#!/usr/bin/env python3
"""Each statement about cudaFree's barrier is right without cushim and in `exact`, and wrong in modes that give it up.

    barrier.py --build FOLDER

barrier.c says what each row depends on, and runs.KEPT_IN which modes keep that.
"""
import runs

OPTIONS = runs.arguments(__doc__)
N_PAIRS = 22  # pairs of five queues, except three that are one stream
SENTENCES = {
    "native": "natively_every_sentence_holds",
    "exact": "in_exact_every_sentence_holds",
    "relaxed": "relaxed_gives_up_the_barrier_and_nothing_else",
    "never waits": "a_pool_that_never_waits_is_found_out",
    "no fence": "relaxed_without_its_fence_is_found_out",
}


def rows_of(mode):
    return runs.rows_of(runs.run(OPTIONS, mode, "barrier", *runs.tries_in(mode), CUSHIM_SIM_DEVICES="2"))


NATIVE = rows_of("native")


def add_test(mode):
    def test():
        rows = rows_of(mode)
        assert rows.keys() == NATIVE.keys(), rows.keys() ^ NATIVE.keys()
        assert not runs.unexpected(mode, rows), runs.unexpected(mode, rows)

    test.__name__ = SENTENCES[mode]
    runs.tap.test(test)


@runs.tap.test
def every_pair_of_streams_and_every_class_has_rows():
    assert sum(name.startswith("written_on_") for name in NATIVE) == N_PAIRS
    assert {leans_on for leans_on, _ in NATIVE.values()} == set(runs.KEPT_IN)


for each in OPTIONS.modes:
    add_test(each)
runs.tap.run()
