"""Protocols, checked by spin: correct as they are, and wrong with each mistake.

    model.py CC...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

FENCE, LAUNCHES, CAPTURE = (pathlib.Path(__file__).resolve().with_name(name) for name in ("fence.pml", "launches.pml", "capture.pml"))
CC = sys.argv[1:]
MAX_DEPTH, MAX_MIB = 20000, 900
SEARCH = ["-w", "-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", f"-DMEMLIM={MAX_MIB}"]

# Everything at once has too many states; the barrier needs only few fences.
FENCES = []
BARRIER = ["-DBARRIER", "-DN_FENCES=1", "-DN_ROUNDS=1"]


class Result:
    def __init__(self, options, model, optimised):
        if not shutil.which("spin"):
            tap.skip("no spin")
        with tempfile.TemporaryDirectory() as folder:
            for command in (["spin", "-a", *options, model], [*CC, optimised, *SEARCH, "-c", "pan.c"], [*CC, "-o", "pan", "pan.o"]):
                done = subprocess.run(command, cwd=folder, text=True, capture_output=True)
                assert done.returncode == 0, done.stdout + done.stderr
            self.text = subprocess.run(["./pan", f"-m{MAX_DEPTH}"], cwd=folder, text=True, capture_output=True).stdout
        self.n_errors = int(re.search(r"errors: (\d+)", self.text).group(1))
        self.n_states = int(re.search(r"(\d+) states, stored", self.text).group(1))
        self.is_complete = not re.search(r"not completed|max search depth too small|reached -DMEMLIM", self.text)


def assert_right(options, model=FENCE, n_states=100000):
    result = Result(options, model, "-O2")
    assert result.n_errors == 0 and result.is_complete and result.n_states > n_states, result.text


def assert_wrong(mistake, options=FENCES, model=FENCE, violated="finished"):
    assert f"ifdef {mistake}\n" in model.read_text() or f"ifndef {mistake}\n" in model.read_text(), mistake
    result = Result([f"-D{mistake}", *options], model, "-O0")  # the error is found in less time than an optimised build takes
    assert f"assertion violated ({violated}" in result.text, result.text


@tap.test
def no_block_is_reused_before_the_work_ahead_of_its_free():
    assert_right(FENCES)


@tap.test
def no_block_is_reused_early_with_a_barrier():
    assert_right(BARRIER)


@tap.test
def a_record_before_the_new_epoch_is_found():
    assert_wrong("SWAPPED")


@tap.test
def a_free_without_a_fence_is_found():
    assert_wrong("NO_FREE_FENCE")


@tap.test
def a_record_without_a_fence_is_found():
    assert_wrong("NO_RECORD_FENCE")


@tap.test
def a_barrier_that_completes_later_frees_is_found():
    assert_wrong("DONE_FROM_OPEN", BARRIER)


@tap.test
def a_row_published_before_its_record_is_found():
    assert_wrong("SLOT_BEFORE_RECORD")


@tap.test
def an_effect_noted_before_its_work_is_found():
    assert_wrong("EFFECT_BEFORE_WORK")


@tap.test
def a_row_of_a_failed_record_is_found():
    assert_wrong("ROW_OF_FAILED")


@tap.test
def a_free_flushes_what_kernels_print():
    assert_right([], LAUNCHES)


@tap.test
def a_mistake_with_launches_is_found():
    for mistake in ("NOTE_BEFORE_LAUNCH", "PLAIN_NOTE", "RECORD_BEFORE_ROUND", "PRINTED_TOO_EARLY"):
        assert_wrong(mistake, [], LAUNCHES, "n_out")


@tap.test
def no_record_overlaps_a_capture_and_every_begin_completes():
    assert_right([], CAPTURE, n_states=1000)


@tap.test
def a_mistake_with_captures_is_found():
    for mistake in ("LOOK_FIRST", "OPEN_LATE", "NO_WAIT", "EARLY_LEAVE"):
        assert_wrong(mistake, [], CAPTURE, "n_capturing")


tap.run()
