"""helgrind reports nothing about a program under cushim if it reports nothing without cushim.

    helgrind.py --preload ... --sim ... SHARED STATIC
"""
import sys
import pathlib
import shutil

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
SHARED, STATIC = OPTIONS.programs
FOUND = 99


def watched(program, **settings):
    valgrind = shutil.which("valgrind") or fixture.tap.skip("no valgrind here")
    command = [valgrind, "--tool=helgrind", "-q", "--history-level=none", f"--error-exitcode={FOUND}", program,
               "share_kinds"]
    return fixture.Run(OPTIONS, command, **settings)


@fixture.tap.test
def natively_it_says_nothing():
    done = watched(SHARED, preload=False, stats=False)
    assert done.code == 0 and done.err == b"", done.err[-2000:]


@fixture.tap.test
def it_says_nothing_in_both_modes_of_free():
    for free in ("exact", "relaxed"):
        done = watched(SHARED, CUSHIM_FREE=free)
        assert done.code == 0 and done.err == b"", (free, done.err[-2000:])
        done.check_report()


@fixture.tap.test
def it_says_nothing_with_a_static_runtime():
    done = watched(STATIC)
    assert done.code == 0 and done.err == b"", done.err[-2000:]
    done.check_report()


fixture.tap.run()
