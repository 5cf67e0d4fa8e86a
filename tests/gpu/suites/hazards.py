"""The guarantees of cudaFree's barrier and of the fence: tests/hazards on the device.

  barrier   every row natively and in each mode; careless builds of the preload must be found out
  torture   some seconds in each mode and setting (run --seconds: longer); careless builds likewise
  copies    copies from and to pageable memory, natively and staged; a build that does not wait for their stream likewise
  sharing   most of the device is used and freed and then available to others: natively and in each mode
  fault     natively and under the preload, as in compat

One program at a time, because they depend on the duration of kernels.
"""
import functools
import glob
import sys

import build
import compat

ROOT = build.ROOT
sys.path.insert(0, str(ROOT / "tests" / "hazards"))
import runs  # noqa: E402

FAULTS = ("free", "malloc", "sync")
LARGEST = ("--size", 32 << 20)
# Stream-ordered frees of cudaMalloc's memory among other frees deadlock in the driver, also natively (torture.c).
UNMIXED = ("--no-mixed-frees",)
# the settings of torture: (options of the program, variables)
SETTINGS = {
    "room": ((), {}),
    "large": (LARGEST, {}),
    "tight limit": ((*LARGEST, *UNMIXED), {"CUSHIM_LIMIT": "96M"}),
    "one thread": (("--threads", 1, *LARGEST), {}),
    "16 threads": (("--threads", 16, "--streams", 16), {}),
    "spinning kernel": (("--spin", 1), {}),
    "open capture": (("--capture", 1), {}),
}
CARELESS_SETTINGS = ("room", "spinning kernel", "open capture")
# the settings of copies, as in tests/hazards/copies.py, but without failing driver calls
COPY_SETTINGS = {
    "helpers": ((), {}),
    "no helpers": ((), {"CUSHIM_COPY_THREADS": "0"}),
    "open capture": (("--capture", 1), {}),
}
LINGER = ("--linger", 1000)  # microseconds at most: longer than the start of a copy
STAGED = {"CUSHIM_COPY_STAGE": "on", "CUSHIM_COPY_STAGE_MIN": "64K", "CUSHIM_COPY_RING": "4M"}
N_COPY_SEEDS = 50
BARRIER_S, START_S, SHARING_S, COPIES_S = 60, 30, 60, 100


def careless_path(host):
    return host.bin / "libcushim-careless.so"


def build_careless(host):
    """The preload's objects, with careless.c replacing the fence's wait: see tests/hazards/meson.build."""
    objects = sorted(glob.glob(str(host.build / "preload" / "libcushim-preload.so.p" / "*.o")))
    wraps = [f"-Wl,--wrap=cushim_mem_{name}" for name in ("fence_await", "fence_init", "fence_note_effect", "fence_wait")]
    wraps.append("-Wl,--wrap=cushim_copy_ring_await")
    return build.run_logged(host, {}, [
        "gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{ROOT}/src",
        f"-I{ROOT}/src/include", "-isystem", f"{host.cuda}/include", ROOT / "tests/hazards/careless.c", *objects,
        "-Wl,--whole-archive", host.build / "src" / "libcushim-core.a", "-Wl,--no-whole-archive",
        f"-Wl,--version-script={host.build}/preload/preload.map", "-Wl,-Bsymbolic", "-Wl,-z,now", *wraps,
        "-o", careless_path(host), "-lpthread"])


def run_in(host, mode, program, link, words, timeout_s, **variables):
    library, free = runs.MODES[mode]
    if library:
        path = {"preload": host.preload, "careless": careless_path(host)}[library]
        variables.update(LD_PRELOAD=path, CUSHIM_FREE=free)
    return host.run([build.output(host, program, link), *words], timeout_s, **variables)


def part_of(host, name, done, faults):
    part = {"name": name, "status": "fail" if faults else "pass", "faults": faults, "run": compat.brief(done)}
    if faults:
        host.log(f"== {name}: {'; '.join(faults)}", done.stdout.decode(errors="replace")[-3000:],
                 done.stderr.decode(errors="replace")[-2000:])
    return part


def ending(done):
    """The fault in the end of a program; exit status 1 means that it found something."""
    if done.is_late:
        return ["no end in time"]
    return [f"exit status {done.rc}"] if done.rc not in (0, 1) else []


def barrier(host, link, mode):
    done = run_in(host, mode, "barrier", link, runs.tries_in(mode), BARRIER_S)
    faults = ending(done)
    if not faults:
        rows = runs.rows_of(done.stdout.decode())
        faults = [f"{name} is {verdict}" for name, verdict in runs.unexpected(mode, rows).items()]
        if "fault_is_reported" not in rows:
            faults.append("the last row is missing")
    return part_of(host, f"barrier, {mode}-{link}", done, faults)


def torture(host, mode, setting, *more):
    words, variables = SETTINGS[setting]
    unmixed = UNMIXED if mode == "native" else ()
    seconds = 1 if mode in runs.CARELESS else host.torture_s
    done = run_in(host, mode, "torture", "static", ("--seconds", seconds, "--verbose", *words, *unmixed, *more),
                  seconds + START_S, **variables)
    return judged(host, f"torture, {mode}, {', '.join([setting, *map(str, more)])}-static", mode, done)


def copies(host, mode, setting):
    """Staged copies are counted, because without any nothing was tested."""
    words, variables = COPY_SETTINGS[setting]
    stem = "copies-report"
    staged = {**STAGED, "CUSHIM_STATS": host.scratch / f"{stem}-%p.json"} if mode != "native" else {}
    done = run_in(host, mode, "hazard_copies", "static", ("--seeds", N_COPY_SEEDS, "--verbose", *LINGER, *words), COPIES_S,
                  **staged, **variables)
    n_staged = [report.get("staged", {}).get(way, {}).get("count", 0) for report in host.reports(stem)
                for way in ("host_to_device", "device_to_host")]
    few = [f"copies staged, up and down: {n_staged}"] if staged and (not n_staged or not all(n_staged)) else []
    return judged(host, f"copies, {mode}, {setting}-static", mode, done, few)


def judged(host, name, mode, done, more=()):
    """The faults by the last line of torture or copies, and those of `more`."""
    faults = ending(done) or list(more)
    found = runs.TORTURE.search(done.stdout.decode(errors="replace"))
    if not faults and not found:
        faults = ["it said nothing"]
    elif not faults:
        n_bad, n_seeds, n_words, n_reads = map(int, found.groups())
        if n_seeds == 0:
            faults = ["no seed ran"]
        elif mode in runs.CARELESS and n_bad == 0:
            faults = [f"{n_seeds} seeds did not find it out"]
        elif mode not in runs.CARELESS and n_bad:
            faults = [f"{n_bad} of {n_seeds} seeds bad: {n_words} words, {n_reads} reads wrong"]
    return part_of(host, name, done, faults)


def sharing(host, free):
    return compat.gauntlet(host, f"sharing, {free}-static", [build.output(host, "sharing", "static")], SHARING_S,
                           is_counted=False, CUSHIM_FREE=free, CUSHIM_LOG="warn")  # the report of an out-of-memory


def run(host):
    if host.sim:
        return [{"name": "hazards", "status": "skip", "why": "needs a GPU"}]
    if not build_careless(host):
        return [{"name": "hazards", "status": "fail", "faults": ["the careless preload was not built"]}]
    works = [functools.partial(barrier, host, "static", mode) for mode in runs.MODES]
    works += [functools.partial(barrier, host, "shared", mode) for mode in ("exact", "relaxed")]
    works += [functools.partial(torture, host, mode, setting)
              for mode in runs.MODES if mode not in runs.CARELESS for setting in SETTINGS]
    works += [functools.partial(torture, host, "relaxed", "room", "--no-effects"),
              functools.partial(torture, host, "relaxed", "room", "--no-effects", "--spin", 2)]
    works += [functools.partial(torture, host, mode, setting)
              for mode in runs.CARELESS for setting in CARELESS_SETTINGS]
    works += [functools.partial(copies, host, mode, setting)
              for mode in ("native", "exact", "no fence") for setting in COPY_SETTINGS]
    works += [functools.partial(sharing, host, free) for free in ("exact", "relaxed")]
    works += [functools.partial(compat.program, host, "fault", link, (where,), is_counted=False)
              for where in FAULTS for link in host.links]
    return compat.run_all(host, "hazards.json", works, 1)
