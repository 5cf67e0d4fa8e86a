"""For the runners of this folder: paths, the guarantees of each mode, and runs of a program without cushim, under the
preload in both modes of free, and under its careless builds."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402

TIMEOUT_SECONDS = 100
# mode: (the library, the mode of free)
MODES = {
    "native": (None, None),
    "exact": ("preload", "exact"),
    "relaxed": ("preload", "relaxed"),
    "never waits": ("careless", "exact"),
    "no fence": ("careless", "relaxed"),
}
CARELESS = ("never waits", "no fence")
# What a row of barrier.c depends on: the modes that keep it.
KEPT_IN = {
    "order": set(MODES),
    "seen": set(MODES) - {"never waits"},
    "reuse": {"native", "exact", "relaxed"},
    "barrier": {"native", "exact"},
}
TORTURE = re.compile(r"torture: (\d+) of (\d+) seeds bad, (\d+) words wrong, (\d+) read wrong")


def arguments(about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--seeds", type=int, default=250, help="number of seeds (250)")
    parser.add_argument("--in-front", default="", help="library that LD_PRELOAD needs before cushim's (a sanitizer's)")
    options = parser.parse_args()
    options.build = pathlib.Path(options.build).resolve()
    # without a sanitizer, because careless builds have races on purpose, and runs without cushim have no code of ours
    options.modes = [mode for mode in MODES if not (options.in_front and mode in ("native", *CARELESS))]
    return options


def tries_in(mode):
    """The arguments for barrier: a row that may go wrong is tried until it does."""
    return () if mode in ("native", "exact") else ("--tries", 12, "--until-wrong", "--patience", 15)


def rows_of(text):
    """The output of barrier: {name: (what it depends on, its verdict)}"""
    return {name: (leans_on, verdict) for name, leans_on, verdict, _ in map(str.split, text.splitlines())}


def unexpected(mode, rows):
    return {name: verdict for name, (leans_on, verdict) in rows.items()
            if verdict != ("right" if mode in KEPT_IN[leans_on] else "wrong")}


def run(options, mode, program, *words, **variables):
    """stdout of a run that ends in time and by itself, with 0, or with 1 if its output says so."""
    library, free = MODES[mode]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    environment["LD_LIBRARY_PATH"] = str(options.build / "tools" / "sim")
    if library:
        path = {"preload": options.build / "preload" / "libcushim-preload.so",
                "careless": options.build / "tests" / "hazards" / "libcushim-careless.so"}[library]
        environment["LD_PRELOAD"] = f"{options.in_front} {path}".strip()
        environment["CUSHIM_FREE"] = free
    environment.update(variables)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.build / "tests" / "hazards" / f"hazards-{program}", *map(str, words)],
                              env=environment, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_SECONDS, cwd=folder)
    assert done.returncode in (0, 1) and done.stdout and not done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def count_bad(options, mode, program, setting, n_seeds, *more, settings, piece, **variables):
    """The seeds that went wrong, and the program's output; each setting has its own seeds.

    `settings` has a row per setting, (share of the seeds, options of the program, variables); each process plays `piece` seeds.
    """
    _, words, own = settings[setting]
    first = 1 + 10 ** 6 * list(settings).index(setting)

    def run_piece(at):
        n = min(piece, n_seeds - at)
        text = run(options, mode, program, "--seed", first + at, "--seeds", n, *words, *more, "--verbose", **(variables | own))
        n_bad, n_done = map(int, TORTURE.search(text).groups()[:2])
        assert n_done == n, text
        return n_bad, text if n_bad else ""

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = list(pool.map(run_piece, range(0, n_seeds, piece)))
    return sum(n for n, _ in pieces), "".join(text for _, text in pieces)
