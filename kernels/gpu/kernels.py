"""The kernels on the device: every case of kernels/tests against its reference, on the device's own path, on those of older
devices, and without dependent launches; the tests of libkernels.so; first uses that need a real driver; tensors of more
than 2^31 elements;
and, as a suite of its own, a few cases of each function under compute-sanitizer.

Each function of a family is a part.  Nothing is timed, so several programs run at a time, except the large tensors,
which need the memory.  A pattern (--only kernels:softmax, sanitizer:gemv) is part of FAMILY/FUNCTION, or one of
PROGRAMS or DROPINS (--only "kernels:large tensors", "kernels:dropin rows").
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys

import build
import companion
import kernel_cases

TIMEOUT_S = 240
SETTINGS = {"": {}, " as 89": {"CUSHIM_KERNEL_ARCH": "89"}, " as 80": {"CUSHIM_KERNEL_ARCH": "80"},
            " as 75": {"CUSHIM_KERNEL_ARCH": "75"}, " without PDL": {"CUSHIM_KERNEL_PDL": "0"}}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
MOST_SAID = 1 << 20  # characters of a tool's findings, for the log
MOST_SHOWN = 120  # of a fault, in the table; kernels.json has all of it
PROGRAMS = {"first use": "kernels_first_use.py", "large tensors": "kernels_large.py"}
DROPINS = {f"dropin {noun}": noun for noun in kernel_cases.DROPINS}


def filters(host, suite):
    """What the program runs, one call each: the patterns, or all families."""
    text = (build.ROOT / "kernels" / "launch" / "families.def").read_text()
    if host.patterns(suite):
        return [pattern for pattern in host.patterns(suite) if pattern not in PROGRAMS and pattern not in DROPINS]
    return [f"{family}/*" for family in re.findall(r"^FAMILY\((\w+)\)", text, re.MULTILINE)]


def variables(host):
    folders = [*map(str, kernel_cases.folders(host)), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    found = {"LD_LIBRARY_PATH": os.pathsep.join(folders)}
    if host.sim:
        found["CUSHIM_LIBCUDA"] = host.sim / "libcuda.so.1"
    return found


def cases(host, job):
    wanted, (title, setting) = job
    command = [kernel_cases.output(host), "--filter", wanted]
    return companion.judge(host, wanted.removesuffix("/*") + title, host.run(command, TIMEOUT_S, **variables(host), **setting))


def several(host, function, jobs):
    with concurrent.futures.ThreadPoolExecutor(host.n_jobs) as pool:
        return [part for parts in pool.map(lambda job: function(host, job), jobs) for part in parts]


def program(host, title):
    """A program in Python, of which the large tensors need PyTorch on a device; or tests of libkernels.so."""
    patterns = host.patterns("kernels")
    if patterns and title not in patterns:
        return []
    if host.sim and title == "large tensors":
        return [{"name": title, "status": "skip", "why": "needs a GPU"}]
    if title in DROPINS:
        command, more = [kernel_cases.dropin_output(host, DROPINS[title])], {"CK_TAP_LOG_FILE_NAME": "/dev/stdout", "CK_VERBOSITY": "silent"}
    else:
        command, more = [sys.executable, build.ROOT / "kernels" / "gpu" / PROGRAMS[title], host.build], {}
    return companion.judge(host, title, host.run(command, TIMEOUT_S, **variables(host), **more))


def one(host, job):
    return program(host, job) if isinstance(job, str) else cases(host, job)


def brief(part):
    """As the table shows it, which has room for some kilobytes."""
    faults = part.get("faults", [])
    said = faults if "seconds" in part else faults[1:] or faults  # a case's own line has only its name
    last = said[-1:] if said and said[0].startswith("Traceback") else []  # Python prints the error last
    return {**part, "faults": [line[:MOST_SHOWN] for line in (last or said)[:1]]}


def is_built(host):
    return kernel_cases.output(host).exists()


def run(host):
    if not is_built(host):
        return [{"name": "kernel-cases", "status": "fail", "faults": ["not built"]}]
    settings = list(SETTINGS.items())[:1 if host.sim else None]  # the software device has no other path
    jobs = ["first use", *DROPINS, *[(wanted, setting) for setting in settings for wanted in filters(host, "kernels")]]
    parts = several(host, one, jobs)
    parts += program(host, "large tensors")
    host.save("kernels.json", {"host": host.facts, "parts": parts})
    return [brief(part) for part in parts]


def find_sanitizer(host):
    beside = pathlib.Path(host.cuda or "") / "bin" / "compute-sanitizer"
    return beside if beside.exists() else shutil.which("compute-sanitizer")


def sanitized(host, job):
    """Run without guard zones, so that beyond a buffer is beyond its allocation."""
    tool, wanted = job
    older = {"CUSHIM_KERNEL_ARCH": "80"} if tool == "racecheck" and wanted.startswith("reduce") else {}  # for 9.0's, racecheck never ends
    title = f"{tool} {wanted.removesuffix('/*')}" + (" as 80" if older else "")
    command = [find_sanitizer(host), "--tool", tool, "--error-exitcode", "99", "--report-api-errors", "no",
               kernel_cases.output(host), "--few", "--bare", "--filter", wanted]
    done = host.run(command, 2 * TIMEOUT_S, **variables(host), **older)
    parts = companion.judge(host, title, done)
    said = re.findall(r"^=====.*", (done.stdout + b"\n" + done.stderr).decode(errors="replace"), re.MULTILINE)
    counts = [line.partition("SUMMARY: ")[2] for line in said if "SUMMARY: " in line]
    # the exit status shows neither warnings (a race may be one) nor what is found while a case fails
    faults = [count for count in counts if not count.startswith("0 ")] if counts else ["it gave no summary"]
    if faults:
        parts[0]["status"] = "fail"
        parts[0]["faults"] += [*faults, "log.txt says where"]
        host.log(f"== {title}: its findings", "\n".join(said)[:MOST_SAID])
    return parts


def run_sanitizer(host):
    if not is_built(host):
        return [{"name": "kernel-cases", "status": "fail", "faults": ["not built"]}]
    if host.sim or not find_sanitizer(host):
        why = "needs a device" if host.sim else "no compute-sanitizer in the toolkit"
        return [{"name": tool, "status": "skip", "why": why} for tool in TOOLS]
    parts = several(host, sanitized, [(tool, wanted) for wanted in filters(host, "sanitizer") for tool in TOOLS])
    host.save("sanitizer.json", {"host": host.facts, "parts": parts})
    return parts
