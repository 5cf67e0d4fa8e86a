"""Recordings and live pages that root cuts while their program runs: the program goes on.

    cut.py --preload ... --sim ... PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
PROGRAM, = OPTIONS.programs
N_THREADS = 6


def run(left_bytes, **settings):
    """Cut all files of the program to these bytes; its code, answer and messages, or None if it cannot survive that."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    environment.update(LD_LIBRARY_PATH=OPTIONS.sim, LD_PRELOAD=OPTIONS.preload, CUSHIM_SIM_MEMORY="1G")
    with tempfile.TemporaryDirectory() as folder:
        settings = {name: value.replace("FOLDER", folder) for name, value in settings.items()}
        with subprocess.Popen([PROGRAM, str(N_THREADS)], env=environment | settings, cwd=folder, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            said = process.stdout.readline()
            if said == "handled\n" or os.geteuid() != 0:
                print("# not run: a cut file survives only if root runs this, without a handler of SIGBUS")
                process.communicate("\n", timeout=fixture.TIMEOUT_SECONDS)
                return None
            assert said == "ready\n", said + process.stderr.read()
            files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
            assert files
            for path in files:
                os.truncate(path, left_bytes)
            out, err = process.communicate("\n", timeout=fixture.TIMEOUT_SECONDS)
            return process.returncode, out, err.replace(str(process.pid), "PROCESS")


def survives(says="", **settings):
    for left_bytes in (0, 4096, 12288):
        done = run(left_bytes, **settings)
        assert done in (None, (0, "ended well\n", says)), (left_bytes, done)


@fixture.tap.test
def a_program_goes_on_without_its_recording():
    survives(CUSHIM_TRACE="FOLDER/recording")


@fixture.tap.test
def a_program_goes_on_without_its_live_page():
    os.umask(0o077)
    survives(CUSHIM_LIVE="1", CUSHIM_LIVE_DIR="FOLDER")
    survives(CUSHIM_LIVE="1", CUSHIM_LIVE_DIR="FOLDER", CUSHIM_SITES="64K", CUSHIM_FREE="relaxed")


@fixture.tap.test
def no_report_is_made_of_counters_that_are_gone():
    survives("cushim[PROCESS] error stats: no report: the file with the counters was cut\n",
             CUSHIM_LIVE="1", CUSHIM_LIVE_DIR="FOLDER", CUSHIM_STATS="stderr")


fixture.tap.run()
