"""Tests of a client's own, by unittest: one line a test, `ok NAME`, or `NAME: what came of it`.

    suite.py MODULE...
"""
import re
import sys
import unittest

CODE = re.compile(r"\bCUDA_ERROR_\w+|\bcudaError\w+")


def what(error):
    """The type of an exception and CUDA's code, if its text has one: what two runs may be compared by."""
    code = CODE.search(str(error[1]))
    return error[0].__name__ + (f" {code[0]}" if code else "")


class Lines(unittest.TestResult):
    def tell(self, test, outcome):
        print(f"{test.id()}: {outcome}" if outcome else f"ok {test.id()}", flush=True)

    def addSuccess(self, test):
        self.tell(test, "")

    def addError(self, test, error):
        self.tell(test, f"error, {what(error)}")

    def addFailure(self, test, error):
        self.tell(test, f"failed, {what(error)}")

    def addSkip(self, test, reason):
        self.tell(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.tell(test, "fails, as expected")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "passes, unexpectedly")


if __name__ == "__main__":
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Lines())
