"""Subjects of commits read `room/noun: verb in the imperative`.

    commits.py ROOT

Checked in CI (the variable CI is set) for the last commits that the clone has.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(sys.argv[1])
N_COMMITS = 20
MAX_SUBJECT = 72

SUBJECT = re.compile(r"[A-Za-z.][\w.-]*(/[\w.,-]+)*(, [A-Za-z.][\w./-]*)*: [a-z]\S* .*[^.\s]")
# Verbs that are not imperative, as far as a pattern can tell.
PAST = re.compile(r": (added|fixed|changed|removed|moved|updated|adds|fixes|changes|removes|moves|updates|adding|fixing)\b")


def fault(subject):
    if not SUBJECT.fullmatch(subject):
        return "not of the form room/noun: verb ..."
    if PAST.search(subject):
        return "not in the imperative"
    if len(subject) > MAX_SUBJECT:
        return f"longer than {MAX_SUBJECT} characters"
    return None


@tap.test
def the_last_subjects_have_the_form():
    if not os.environ.get("CI"):
        tap.skip("checked in CI")
    log = subprocess.run(["git", "-C", ROOT, "log", "--no-merges", f"-{N_COMMITS}", "--format=%h %s"],
                         text=True, capture_output=True)
    if log.returncode or not log.stdout.strip():
        tap.skip("no history here")
    found = []
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if fault(subject):
            found.append(f"{commit} {subject}: {fault(subject)}")
    assert not found, "\n" + "\n".join(found)


@tap.test
def good_subjects_pass():
    for subject in ("preload/resolve: route cuGetProcAddress answers by pointer", "docs: say what a preload cannot see",
                    "tools/cushim, tests: add doctor", "README: name the command first", ".ci/run: call tools/check"):
        assert fault(subject) is None, (subject, fault(subject))


@tap.test
def bad_subjects_are_found():
    for subject in ("Fix things", "preload/resolve: Fixed a bug", "wip", "docs:", "docs: added a page",
                    "docs: end with a stop.", "memory/pool: " + "x" * 80, "memory/pool fix it"):
        assert fault(subject), subject


tap.run()
