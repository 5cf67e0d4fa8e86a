"""Each program runs natively and under the preload, and this must be the same:

    stdout          byte by byte
    exit status     the same
    report          there is one, it has requests, and no driver allocation bypassed cushim (`bypassed`)
    counts (CUPTI)  natively: the driver's successful allocations equal the requests in cushim's report, kind by kind;
                    under the preload: the driver's cuMemAlloc calls equal the driver calls in the report
                    (in separate runs, so that counting does not disturb the comparison)
"""
import concurrent.futures
import difflib
import functools

import build

# The programs whose two outputs may differ, and why.
MAY_DIFFER = {"capture_threads": "what another thread's GLOBAL capture makes the driver refuse is served"}
# The number of their allocations depends on time, so requests of two runs are not compared.
UNSTEADY = ("fork_after",)
# The driver takes long to make a context, and programs wait for each other there.
OPTIONS = {"context_churn": ("--rounds", "4")}
OTHERS = ("barrier", "torture", "hazard_copies", "sharing", "fault", "frag", "ipc_pair")  # hazards, frag and several run these
TIMEOUT_S = 40
# coverage makes a dozen contexts one after the other, and each takes seconds if many programs share a machine with
# several devices, also natively. vecadd makes 12,000 driver calls natively.
LIMITS_S = {"coverage": 240, "vecadd": 240}
KINDS = {"device": ("cuMemAlloc_v2", "cuMemAllocPitch_v2"),
         "managed": ("cuMemAllocManaged",),
         "pinned": ("cuMemHostAlloc", "cuMemHostAlloc_v2", "cuMemAllocHost_v2"),
         "async": ("cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
                   "cuMemAllocFromPoolAsync_ptsz")}


def total(reports, kind, field):
    n = 0
    for report in reports:
        for device in report.get("devices", []):
            n += device.get("kinds", {}).get(kind, {}).get(field) or 0
    return n


def summary(reports):
    """The parts of the reports that are kept with the verdict."""
    kept = {"n_reports": len(reports), "bypassed": sum(report.get("bypassed", 0) for report in reports)}
    for kind in KINDS:
        kept[kind] = {field: total(reports, kind, field) for field in
                      ("requests", "no_call", "misses", "native", "refused", "frees", "native_allocs", "native_frees",
                       "waits", "peak_live_bytes", "peak_held_bytes")}
    for field in ("findings", "calls", "copies"):
        found = [report[field] for report in reports if report.get(field)]
        if found:
            kept[field] = found[0] if len(found) == 1 else found
    return kept


def n_good(counts, functions):
    return sum(counts.get(function, (0, 0))[0] for function in functions)


def judge_reports(reports, faults):
    for report in reports:
        if "unreadable" in report:
            faults.append(f"report: {report['unreadable']}")
    if not reports:
        faults.append("no report")
    elif sum(total(reports, kind, "requests") for kind in KINDS) == 0:
        faults.append("the report saw no request")
    n_bypassed = sum(report.get("bypassed", 0) for report in reports)
    if n_bypassed:
        faults.append(f"{n_bypassed} allocations went round us")
    if any("bypassed" not in report for report in reports):
        faults.append("the report does not say `bypassed`")


def summed(counts):
    sums = {}
    for rows in counts.values():
        for name, (n_right, n_wrong) in rows.items():
            had = sums.get(name, (0, 0))
            sums[name] = (had[0] + n_right, had[1] + n_wrong)
    return {name: pair for name, pair in sums.items() if any(pair)}


def judge_requests(native, reports, faults):
    for kind, functions in KINDS.items():
        n_seen, n_asked = total(reports, kind, "requests"), n_good(native, functions)
        if n_seen != n_asked:
            faults.append(f"{kind}: natively {n_asked} allocations, our report saw {n_seen}")


def judge_driver_calls(cushim, reports, faults):
    n_ours = total(reports, "device", "native_allocs")
    n_right, n_wrong = cushim.get("cuMemAlloc_v2", (0, 0))
    n_dummies = n_good(cushim, ("cuMemAlloc_v2 of one byte",))
    # our count includes calls that failed for the pool; forwarded calls that failed belong to the program
    if not n_right - n_dummies <= n_ours <= n_right + n_wrong:
        faults.append(f"the driver counted {n_right} cuMemAlloc and {n_wrong} that failed, our report {n_ours}")


def difference(native, cushim):
    """The first lines that differ."""
    lines = difflib.unified_diff(native.decode(errors="replace").splitlines(),
                                 cushim.decode(errors="replace").splitlines(), "native", "cushim", lineterm="", n=0)
    return list(lines)[:12]


def brief(done):
    return {"rc": done.rc, "seconds": done.seconds, "stdout_bytes": len(done.stdout), "is_late": done.is_late}


def gauntlet(host, name, command, timeout_s=TIMEOUT_S, may_differ=None, cwd=None, is_counted=True, settings=None,
             native=None, **env):
    """Runs one program through all steps, under cushim with these settings; returns a part of the suite's JSON.
    `native`: the result of its native run, if known."""
    part = {"name": name, "status": "pass", "faults": []}
    faults = part["faults"]
    report_at = {"LD_PRELOAD": host.preload, "CUSHIM_STATS": host.scratch / f"{name}-%p.json", **(settings or {})}
    native = native or host.run(command, timeout_s, cwd, **env)
    part["native"] = brief(native)
    if native.rc == 77:
        part.update(status="skip", why=native.stderr.decode(errors="replace").strip()[-300:])
        return part
    if native.is_late:
        part.update(status="fail", faults=["natively no end in time"])
        return part
    cushim = host.run(command, timeout_s, cwd, **env, **report_at)
    reports = host.reports(name)
    part["cushim"], part["report"] = brief(cushim), summary(reports)
    if cushim.is_late:
        faults.append("no end in time")
    if native.rc != 0:
        faults.append(f"natively it ends with {native.rc}")
    if native.rc != cushim.rc:
        faults.append(f"exit status {native.rc} natively, {cushim.rc} under cushim")
    if native.stdout != cushim.stdout:
        part["difference"] = difference(native.stdout, cushim.stdout)
        if may_differ:
            part["differs_because"] = may_differ
        else:
            again = host.run(command, timeout_s, cwd, **env)
            is_steady = again.stdout == native.stdout
            faults.append("stdout differs" if is_steady else "stdout differs, natively from run to run too")
    judge_reports(reports, faults)
    if host.counter and is_counted and not faults:
        count(host, part, command, timeout_s, cwd, env, report_at, native)
    if faults:
        part["status"] = "fail"
        host.log(f"== {name}: {'; '.join(faults)}", *part.get("difference", []),
                 "-- native stderr", native.stderr.decode(errors="replace")[-1500:],
                 "-- cushim stderr", cushim.stderr.decode(errors="replace")[-3000:])
    return part


def count(host, part, command, timeout_s, cwd, env, report_at, native):
    """Both runs again, while CUPTI counts below cushim."""
    name = part["name"]
    counted = {"CUDA_INJECTION64_PATH": host.counter, "CUPTI_COUNT": host.scratch / f"{name}.count"}
    first = host.run(command, 2 * timeout_s, cwd, **env, **counted)
    of_native = host.counts(f"{name}.count")
    second = host.run(command, 2 * timeout_s, cwd, **env, **counted, **report_at)
    of_cushim, reports = host.counts(f"{name}.count"), host.reports(name)
    part["counts"] = {"native": summed(of_native), "cushim": summed(of_cushim)}
    if first.rc != native.rc or not of_native:
        part["counts"]["skipped"] = f"CUPTI itself: exit status {first.rc} natively"
        return
    if second.rc != native.rc or not of_cushim:
        part["faults"].append(f"with CUPTI: exit status {second.rc} under cushim, {first.rc} natively")
        return
    reporting = {report.get("pid") for report in reports}
    silent = {pid for pid, rows in of_cushim.items() if pid not in reporting and summed({pid: rows})}
    judge_driver_calls(summed({pid: rows for pid, rows in of_cushim.items() if pid in reporting}), reports,
                       part["faults"])
    if silent:
        part["counts"]["not_compared"] = f"{len(silent)} processes that used memory wrote no report"
    elif name.rsplit("-", 1)[0] in UNSTEADY:
        part["counts"]["not_compared"] = "how often it allocates depends on time"
    elif "difference" not in part:  # because a natively refused request may be repeated or not
        judge_requests(summed(of_native), reports, part["faults"])


def limit_s(name):
    return LIMITS_S.get(name, TIMEOUT_S)


def command_of(host, name, link, options=()):
    library = build.output(host, name + "_part", link)
    return [build.output(host, name, link), *([library] if library.exists() else []), *OPTIONS.get(name, ()), *options]


def program(host, name, link, options=(), is_counted=True):
    title = "-".join([name, *options, link])
    if not build.output(host, name, link).exists():
        return {"name": title, "status": "fail", "faults": ["not built"]}
    return gauntlet(host, title, command_of(host, name, link, options), limit_s(name), may_differ=MAY_DIFFER.get(name),
                    is_counted=is_counted)


def run_all(host, file_name, works, n_jobs):
    """works: functions that give a part each, or a list of them."""
    parts = []
    with concurrent.futures.ThreadPoolExecutor(n_jobs) as pool:
        for given in pool.map(lambda work: work(), works):
            parts.extend(given if isinstance(given, list) else [given])
            host.save(file_name, {"host": host.facts, "parts": parts})
    return parts


def run(host):
    names = [name for name, path in build.sources()
             if name not in OTHERS and not build.is_part(name) and not (host.sim and path.suffix == ".cu")
             and host.wants_part("compat", name)]
    return run_all(host, "compat.json", [functools.partial(program, host, name, link)
                                         for name in names for link in host.links], host.n_jobs)
