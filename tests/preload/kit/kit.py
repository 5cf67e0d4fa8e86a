"""What the scripts of this folder share: runs of programs on the software device, with and without
the preload, and their exit reports."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import jsonschema  # noqa: E402
import tap  # noqa: E402

SCHEMA = pathlib.Path(__file__).resolve().parents[3] / "docs/schema/report-1.json"
schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))

TIMEOUT_SECONDS = 120


def arguments(*names):
    parser = argparse.ArgumentParser()
    for name in ("preload", "sim", *names):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--few", action="store_true", help="one of each kind, where all take long")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    options.programs = [os.path.abspath(program) for program in options.programs]
    return options


class Run:
    """One run of a program: out, err (bytes), code, report (the exit report, or None)."""

    def __init__(self, options, command, preload=True, stats=True, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("CUSHIM")}
        environment["LD_LIBRARY_PATH"] = options.sim
        environment.update(variables)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "report.json")
            if preload:
                environment["LD_PRELOAD"] = options.preload
            if stats:
                environment["CUSHIM_STATS"] = file
            done = subprocess.run(command, env=environment, capture_output=True, check=False,
                                  timeout=TIMEOUT_SECONDS, cwd=folder)
            self.out, self.err, self.code = done.stdout, done.stderr, done.returncode
            self.report = None
            if os.path.exists(file):
                with open(file, encoding="ascii") as stream:
                    self.report = json.load(stream)
                schema.validate(self.report)

    def kinds(self, kind="device"):
        """The counters of one kind of memory, a dictionary for each device that has any."""
        return [device["kinds"][kind] for device in self.report["devices"]
                if kind in device["kinds"]]

    def total(self, counter, kind="device"):
        return sum(counters[counter] for counters in self.kinds(kind))

    def check_report(self):
        """What holds of every report."""
        assert self.report is not None, "no report"
        assert self.report["bypassed"] == 0, self.report["bypassed"]
        for device in self.report["devices"]:
            for counters in device["kinds"].values():
                served = counters["no_call"] + counters["misses"] + counters["native"]
                assert served == counters["requests"], counters
                assert counters["live_bytes"] <= counters["peak_live_bytes"], counters
                assert counters["peak_live_bytes"] <= counters["requested_bytes"], counters
                assert counters["held_bytes"] <= counters["peak_held_bytes"], counters
                assert counters["frees"] <= counters["requests"], counters
