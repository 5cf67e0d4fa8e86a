"""A preload ahead of ours: at the end none of its functions is called once it is over, and no cancellation point of the
C library where the thread may be cancelled.

    ahead.py --preload ... --sim ... AHEAD CANCELLED
"""
import sys
import pathlib
import re
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
AHEAD, CANCELLED = OPTIONS.programs
WAYS = {
    "a report": {},
    "a report as text": {"CUSHIM_STATS": "stderr"},
    "a live page": {"CUSHIM_LIVE": "1"},
    "a recording": {"CUSHIM_TRACE": "FOLDER/recordings"},
    "lines of the log": {"CUSHIM_LOG": "debug"},
    "a told request without memory": {"CUSHIM_OOM": "full"},
    "the check": {"CUSHIM_CHECK": "full"},
    "sites": {"CUSHIM_SITES": "1K", "CUSHIM_LIVE": "1"},
    "staged copies": {"CUSHIM_COPY_STAGE": "on"},
    "all": {"CUSHIM_STATS": "stderr", "CUSHIM_LIVE": "1", "CUSHIM_TRACE": "FOLDER/recordings", "CUSHIM_LOG": "debug",
            "CUSHIM_OOM": "full", "CUSHIM_SITES": "1K", "CUSHIM_COPY_STAGE": "on"},
}


def run(settings, preload):
    with tempfile.TemporaryDirectory() as folder:
        settings = {name: value.replace("FOLDER", folder) for name, value in settings.items()}
        done = fixture.Run(OPTIONS, [CANCELLED], preload=False, stats="CUSHIM_STATS" not in settings,
                           CUSHIM_LIVE_DIR=folder, LD_PRELOAD=preload, **settings)
        recordings = list(pathlib.Path(folder).glob("recordings/*"))
        assert len(recordings) == ("CUSHIM_TRACE" in settings), recordings
    assert done.code == 0, (settings, done.code, done.err.decode()[-300:])
    return done


@fixture.tap.test
def a_thread_whose_cancellation_is_pending_goes_through_all_calls():
    for settings in WAYS.values():
        done = run(settings, OPTIONS.preload)
        assert done.out == b"went through\n", (settings, done.out)


@fixture.tap.test
def a_preload_ahead_is_not_called_behind_its_end_nor_where_a_cancellation_would_act():
    for settings in WAYS.values():
        done = run(settings, AHEAD + " " + OPTIONS.preload)
        assert done.out == b"went through\n", (settings, done.out)
        n_points, = re.findall(rb"ahead: (\d+) points", done.err)
        assert int(n_points) > 0 or not settings, (settings, done.err)  # it was asked
        assert done.report or "verdict: " in done.err.decode(), (settings, done.err)


fixture.tap.run()
