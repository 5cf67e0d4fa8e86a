"""Tests in Python, one function per test: its name is a sentence, its verdict an assertion.

    @tap.test
    def what_is_preloaded_stays():
        assert ...

    tap.run()

prints TAP.  tap.skip("why") inside a test makes it a counted skip.
"""
import sys
import traceback

_tests = []


class Skip(Exception):
    pass


def test(function):
    _tests.append(function)
    return function


def keep(names):
    """Leave out all tests so far except these."""
    missing = set(names) - {function.__name__ for function in _tests}
    assert not missing, missing
    _tests[:] = [function for function in _tests if function.__name__ in names]


def skip(reason):
    raise Skip(reason)


def run():
    """Run all tests in their order; the process ends with 1 if one failed."""
    failed = 0
    print(f"1..{len(_tests)}")
    for number, function in enumerate(_tests, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}")
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}")
        except Exception:
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
        sys.stdout.flush()
    sys.exit(1 if failed else 0)
