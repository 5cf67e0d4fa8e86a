"""The times of docs/results, one part per bench (tests/bench/run/benches.py has them by name)."""
import sys

import build

sys.path.insert(0, str(build.BENCHES / "run"))
import benches  # noqa: E402
import rounds  # noqa: E402

RECORDED = build.BENCHES / "data" / "torch-step.trace"  # written by an earlier run


def place_of(host):
    place = benches.Place(host.bin, host.preload, host.links, time_ms=2 if host.sim else 20, is_tiny=bool(host.sim))
    place.before = host.before
    place.trace = RECORDED if RECORDED.exists() else None
    if host.sim:
        return place
    for name in ("thrust", "steady"):
        program = build.output(host, name, "static")
        setattr(place, name, program if program.exists() else None)
    place.torch = build.ROOT / "tests" / "gpu" / "python" / "torch_train.py"
    place.record = (host.bin / "librecord.so", host.out / "torch-step.trace")
    return place


def chosen(host):
    return [name for name in benches.BENCHES if host.wants(name) and not (host.sim and name in benches.ON_GPU)]


def run(host):
    parts = []
    facts = {name: host.facts.get(name) for name in ("device", "driver", "clocks", "commit", "date")}
    with open(host.out / "bench.jsonl", "w") as out:
        bench = rounds.Bench(lambda command, timeout_s, **env: host.run(command, timeout_s, **env), host.environment, facts,
                             out, str(host.scratch), n_rounds=1 if host.sim else 9)
        place = place_of(host)
        for name in chosen(host):
            if host.left_s() < 5:
                parts.append({"name": name, "status": "skip", "why": "no time left", "seconds": 0})
                continue
            left_s = host.left_s()
            faults, n_lines = benches.run_one(bench, place, name, left_s)
            host.log(*faults)
            is_good = not faults and (n_lines > 0 or name == "record")
            parts.append({"name": name, "status": "pass" if is_good else "fail", "n_lines": n_lines,
                          "faults": faults or ([] if is_good else ["no line"]), "seconds": round(left_s - host.left_s(), 1)})
    host.bench_rows = bench.rows
    return parts
