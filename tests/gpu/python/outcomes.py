"""Runs tests and writes each outcome as soon as it is known: {"test", "outcome", "why"}, one per line.

    outcomes.py OUT WORD...     arguments of pytest if one names a .py file, otherwise names for unittest

A test that ends the process has only its line `begun`.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import unittest_result  # noqa: E402

STACKS_S = 60  # a test that takes longer writes the stack of each of its threads


class Recorder:
    """A plugin of pytest."""

    def __init__(self, path):
        self.out = open(path, "w")

    def note(self, test, outcome, why=""):
        print(json.dumps({"test": test, "outcome": outcome, "why": str(why)[-600:]}), file=self.out, flush=True)

    def pytest_runtest_logstart(self, nodeid, location):
        self.note(nodeid, "begun")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            outcome = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
            self.note(report.nodeid, outcome, report.longrepr or "")

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            self.note(report.nodeid or "the file", report.outcome, report.longrepr)


class Result(unittest_result.Result):
    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def note(self, test, outcome, error=None, reason=""):
        if outcome == "xpassed":
            outcome, reason = "failed", "it was expected to fail"
        elif outcome in ("failed", "error"):
            outcome, reason = "failed", self._exc_info_to_string(error, test)
        self.recorder.note(test.id(), outcome, reason)


def main():
    recorder, words = Recorder(sys.argv[1]), sys.argv[2:]
    del sys.path[:2]  # folders of cushim's tests, which other projects' tests must not import
    if any(".py" in word for word in words):
        import pytest
        return pytest.main(["-o", f"faulthandler_timeout={STACKS_S}", *words], plugins=[recorder])
    unittest.defaultTestLoader.loadTestsFromNames(words).run(Result(recorder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
