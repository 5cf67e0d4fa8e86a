"""What tests of live pages share: a program started by `cushim run`, the folder of its page, and the reports of its end."""
import json
import os
import signal
import subprocess

from fixture import CUSHIM, SIM, scratch

HEAD = "cushim 0.1.0: "
folder = scratch / "live"
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who starts the tests by nohup ignores it, and what they start would, too


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **more}


def run(*words, **more):
    return subprocess.run([CUSHIM, "run", *words], env=environment(**more), text=True, capture_output=True, timeout=120)


def stat(*words, **more):
    return subprocess.run([CUSHIM, "stat", *words], env=environment(**more), text=True, capture_output=True, timeout=120)


def started(*words, **more):
    """A program that said that it is ready."""
    process = subprocess.Popen([CUSHIM, "run", *words], env=environment(**more), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def pages():
    return sorted(folder.glob("*.page")) if folder.exists() else []


def device(report):
    return report["devices"][0]["kinds"]["device"]


def report_of(*words, **more):
    """The result of a run, and its report as JSON."""
    file = scratch / "report.json"
    file.unlink(missing_ok=True)
    result = run(f"--stats={file}", *words, **more)
    report = json.loads(file.read_text()) if file.exists() else None
    assert not pages(), pages()
    return result, report
