"""The TAP outputs of several suites of one program are joined, and none is lost.

    together.py PROGRAM EARLY SUITE SUITE

EARLY is a program of two suites: early_end ends early, nothing runs no test.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

PROGRAM, EARLY, *SUITES = sys.argv[1:]


def run(*suites, program=PROGRAM):
    """Returns the exit code, the verdicts by number and name, and the plans."""
    done = subprocess.run([program, *suites], env={**os.environ, "CK_TAP_LOG_FILE_NAME": "/dev/stdout", "CK_VERBOSITY": "silent"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    rows = re.findall(r"^((?:not )?ok) (\d+) - [^\s:]*:(\S+): ", done.stdout, re.MULTILINE)
    return done.returncode, rows, re.findall(r"^1\.\.(\d+)$", done.stdout, re.MULTILINE)


@tap.test
def all_tests_are_reported_with_consecutive_numbers():
    apart = [name for suite in SUITES for _, _, name in run(suite)[1]]
    code, rows, plans = run(*SUITES)
    assert len(apart) > 2 and [name for _, _, name in rows] == apart, (rows, apart)
    assert [int(number) for _, number, _ in rows] == list(range(1, len(apart) + 1)), rows
    assert plans == [str(len(apart))] and code == 0, (plans, code)


@tap.test
def a_missing_suite_is_a_failure():
    assert run(SUITES[0], "nothing")[0] != 0


@tap.test
def a_suite_that_ends_early_is_a_failure():
    code, rows, plans = run("unit/early_end", "unit/early_end", program=EARLY)
    assert code != 0 and [name for _, _, name in rows] == ["early_end:the_first"] * 2, (code, rows)


@tap.test
def a_suite_that_ran_nothing_is_a_failure():
    code, rows, plans = run("unit/nothing", program=EARLY)
    assert code != 0 and not rows and plans == ["0"], (code, rows, plans)


tap.run()
