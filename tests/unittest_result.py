"""Reports the outcome of each test of unittest through one function: note(test, outcome, error, reason)."""
import unittest


class Result(unittest.TestResult):
    """A subclass defines note(). Outcomes: begun, passed, failed, error, skipped, xfailed, xpassed.

    `error` is unittest's (type, exception, traceback), `reason` that of a skip."""

    def note(self, test, outcome, error=None, reason=""):
        raise NotImplementedError

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "begun")

    def addSuccess(self, test):
        self.note(test, "passed")

    def addFailure(self, test, error):
        self.note(test, "failed", error)

    def addError(self, test, error):
        self.note(test, "error", error)

    def addSubTest(self, test, subtest, error):
        if error:
            self.note(test, "failed", error)

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason=reason)

    def addExpectedFailure(self, test, error):
        self.note(test, "xfailed", error)

    def addUnexpectedSuccess(self, test):
        self.note(test, "xpassed")
