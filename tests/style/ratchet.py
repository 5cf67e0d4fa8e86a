"""Counts that may only fall: tests/style/limits.json has the most that each may be.

A check calls faults(NAME, counts); `python3 tests/style/CHECK.py ROOT --lower` writes lower limits after the tree became better.
A limit that goes up is a decision: it is written by hand, and its commit says why.
"""
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parent / "limits.json"


def limits(name):
    return json.loads(FILE.read_text()).get(name, {})


def faults(name, counts):
    most = limits(name)
    return [f"{key}: {count}, at most {most.get(key, 0)}" for key, count in sorted(counts.items()) if count > most.get(key, 0)]


def lower(name, counts):
    """Write what counts say where it is less; True where the command line asks for it."""
    if "--lower" not in sys.argv:
        return False
    every = json.loads(FILE.read_text()) if FILE.exists() else {}
    old = every.get(name)
    every[name] = {key: min(count, old.get(key, 0)) if old is not None else count for key, count in sorted(counts.items())}
    every[name] = {key: count for key, count in every[name].items() if count}
    FILE.write_text(json.dumps(every, indent=1, sort_keys=True) + "\n")
    return True
