"""Variants of a program run as processes side by side and take turns of a fraction of a second.

Drift of the machine affects all of them alike, so much smaller differences show than between processes that run one
after the other. Such a program reads lines: at each it measures every case once, prints one JSON line per case and then
an empty line; it ends with its input. Differences between processes (the addresses of memory, the processor of a
thread) average out over several generations of processes, which are bound to the same processors.
"""
import json
import os
import subprocess
import threading

import rounds


class Process:
    """A started variant; `lines` waits for the result of a turn."""

    def __init__(self, command, environment, processors):
        self.child = subprocess.Popen([str(part) for part in command], env=environment, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: os.sched_setaffinity(0, processors))
        self.said = []
        self.listener = threading.Thread(target=lambda: self.said.extend(self.child.stderr), daemon=True)
        self.listener.start()

    def turn(self, timeout_s):
        """The rows of a turn; none if the program has ended or took too long."""
        late = threading.Timer(timeout_s, self.child.kill)
        late.start()
        found = []
        try:
            self.child.stdin.write("\n")
            self.child.stdin.flush()
            for line in self.child.stdout:
                if not line.strip():
                    return found
                found.append(json.loads(line))
        except (BrokenPipeError, ValueError):
            pass
        finally:
            late.cancel()
        return []

    def end(self, timeout_s=30):
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.listener.join(5)
        return self.child.returncode, "".join(self.said).strip().splitlines()


def processors_of(n):
    """The last n processors that this process may use, because the first serve more interrupts."""
    return set(sorted(os.sched_getaffinity(0))[-n:])


def take(bench, title, variants, suffix="", n_generations=3, n_turns=10, n_processors=4, timeout_s=60):
    """One line per case and variant, with the interval of its ratio to native in the same turn."""
    seen = {}
    for generation in range(n_generations):
        if generation and bench.is_over():
            break
        processors = processors_of(n_processors)
        live = {each.name: Process(each.command, bench.environment(**each.env), processors) for each in variants}
        there = [name for name, process in live.items() if process.turn(timeout_s)]  # the first turn is a warm-up
        for i in range(n_turns):
            names = there if i % 2 == 0 else there[::-1]
            rows = {name: live[name].turn(timeout_s) for name in names}
            if not all(rows.values()):
                break
            for name, of_variant in rows.items():
                for row in of_variant:
                    seen.setdefault(row["case"] + suffix, {}).setdefault(name, []).append(row)
        for name, process in live.items():
            rc, said = process.end()
            if rc == 77 and generation == 0:
                bench.emit({"case": title, "variant": name, "rounds": 0, "skipped": said[-1][:200] if said else "it says so"})
            elif rc not in (0, 77):
                bench.faults.append(f"{title}, {name}: exit status {rc}{': ' + said[-1][:200] if said else ''}")
    rounds.emit_by_case(bench, seen)
