#!/usr/bin/env python3
"""The suite `own` finds what differs: tests made for it, on the software device, in the places of numba-cuda's.

    own_test.py PRELOAD SIM_FOLDER
"""
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "suites"))
import host as machine
import own

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


def check(ok, what):
    print(f"{'ok' if ok else 'not ok'} {check.n} - {what}")
    check.n += 1
    check.is_good &= ok


def main():
    check.n, check.is_good = 1, True
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "python")
        (folder / "tests" / "cupy").mkdir(parents=True)
        os.environ["PYTHONPATH"] = str(folder / "python")
        host = machine.Host(folder / "out", "build", 100, 2, sys.argv[2])
        host.preload, host.tests = pathlib.Path(sys.argv[1]).resolve(), folder / "tests"
        own.BY_DESIGN[("Tests.test_by_design", None)] = "made so"
        parts = {part["name"].removeprefix(own.NUMBA + "."): part for part in own.run(host)}
        log = (host.out / "log.txt").read_text()
        host.deadline, late = 0, {"status": "pass", "faults": []}
        own.judge_again(host, f"{own.NUMBA}.test_tests", "exact", late, {"a": ("passed", "")}, {"a": ("failed", "")})
        host.close()
    print("1..9")
    check(parts["torch"]["status"] == "skip" and "no folder" in parts["torch"]["why"], "no folder is a skip")
    check(parts["cupy"]["status"] == "skip" and "no package" in parts["cupy"]["why"], "no package or no pytest is a skip")
    ways = [parts[f"test_tests-{way}"] for way in own.WAYS]
    check(all(part["status"] == "fail" and part["report"]["device"]["requests"] > 0 for part in ways), "each way ran under the preload")
    faults = [sorted(fault.split(":")[0].rpartition(".")[2] for fault in part["faults"]) for part in ways]
    check(faults == [["test_differs", "test_skipped_natively"]] * 3, f"what differs is a fault, and nothing else: {faults}")
    named = [part["differs_because"] for part in ways]
    check(all("made so" in why for why in named) and "alone it is the same" in named[0], f"by design and unsteady are named: {named}")
    ends = parts["test_ends-exact"]["faults"]
    check(any("test_b" in fault and "begun" in fault for fault in ends), f"a test that ends the process is found: {ends}")
    check(parts["test_broken-exact"]["status"] == "skip", "what natively cannot be loaded is a skip")
    check(late["status"] == "skip" and not late["faults"], "where no time is left to run again what differs, it is not judged")
    check("under cushim" in log, "the log has why a test failed")
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
