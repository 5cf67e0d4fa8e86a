#!/usr/bin/env python3
"""The suite `own` finds differences: made-up tests replace numba-cuda's on the software device.

    own_test.py PRELOAD SIM_FOLDER
"""
import functools
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / "suites"), str(pathlib.Path(__file__).resolve().parents[1])]
import host as machine
import own
import tap

TESTS = '''
import ctypes, os, pathlib, unittest
COUNT = pathlib.Path(__file__).with_suffix(".count")
IS_CUSHIM = "LD_PRELOAD" in os.environ


class Tests(unittest.TestCase):
    def test_alloc(self):
        cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        self.assertEqual(cuda.cuInit(0), 0)
        self.assertEqual(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
        self.assertEqual(cuda.cuCtxSetCurrent(context), 0)
        self.assertEqual(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096)), 0)
        self.assertEqual(cuda.cuMemFree_v2(block), 0)

    def test_by_design(self):
        self.assertFalse(IS_CUSHIM)

    def test_differs(self):
        for n in range(2):
            with self.subTest(n):
                self.assertFalse(IS_CUSHIM and n == 0, "under cushim")

    def test_fails_in_both(self):
        self.fail("always")

    @unittest.skipUnless(IS_CUSHIM, "natively left out")
    def test_skipped_natively(self):
        pass

    def test_unsteady(self):
        COUNT.write_text(str(int(COUNT.read_text()) + 1 if COUNT.exists() else 1))
        self.assertNotEqual(COUNT.read_text(), "2")
'''
ENDS = '''
import os, unittest


class Tests(unittest.TestCase):
    def test_a(self):
        pass

    def test_b_ends_the_process(self):
        if "LD_PRELOAD" in os.environ:
            os._exit(3)

    def test_c(self):
        pass
'''
BROKEN = "raise ImportError('nothing to be had here')\n"


def make(folder):
    package = folder.joinpath(*own.NUMBA.split("."))
    package.mkdir(parents=True)
    for each in (package, *list(package.parents)[:3]):
        (each / "__init__.py").touch()
    for name, text in (("tests", TESTS), ("ends", ENDS), ("broken", BROKEN)):
        (package / f"test_{name}.py").write_text(text)


def make_package(folder):
    """Tests of a package `made`, which only the folder lib has; so it is with pytest and xdist there."""
    (folder / "made").mkdir()
    (folder / "made" / "test_made.py").touch()
    (folder / "lib").mkdir()
    for name in ("made", "pytest", "xdist"):
        (folder / "lib" / f"{name}.py").touch()


@functools.lru_cache(maxsize=None)
def played():
    """The suite's results by part, its log, its text about a difference when its time is up, and what it found in the folders."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "python")
        (folder / "tests" / "cupy").mkdir(parents=True)
        make_package(folder / "tests")
        os.environ["PYTHONPATH"] = str(folder / "python")
        host = machine.Host(folder / "out", "build", 100, 2, sys.argv[2])
        host.preload, host.tests = pathlib.Path(sys.argv[1]).resolve(), folder / "tests"
        own.BY_DESIGN[("Tests.test_by_design", None)] = "made so"
        parts = {part["name"].removeprefix(own.NUMBA + "."): part for part in own.run(host)}
        log = (host.out / "log.txt").read_text()
        host.deadline, late = 0, {"status": "pass", "faults": []}
        own.judge_again(host, f"{own.NUMBA}.test_tests", "exact", late, {"a": ("passed", "")}, {"a": ("failed", "")})
        host.deadline = float("inf")
        found = own.find_files(host, "made"), host.has_xdist
        host.close()
    return parts, log, late, found


def of_each_way():
    return [played()[0][f"test_tests-{way}"] for way in own.WAYS]


@tap.test
def no_folder_is_a_skip():
    part = played()[0]["torch"]
    assert part["status"] == "skip" and "no folder" in part["why"], part


@tap.test
def no_package_or_no_pytest_is_a_skip():
    part = played()[0]["cupy"]
    assert part["status"] == "skip" and "no package" in part["why"] and "ModuleNotFoundError" in part["why"], part


@tap.test
def modules_of_the_folder_lib_are_found():
    (files, why), has_xdist = played()[3]
    assert files == ["made/test_made.py"] and not why and has_xdist, played()[3]


@tap.test
def each_way_runs_under_the_preload():
    assert all(part["status"] == "fail" and part["report"]["device"]["requests"] > 0 for part in of_each_way()), of_each_way()


@tap.test
def only_differences_are_faults():
    faults = [sorted(fault.split(":")[0].rpartition(".")[2] for fault in part["faults"]) for part in of_each_way()]
    assert faults == [["test_differs", "test_skipped_natively"]] * 3, faults


@tap.test
def by_design_and_unsteady_are_named():
    named = [part["differs_because"] for part in of_each_way()]
    assert all("made so" in why for why in named) and "alone it is the same" in named[0], named


@tap.test
def a_test_that_ends_the_process_is_found():
    faults = played()[0]["test_ends-exact"]["faults"]
    assert any("test_b" in fault and "begun" in fault for fault in faults), faults


@tap.test
def tests_that_cannot_be_loaded_natively_are_a_skip():
    assert played()[0]["test_broken-exact"]["status"] == "skip"


@tap.test
def a_difference_without_time_for_a_second_run_is_not_judged():
    late = played()[2]
    assert late["status"] == "skip" and not late["faults"], late


@tap.test
def the_log_says_why_a_test_failed():
    assert "under cushim" in played()[1]


if __name__ == "__main__":
    tap.run()
