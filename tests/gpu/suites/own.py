"""Other projects' tests: each file runs natively and under the preload, and each test has the same outcome.

The tests of numba-cuda come with its package. The folder of --tests has the others: a folder for each package, with its
name (cupy, torch) and its test files; modules that these import may be in a folder lib.

A test whose outcome differs runs again alone, natively and under the preload, and only then is judged.
"""
import concurrent.futures
import functools
import json
import os
import sys

import build
import compat

RUNNER = build.ROOT / "tests" / "gpu" / "python" / "outcomes.py"
FILE_S, TEST_S = 170, 60  # time limits of a file and of a test
N_AGAIN = 30  # the most tests of a file that run again
WAYS = {"exact": {}, "relaxed": {"CUSHIM_FREE": "relaxed"}, "vmm": {"CUSHIM_BACKEND": "vmm"}}
NUMBA = "numba.cuda.tests.cudadrv"
# Tests that have little to do with memory and take long, that wait for ever on one device, or that end the process
# natively (mempool_id).
LEFT_OUT = {"torch": "TestCudaOptims or TestCudaAutocast or TestGDS or multinomial_invalid or index_out_of_bounds or kernel_loop"
                     " or mempool_id",
            "cupy": "test_nccl or test_thread_safe"}
WORKERS = {"torch/test_cuda.py": 4}  # the process option of pytest-xdist, if it is installed: tests that differ run again in one process
# {(part of a test's name, way or None for all): why its outcome may differ}
BY_DESIGN = {}
# The worst outcome is last: if a test has several lines, the worst counts.
RANKS = ("begun", "passed", "skipped", "xfailed", "failed")


def python_path(host):
    """Modules of the folder lib come first."""
    folders = [str(host.tests / "lib")] if host.tests else []
    return os.pathsep.join(folders + os.environ.get("PYTHONPATH", "").split(os.pathsep)).strip(os.pathsep) or None


def run_line(host, code):
    """Runs a line of Python that finds the modules that the tests find."""
    return host.run([sys.executable, "-c", code], 100, PYTHONPATH=python_path(host))


def last_line(done):
    return (done.stderr.decode(errors="replace").strip().splitlines() or ["?"])[-1][:200]


def find_numba(host):
    """Names of the modules, or why there are none."""
    done = run_line(host, f"import importlib.util as u; print(u.find_spec('{NUMBA}').submodule_search_locations[0])")
    lines = done.stdout.decode(errors="replace").split()
    if done.rc != 0 or not lines:
        return [], f"no tests of numba-cuda: {last_line(done)}"
    return [f"{NUMBA}.{name.removesuffix('.py')}" for name in sorted(os.listdir(lines[-1]))
            if name.startswith("test_") and name.endswith(".py")], None


def find_files(host, package):
    folder = host.tests and host.tests / package
    if not folder or not folder.is_dir():
        return [], f"no folder of {package}'s tests (--tests)"
    done = run_line(host, f"import pytest, {package}")
    if done.rc != 0:
        return [], f"no package {package}, or no pytest: {last_line(done)}"
    # the largest first: they take longest
    paths = sorted(folder.rglob("test_*.py"), key=lambda path: -path.stat().st_size)
    return [f"{package}/{path.relative_to(folder)}" for path in paths], None


def command_of(host, file, outcomes, tests):
    """The command for a file, or for some of its tests, and its folder."""
    if file.startswith(NUMBA):
        return [sys.executable, "-B", RUNNER, outcomes, *(tests or [file])], host.scratch
    package, _, path = file.partition("/")
    words = [f"--rootdir={host.tests / package}", "-q", "-p", "no:cacheprovider", "-o", f"timeout={TEST_S}"]
    if package in LEFT_OUT and not tests:
        words += ["-k", f"not ({LEFT_OUT[package]})"]
    if file in WORKERS and not tests and host.has_xdist:
        words += ["-n", WORKERS[file]]
    return [sys.executable, "-B", RUNNER, outcomes, *words, *(tests or [path])], host.tests / package


def read_outcomes(path):
    """{test: (outcome, why)}"""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        had = found.get(row["test"], ("begun", ""))
        if RANKS.index(row["outcome"]) >= RANKS.index(had[0]):
            found[row["test"]] = (row["outcome"], row["why"])
    path.unlink(missing_ok=True)
    return found


def run_file(host, file, way, tests=()):
    """The outcome of each test, the end of the process, and the reports; natively without a way."""
    stem = f"own-{file.replace('/', '-')}-{way or 'native'}"
    outcomes = host.scratch / f"{stem}.lines"
    command, cwd = command_of(host, file, outcomes, tests)
    settings = {"PYTHONPATH": python_path(host), "CUPY_CACHE_DIR": host.scratch / "cupy", "TRITON_CACHE_DIR": host.scratch / "triton",
                "PYTORCH_DISABLE_RUNNING_SCRIPT_CHK": "1", "PYTHONHASHSEED": "0"}
    if way:
        settings |= {"LD_PRELOAD": host.preload, "CUSHIM_STATS": host.scratch / f"{stem}-%p.json", **WAYS[way]}
    done = host.run(command, FILE_S, cwd, **settings)
    return read_outcomes(outcomes), done, host.reports(stem) if way else []


def tally(found):
    return {outcome: n for outcome in RANKS if (n := sum(each == outcome for each, _ in found.values()))}


def ended(done, found):
    """How a process ended; a process that had to be stopped printed its stacks."""
    late = {"stderr": done.stderr.decode(errors="replace")[-4000:]} if done.is_late else {}
    return {**compat.brief(done), **tally(found), **late}


def design(test, way):
    return next((why for (name, of_way), why in BY_DESIGN.items() if name in test and of_way in (None, way)), None)


def judge_again(host, file, way, part, native, ours):
    """Runs the differing tests alone; a remaining difference is a fault, or by design."""
    differ = sorted(test for test in native.keys() | ours.keys()
                    if native.get(test, ("not run",))[0] != ours.get(test, ("not run",))[0])
    part["differences"] = []
    if not differ:
        return
    tests = differ[:N_AGAIN]
    again_native, again_ours = run_file(host, file, None, tests)[0], run_file(host, file, way, tests)[0]
    if host.left_s() <= 0:
        part.update(status="skip", why=f"no time left to run again what differs: {', '.join(differ)}")
        return
    for test in differ:
        row = {"test": test}
        for who, first, again in (("native", native, again_native), ("cushim", ours, again_ours)):
            row[who] = [each.get(test, ("not run", ""))[0] for each in (first, again)]
            row[f"{who}_why"] = next((each[test][1] for each in (again, first) if each.get(test, ("", ""))[1]), "")
        if row["native"][1] == row["cushim"][1] != "not run":
            row["because"] = "alone it is the same"
        else:
            row["because"] = design(test, way)
        part["differences"].append(row)
        if not row["because"]:
            part["faults"].append(f"{test}: natively {row['native']}, under cushim {row['cushim']}")
    named = [row for row in part["differences"] if row["because"]]
    if named:
        part["difference"] = [row["test"] for row in named]
        part["differs_because"] = "; ".join(f"{row['test'].rpartition('::')[2]}: {row['because']}" for row in named)


def one(host, file, way, native):
    """One file under one way; native: the result of run_file without a way."""
    part = {"name": f"{file}-{way}", "status": "pass", "faults": [], "native": ended(native[1], native[0])}
    if host.left_s() <= 0:
        return part | {"status": "skip", "why": "no time left"}
    if not any(outcome == "passed" for outcome, _ in native[0].values()):
        whys = [why for _, why in native[0].values() if why] or [native[1].stderr.decode(errors="replace")]
        return part | {"status": "skip", "why": "natively no test passed: " + whys[0].strip()[-300:]}
    ours, done, reports = run_file(host, file, way)
    part["cushim"], part["report"] = ended(done, ours), compat.summary(reports)
    if done.is_late and host.left_s() <= 0:
        return part | {"status": "skip", "why": "no time left"}
    part["outcomes"] = [native[0], ours]
    return part


def run_way(host, way, native_runs):
    """Runs all files, host.n_jobs at a time; then the tests that differed, one by one."""
    with concurrent.futures.ThreadPoolExecutor(host.n_jobs) as pool:
        parts = list(pool.map(lambda item: one(host, item[0], way, item[1]), native_runs.items()))
    for file, part in zip(native_runs, parts):
        native, ours = part.pop("outcomes", ({}, {}))
        judge_again(host, file, way, part, native, ours)
    for package in sorted({file.partition("/")[0] for file in native_runs if "/" in file} | {NUMBA}):
        # a file whose tests use no device leaves no report, so it is enough if the preload saw some file's tests
        of_package = [part for part in parts if part["name"].startswith(package) and "report" in part and part["status"] != "skip"]
        if of_package and not any(part["report"][kind]["requests"] for part in of_package for kind in compat.KINDS):
            of_package[0]["faults"].append("in no file of these tests a request was seen")
    for part in parts:
        if part["faults"]:
            part["status"] = "fail"
            host.log(f"== {part['name']}: {'; '.join(part['faults'])}",
                     *[f"-- {row['test']}\n{row['native_why']}\n-- under cushim\n{row['cushim_why']}" for row in part["differences"]
                       if not row["because"]])
    return parts


def run(host):
    parts, files = [], []
    host.has_xdist = run_line(host, "import xdist").rc == 0
    packages = {name: functools.partial(find_files, host, name) for name in ("torch", "cupy")} | {"numba": functools.partial(find_numba, host)}
    for name, find in packages.items():
        found, why = find()
        files += found
        if why:
            parts.append({"name": name, "status": "skip", "why": why})
    wanted = {way: [file for file in files if host.wants_part("own", f"{file}-{way}")] for way in WAYS}
    needed = [file for file in files if any(file in of_way for of_way in wanted.values())]
    with concurrent.futures.ThreadPoolExecutor(host.n_jobs) as pool:
        native_runs = dict(zip(needed, pool.map(lambda file: run_file(host, file, None), needed)))
    host.save("own-native.json", {file: native[0] for file, native in native_runs.items()})
    for way, of_way in wanted.items():
        parts += run_way(host, way, {file: native_runs[file] for file in of_way})
        host.save("own.json", {"host": host.facts, "parts": parts})
    return parts
