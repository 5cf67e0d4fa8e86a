"""The output for users: a recording of real programs, its page and its plan; doctor; reports of ranks and
their merge."""
import functools
import json
import pathlib
import sys

import build
import compat
import several

TIMEOUT_S = 100
# The counters of a run may lag by 1 MiB per thread (src/memory/cache/cache.h), so its peak is exact to that.
LAG_BYTES = 1 << 20
N_THREADS = {"torch_train": 2}  # threads that allocate; other programs have one, whose peak is exact
PYTHON = {"torch_train": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "cupy_pool_off": {}}
RANKS = 2


def new_part(name):
    return {"name": name, "status": "pass", "faults": []}


def ended(host, part):
    if part["faults"]:
        part["status"] = "fail"
        host.log(f"== {part['name']}: {'; '.join(part['faults'])}")
    return part


def command(host):
    return host.build / "tools" / "cushim" / "cushim"


def ask(host, part, *arguments):
    """Returns the standard output of the command; if it fails, its standard error is a fault."""
    done = host.run([command(host), *arguments], TIMEOUT_S)
    if done.rc != 0:
        part["faults"].append(f"cushim {arguments[0]}: exit status {done.rc}: {done.stderr.decode(errors='replace')[-300:]}")
    return done.stdout.decode(errors="replace")


def peaks(report):
    """{device: the peaks of live memory of its kinds} of an exit report."""
    return {f"device {row['device']}": [counts["peak_live_bytes"] for kind, counts in row["kinds"].items() if kind not in ("pinned", "imported")]
            for row in report["devices"]}


def judge_plan(part, plan, report, lag_bytes):
    """The engine, fed with the recording, has the live bytes that the run counted: its peak has all kinds of memory, contexts too,
    and the run counted the peak of each kind."""
    for setting in plan["settings"]:
        for row in setting["memory"]:
            if row["memory"] not in peaks(report):
                continue
            counted, live = peaks(report)[row["memory"]], row["peak_live_bytes"]
            part.setdefault("plan", {})[f"{setting['with']}, {row['memory']}"] = {**row, "run_peaks_live_bytes": counted}
            if not max(counted) - lag_bytes <= live <= sum(counted) + lag_bytes:
                part["faults"].append(f"{setting['with']}, {row['memory']}: {live} bytes live at the peak, the run counted {counted}")


def recorded(host, name, program, env):
    """Runs a program natively, then recorded, and checks output, page, summary and plan."""
    part = new_part(f"record {name}")
    native = host.run(program, TIMEOUT_S, **env)
    part["native"] = {"rc": native.rc, "seconds": native.seconds}
    folder, report_at = host.scratch / f"{name}.cushim", host.scratch / f"recorded-{name}-%p.json"
    done = host.run([command(host), "record", "-o", folder, f"--stats={report_at}", *program], TIMEOUT_S, **env)
    reports = host.reports(f"recorded-{name}")
    part["recorded"] = {"rc": done.rc, "seconds": done.seconds, "said": done.stderr.decode(errors="replace")[-200:]}
    if (native.rc, native.stdout) != (done.rc, done.stdout):
        part["faults"].append(f"recorded it ends with {done.rc}, natively with {native.rc}, or prints something else")
    elif len(reports) != 1:
        part["faults"].append(f"{len(reports)} reports, not one")
    else:
        part["summary"] = ask(host, part, "report", "--format=text", folder)[:4000]
        page = host.scratch / f"{name}.html"
        ask(host, part, "report", "-o", page, folder)
        part["page_bytes"] = page.stat().st_size if page.exists() else 0
        if not part["page_bytes"]:
            part["faults"].append("no page")
        n_threads = N_THREADS.get(name, 1)
        judge_plan(part, json.loads(ask(host, part, "replay", "--plan", "--json", folder))[0], reports[0],
                   n_threads * LAG_BYTES if n_threads > 1 else 0)
    return ended(host, part)


def doctor(host):
    part = new_part("doctor")
    part["rows"] = json.loads(ask(host, part, "doctor", "--json") or "{}").get("rows", [])
    faults = [f"{row['name']}: {row['text']}" for row in part["rows"] if row["state"] == "wrong"]
    part["faults"] += faults if part["rows"] else ["no rows"]
    return ended(host, part)


def ranks(host):
    """Two ranks of torchrun: each has a report, and one table has both."""
    part = new_part("ranks")
    program, folder = several.torchrun("data_parallel.py"), host.scratch / "ranks"
    if host.facts.get("n_devices", 1) < RANKS:
        part.update(status="skip", why="wants two devices")
        return part
    native = host.run(program, TIMEOUT_S, **several.QUIET_NCCL)
    done = host.run([command(host), "run", f"--stats={folder}/", "--", *program], TIMEOUT_S, **several.QUIET_NCCL)
    if (native.rc, native.stdout) != (done.rc, done.stdout):
        part["faults"].append("torchrun under cushim run prints something else")
    part["said"] = done.stderr.decode(errors="replace")[-2000:]
    whole = host.scratch / "ranks.json"
    part["merged"] = ask(host, part, "merge", "-o", whole, folder)
    if whole.exists():
        found = sorted(str(report.get("rank")) for report in json.loads(whole.read_text())["reports"] if report.get("devices"))
        if found != [str(rank) for rank in range(RANKS)]:
            part["faults"].append(f"reports of ranks {', '.join(found)}")
    return ended(host, part)


def run(host):
    if not command(host).exists():
        return [{"name": "observe", "status": "skip", "why": "the command was not built: json-c is not here"}]
    works = {"doctor": functools.partial(doctor, host),
             "vecadd": functools.partial(recorded, host, "vecadd", [build.output(host, "vecadd", host.links[-1])], {})}
    if not host.sim:
        folder = build.ROOT / "tests" / "gpu" / "python"
        works |= {name: functools.partial(recorded, host, name, [sys.executable, folder / f"{name}.py"], env)
                  for name, env in PYTHON.items()}
        works |= {"thrust": functools.partial(recorded, host, "thrust", [build.output(host, "thrust", "static")], {}),
                  "ranks": functools.partial(ranks, host)}
    return compat.run_all(host, "observe.json", [work for name, work in works.items() if host.wants_part("observe", name)], 1)
