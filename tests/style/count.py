"""tools/check counts right: what failed, died or ran nothing is never a pass.

    count.py ROOT
"""
import pathlib
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(ROOT / "tools" / "setup")]
import phases
import tap


def counted(result, stdout="", returncode=0):
    count, _ = phases.count_test({"name": "cushim:unit / x", "result": result, "stdout": stdout, "returncode": returncode})
    return count.passed, count.failed, count.skipped


@tap.test
def each_subtest_counts():
    assert counted("OK", "1..3\nok 1 - a\nok 2 - b # SKIP no device\nok 3 - c\n") == (2, 0, 1)
    assert counted("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n# not ok at all\n") == (1, 1, 0)


@tap.test
def a_test_without_subtests_counts_once():
    assert counted("OK", "whatever") == (1, 0, 0)
    assert counted("FAIL", "whatever") == (0, 1, 0)
    assert counted("SKIP", "") == (0, 0, 1)


@tap.test
def a_test_that_skips_all_is_one_skip():
    assert counted("SKIP", "1..0 # SKIP no CUDA device\n") == (0, 0, 1)
    assert counted("OK", "1..0 # SKIP no CUDA device\n") == (0, 0, 1)


@tap.test
def a_test_that_dies_or_stops_early_is_a_failure():
    for result in ("TIMEOUT", "ERROR", "FAIL", "INTERRUPT", "UNEXPECTEDPASS"):
        assert counted(result, "1..3\nok 1 - a\n")[1] == 1, result
        assert counted(result)[1] == 1, result


@tap.test
def suites_are_read_from_meson_s_names():
    assert phases.suites_of({"name": "cushim:unit / pool"}) == ["unit"]
    assert phases.suites_of({"name": "cushim:unit+tsan / pool"}) == ["unit", "tsan"]
    assert phases.suites_of({"name": "pool"}) == []


tap.run()
