"""Runs a client's own tests by unittest and prints one line per test: `ok NAME`, or `NAME: outcome`.

    suite.py MODULE...
"""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import unittest_result  # noqa: E402

WORDS = {"error": "error", "failed": "failed", "skipped": "skipped", "xfailed": "fails, as expected", "xpassed": "passes, unexpectedly"}
CODE = re.compile(r"\bCUDA_ERROR_\w+|\bcudaError\w+")


def what(error):
    """The type of an exception and CUDA's code, if its text has one, for the comparison of two runs."""
    code = CODE.search(str(error[1]))
    return error[0].__name__ + (f" {code[0]}" if code else "")


class Lines(unittest_result.Result):
    def note(self, test, outcome, error=None, reason=""):
        if outcome == "passed":
            print(f"ok {test.id()}", flush=True)
        elif outcome in WORDS:
            words = WORDS[outcome] + (f", {what(error)}" if outcome in ("error", "failed") else "")
            print(f"{test.id()}: {words}", flush=True)


if __name__ == "__main__":
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Lines())
