"""Checks that cushim runs out of memory only when native does: programs/frag.cu at each size, natively and in each
mode.

After the staging is freed, the preload grants what native grants, except for the slack in
docs/internals/memory-engine.md, and cudaMemGetInfo does not promise memory that is then refused.
"""
import functools

import build
import compat

SIZES_KIB = (1536, 2048, 4096, 8192, 16384, 24576)
MODES = {"exact": {"CUSHIM_FREE": "exact"}, "relaxed": {"CUSHIM_FREE": "relaxed"}, "vmm": {"CUSHIM_BACKEND": "vmm"}}
SLACK = 1 / 64  # share of the device
LIMIT_S = 60


def figures(done):
    """{name: value} of a successful run, or None."""
    if done.rc != 0:
        return None
    return {name: int(value) for name, value in (line.split() for line in done.stdout.decode().splitlines())}


def judge(native, ours):
    slack = native["total_mib"] * SLACK
    faults = []
    if ours["largest_mib"] < native["largest_mib"] - slack:
        faults.append(f"grants {ours['largest_mib']} MiB where native grants {native['largest_mib']}")
    if ours["largest_mib"] < ours["free_unstaged_mib"] - slack - (native["free_unstaged_mib"] - native["largest_mib"]):
        faults.append(f"cudaMemGetInfo said {ours['free_unstaged_mib']} MiB, granted are {ours['largest_mib']}")
    return faults


def of_size(host, kib):
    command = [build.output(host, "frag", "static"), "--kib", kib]
    native = host.run(command, LIMIT_S)
    expected, parts = figures(native), []
    if expected is None:
        return [{"name": f"frag {kib} KiB, native", "status": "fail", "faults": [f"exit status {native.rc}: "
                                                                                 f"{native.stderr.decode(errors='replace')[-300:]}"]}]
    for mode, settings in MODES.items():
        done = host.run(command, LIMIT_S, LD_PRELOAD=host.preload, **settings)
        found = figures(done)
        faults = judge(expected, found) if found else [f"exit status {done.rc}: {done.stderr.decode(errors='replace')[-300:]}"]
        parts.append({"name": f"frag {kib} KiB, {mode}", "status": "fail" if faults else "pass", "faults": faults,
                      "native": expected, "cushim": found, "native_s": native.seconds, "cushim_s": done.seconds})
    return parts


def run(host):
    if host.sim:
        return [{"name": "frag", "status": "skip", "why": "needs a GPU"}]
    if not build.output(host, "frag", "static").exists():
        return [{"name": "frag", "status": "fail", "faults": ["not built"]}]
    works = [functools.partial(of_size, host, kib) for kib in SIZES_KIB]
    return compat.run_all(host, "frag.json", works, 1)
