"""The kernels beside PyTorch's (kernels/bench): OUT/kernels.jsonl, and one line per measurement in the log.

A pattern (--only kernelbench:softmax) is part of KERNEL/SHAPE.  Peers that PyTorch compiles take seconds each, so they
run only if a pattern is given.
"""
import sys

import build

SHARE = 0.95  # of the time that is left


def libraries(host):
    return host.build / "kernels" / "libcushim-kernels.so.0", host.build / "src" / "companion" / "libcushim.so.0"


def run(host):
    if host.sim:
        return [{"name": "kernelbench", "status": "skip", "why": "needs a GPU"}]
    library, companion = libraries(host)
    if not library.exists():
        return [{"name": "kernelbench", "status": "fail", "faults": ["libcushim-kernels.so was not built"]}]
    patterns = host.patterns("kernelbench")
    seconds = SHARE * host.left_s()
    command = [sys.executable, build.ROOT / "kernels" / "bench" / "kernels.py", "--library", library, "--companion", companion,
               "--out", host.out / "kernels.jsonl", "--seconds", seconds * 0.9, "--peers", "all" if patterns else "eager",
               *(["--only", ",".join(patterns)] if patterns else [])]
    done = host.run(command, seconds)
    text = done.stdout.decode(errors="replace")
    host.log(text, done.stderr.decode(errors="replace")[-4000:])
    print(text[-6000:], flush=True)
    faults = ["no end in time"] if done.is_late else [f"exit status {done.rc}: {done.stderr.decode(errors='replace')[-300:]}"] if done.rc else []
    return [{"name": "kernelbench", "status": "fail" if faults else "pass", "faults": faults, "seconds": done.seconds}]
