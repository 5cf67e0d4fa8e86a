"""The phases of tools/check: build the tree in several ways, run the tests, count.

    phases.py ROOT [--all-archs] [--suites=SUITE,...] [PHASE ...]

Every TAP subtest counts, and every build.  While the tests of a phase run, the next ones are built with what these leave of the
processors.  Logs stay in build-check/<phase>/; those of failures are shown.
Kernels are compiled for the oldest device, the main one and the newest, with --all-archs for all that a release has.  With suites,
those of them that a phase has are built and run alone.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

TAIL = 120  # lines shown of a failure
# A suite that ran nothing is a failure: these must have passed something in the plain phase.
REQUIRED = ["style", "unit", "preload", "programs", "kernels", "property"]
MAIN_ARCH = "90"  # which a release is measured on
SUPPRESSED = pathlib.Path(__file__).resolve().parent / "tsan.supp"
LINES = "-Dc_args=-g1"  # what traces need
PLAIN = ("-Dwerror=true", LINES)
PACKAGES = ("install", "recipes", "gauntlet")  # they build the tree once more, or fetch what is of others
# Of a suite's tests some are of one that has a phase of its own, and come with it.
PARTS = {"unit": "together", "kernels": "emulated", "examples": "recipes"}


def kernel_compiler(is_fast):
    """For `meson setup`: nvcc behind ccache, which looks at the command alone, so that no flag may come from the environment.
    Device code that nothing runs is compiled fast, not optimised."""
    nvcc = pathlib.Path(os.environ.get("CUDA_HOME", ""), "bin/nvcc")
    words = ["ccache"] if shutil.which("ccache") else []
    words += [str(nvcc), *(["--Ofast-compile=max"] if is_fast else [])]
    return "-Dkernel_compiler=" + ",".join(words if nvcc.exists() else [])


def cache_of_objects():
    """For ccache: tests that build the tree once more (tests/same_build.py) have folders, a home and a language of their own; and
    the compiler's list of headers is as good as a run of the preprocessor."""
    if not shutil.which("ccache"):
        return {}
    folder = subprocess.run(["ccache", "--get-config", "cache_dir"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    return {"CCACHE_DIR": folder, "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "locale", "CCACHE_DEPEND": "1"}


@dataclasses.dataclass
class Phase:
    name: str
    about: str
    compiler: str = "gcc"
    setup: tuple = ()  # of `meson setup`
    suites: tuple = ()  # empty: all
    without: tuple = ()  # suites that are left out though they are in these, too
    folder: str = ""  # of another phase, where that build will do
    wrap: str = ""  # of `meson test`
    env: dict = dataclasses.field(default_factory=dict)
    needs: tuple = ()  # commands; without one of them the phase is a skip
    library: str = ""  # of the compiler, as well
    builds: str = "all"  # or "tests": what its suites need; or "c": all but libraries of C++, whose compiler stays the same
    slow: int = 1  # how much longer tests may take

    def only(self, suites):
        wanted = {*suites, *(PARTS[suite] for suite in suites if suite in PARTS and self.suites)}
        return tuple(suite for suite in self.suites or suites if suite in wanted and suite not in self.without)


PHASES = [
    Phase("plain", "all suites but those of the next two, warnings as errors", setup=PLAIN, without=("together", "emulated", "model", *PACKAGES)),
    Phase("emulated", "kernels as host code, protocols as models", setup=PLAIN, folder="plain", suites=("emulated", "model")),
    Phase("packages", "what users install, recipes, programs of others", setup=PLAIN, folder="plain", suites=PACKAGES),
    Phase("sanitize", "addresses, undefined behaviour, libFuzzer, and the warnings of another compiler", compiler="clang",
          # Clang takes four times as long to optimise what these two add.  A variable that nobody sets has a pattern, as what malloc
          # gives has: a test sees that it is read.
          setup=("-Db_sanitize=address,undefined", "-Dwerror=true", "-Doptimization=0", LINES + " -ftrivial-auto-var-init=pattern"),
          suites=("unit", "preload", "fuzz", "kernels"), without=("emulated", "reads"), slow=3, builds="c",
          needs=("clang",), library=f"libclang_rt.asan-{platform.machine()}.so",
          env={"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "TEST_STEPS_PCT": "30"}),
    Phase("tsan", "data races", setup=("-Db_sanitize=thread", "-Doptimization=1", LINES), suites=("unit", "preload"), without=("single", "reads"), slow=5,
          builds="tests", env={"TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=50:suppressions={SUPPRESSED}",
                                 "TEST_STEPS_PCT": "10", "TEST_TURNS_PCT": "30"}),
    # The unit tests of the memory engine are not among these: the device's memory is a number to them, and the engine's own is mapped, which to
    # memcheck is one block, set and never lost.  Of the rest, malloc's blocks and the stack, the sanitizers see as much.
    Phase("valgrind", "what is not set, and leaks of the companion and the preload, under memcheck", folder="plain", suites=("together", "memcheck"), slow=20, needs=("valgrind",),
          # fair: else who spins for another thread is given the turn again and again
          # nobody attaches a debugger; a trace does without functions that were inlined, whose table is a fifth of the time
          wrap="valgrind --quiet --vgdb=no --read-inline-info=no --fair-sched=try --error-exitcode=99",
          env={"TEST_STEPS_PCT": "10", "TEST_TURNS_PCT": "2", "VALGRIND_OPTS": "--leak-check=full --errors-for-leak-kinds=definite"}),
]


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def tail(text):
    """The end of what a test said, but for the subtests that passed: a failure may have stood before them."""
    lines = [line for line in text.splitlines() if not re.match(r"ok \d", line)]
    cut = [f"... {len(lines) - TAIL} lines above"] if len(lines) > TAIL else []
    return "\n".join("    " + line for line in cut + lines[-TAIL:])


def count_tap(text):
    """The subtests of a TAP text and why some were skipped, or None where it is no TAP."""
    count, reasons = Count(), []
    plan = re.search(r"^1\.\.(\d+)(?:\s*#\s*skip\S*\s*(.*))?$", text, re.MULTILINE | re.IGNORECASE)
    if not plan:
        return None
    for verdict, rest in re.findall(r"^(ok|not ok)\b(.*)$", text, re.MULTILINE):
        directive = re.search(r"#\s*(skip\S*|todo)\s*(.*)$", rest, re.IGNORECASE)
        if directive:
            count.skipped += 1
            reasons.append(directive.group(2).strip())
        elif verdict == "ok":
            count.passed += 1
        else:
            count.failed += 1
    if plan.group(1) == "0":
        count.skipped += 1
        reasons.append((plan.group(2) or "").strip())
    return count, reasons


def count_test(entry):
    """What one test of meson's log comes to, and why something was skipped."""
    result = entry["result"]
    count, reasons = count_tap(entry.get("stdout", "")) or (Count(), [])
    if result in ("OK", "EXPECTEDFAIL"):
        if count == Count():
            count.passed = 1
    elif result == "SKIP":
        if count.skipped == 0:
            count.skipped, reasons = 1, ["by its exit code"]
    elif count.failed == 0:
        count.failed = 1  # died, timed out, or reported less than it planned
    return count, reasons


def suites_of(entry):
    """Meson names a test "project:suite+suite / test"."""
    before, slash, _ = entry["name"].partition(" / ")
    return before.rpartition(":")[2].split("+") if slash else []


class Run:
    """One phase at work."""

    def __init__(self, root, phase, kernels=(), before=()):
        self.root, self.phase, self.kernels = root, phase, kernels  # of `meson setup`, how those are compiled
        self.before = before  # runs of phases whose builds come first
        self.folder = root / "build-check" / (phase.folder or phase.name)
        self.build = None  # what tells whether it was built
        self.cpu_seconds = 0.0  # of its processes that have ended: what it costs, whoever else is on the machine
        self.count = Count()
        self.by_suite = {}
        self.reasons = {}

    def skip(self, reason):
        self.count.skipped += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def fail(self, what, text):
        self.count.failed += 1
        print(f"\nFAILED {self.phase.name}: {what}\n{tail(text)}\n", flush=True)

    def command(self, arguments, **environment):
        words = list(map(str, arguments))
        with subprocess.Popen(words, cwd=self.root, text=True, errors="replace", env={**os.environ, **environment},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            said = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds += used.ru_utime + used.ru_stime
        return subprocess.CompletedProcess(words, process.returncode, said)

    def introspect(self, what):
        done = subprocess.run(["meson", "introspect", f"--{what}", self.folder], check=True, text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def targets(self):
        """The files that ninja is to make; none: all."""
        if self.phase.builds == "all":
            return []
        targets = {target["id"]: target for target in self.introspect("targets")}
        kept, left_out = set(), set()  # what tests of this phase need, and what those do that are not for it
        for test in self.introspect("tests"):
            own = {suite.rpartition(":")[2] for suite in test["suite"]}
            if own & set(self.phase.without):
                left_out.update(test["depends"])
            elif own & set(self.phase.suites):
                kept.update(test["depends"])
        if self.phase.builds == "c":
            kept |= {name for name, target in targets.items() if target["build_by_default"] and name not in left_out and
                     all(part.get("language") != "cpp" for part in target["target_sources"])}
        return sorted(file for name in kept for file in targets[name]["filename"])

    def images(self):
        """The folder of device code that an earlier phase has made, which is the same in all; empty: compile it."""
        folders = [run.folder / "kernels" for run in self.before if run.folder != self.folder]
        return next((str(folder) for folder in folders if any(folder.glob("*.fatbin"))), "")

    def built(self, is_alone=True):
        """Is its folder built?  Where others work, too, it takes what they leave."""
        shared = next((run for run in self.before if run.build and run.folder == self.folder), None)
        return shared.build.result() if shared else self.make([] if is_alone else ["nice", "-n", "10"])

    def make(self, front):
        again = ["--reconfigure"] if (self.folder / "build.ninja").exists() else []
        options = [*self.kernels, f"-Dkernel_images={self.images()}", *self.phase.setup]
        compiler = f"ccache {self.phase.compiler}" if shutil.which("ccache") else self.phase.compiler
        done = self.command([*front, "meson", "setup", *again, self.folder, *options], CC=compiler)
        if done.returncode == 0:
            files = [os.path.relpath(file, self.folder) for file in self.targets()]
            done = self.command([*front, "ninja", "-C", self.folder, *files])
        if done.returncode:
            log = self.folder / "meson-logs" / "meson-log.txt"
            is_set_up = (self.folder / "build.ninja").exists() or not log.exists()
            self.fail("the build", done.stdout if is_set_up else log.read_text(errors="replace"))  # it has the compiler's words
            return False
        self.count.passed += 1
        return True

    def launcher(self):
        """What must stand before a command that runs thread-sanitized programs on this kernel."""
        if self.phase.name != "tsan":
            return []
        program = self.folder / "starts"
        subprocess.run(["gcc", "-fsanitize=thread", "-x", "c", "-", "-o", program], check=True,
                       input="int main(void) { return 0; }", text=True)
        for before in (["setarch", "-R"], []):  # gcc 12's cannot live with every layout of addresses
            if self.command([*before, program]).returncode == 0:
                return before
        return None

    def test(self):
        before = self.launcher()
        if before is None:
            self.skip("no thread-sanitized program starts on this kernel")
            return
        for old in (self.folder / "meson-logs").glob(f"{self.phase.name}*.json"):
            old.unlink()
        wrap = [f"--wrap={self.phase.wrap}"] if self.phase.wrap else []
        suites = [word for suite in self.phase.suites for word in ("--suite", suite)]
        suites += [word for suite in self.phase.without for word in ("--no-suite", suite)]
        n_at_once = 1 + len(os.sched_getaffinity(0))  # some wait: for a child, a clock, a thread
        done = self.command([*before, "meson", "test", "-C", self.folder, "--no-rebuild", "--logbase", self.phase.name,
                             "--num-processes", n_at_once, "-t", self.phase.slow, *wrap, *suites], **self.phase.env)
        logs = list((self.folder / "meson-logs").glob(f"{self.phase.name}*.json"))
        entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        for entry in entries:
            self.take(entry)
        if not entries or (done.returncode and self.count.failed == 0):
            self.fail("meson test", done.stdout)

    def take(self, entry):
        count, reasons = count_test(entry)
        self.count.add(count)
        for suite in suites_of(entry):
            self.by_suite.setdefault(suite, Count()).add(count)
        for reason in reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if count.failed:
            print(f"\nFAILED {self.phase.name}: {entry['name']} ({entry['result']}, code {entry.get('returncode')})")
            print(tail(entry.get("stdout", "") + entry.get("stderr", "")) + "\n", flush=True)

    def missing(self):
        """The commands and the library that it needs and that are not here."""
        commands = [command for command in self.phase.needs if not shutil.which(command)]
        if commands or not self.phase.library:
            return commands
        found = self.command([self.phase.compiler, f"-print-file-name={self.phase.library}"]).stdout.strip()
        return [] if os.path.isabs(found) else [self.phase.library]

    def run(self):
        if self.missing():
            self.skip(f"no {self.missing()[0]}")
            return
        if not self.build.result():
            return
        self.test()
        if self.phase.name == "plain":
            for suite in self.phase.suites or REQUIRED:
                if self.by_suite.get(suite, Count()).passed == 0:
                    self.fail(f"suite {suite}", "nothing in it passed")


def begin_builds(runs):
    """Build one after the other beside the caller: run.build.result() waits for it.  Returns what to leave by."""
    builder = concurrent.futures.ThreadPoolExecutor(1)
    for run in runs:
        is_first = not any(before.build for before in run.before)
        run.build = None if run.missing() else builder.submit(run.built, is_first)
    return builder


def kernel_archs(root, is_all):
    """The devices that kernels are compiled for, of those that the option's own value has, also where a folder was set up
    otherwise: what the oldest lacks and what the newest has lost is seen by no other."""
    row = re.search(r"^option\('kernel_archs',.*?value: \[(.*?)\]", (root / "meson_options.txt").read_text(), re.MULTILINE)
    archs = re.findall(r"\d+", row.group(1))
    return archs if is_all else [arch for arch in archs if arch in (archs[0], MAIN_ARCH, archs[-1])]


def main():
    root = pathlib.Path(sys.argv[1])
    parser = argparse.ArgumentParser(prog="check", usage="tools/check [--all-archs] [--suites=SUITE,...] [PHASE ...]")
    parser.add_argument("--all-archs", action="store_true")
    parser.add_argument("--suites", type=lambda text: tuple(text.split(",")), default=())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args(sys.argv[2:])
    if arguments.list:
        for phase in PHASES:
            print(f"{phase.name:10} {phase.about}")
        return 0
    unknown = set(arguments.names) - {phase.name for phase in PHASES}
    if unknown:
        parser.error(f"no phase {unknown.pop()}; see tools/check --list")
    archs = kernel_archs(root, arguments.all_archs)
    kernels = ("-Dkernel_archs=" + ",".join(archs), kernel_compiler(not arguments.all_archs))
    runs = []
    for phase in PHASES:
        if arguments.names and phase.name not in arguments.names:
            continue
        if arguments.suites:
            phase = dataclasses.replace(phase, suites=phase.only(arguments.suites), builds="c" if phase.builds == "c" else "tests")
            if not phase.suites:
                continue
        runs.append(Run(root, phase, kernels, tuple(runs)))
    os.environ.update(cache_of_objects())
    total, reasons = Count(), {}
    builder = begin_builds(runs)
    try:
        for run in runs:
            began = time.monotonic()
            run.run()
            total.add(run.count)
            for reason, n in run.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + n
            print(f"{run.phase.name:10} {run.count.passed:5} ok {run.count.failed:4} failed {run.count.skipped:4} skipped "
                  f"{time.monotonic() - began:6.0f} s {run.cpu_seconds:6.0f} s of CPU   {run.phase.about}", flush=True)
    finally:
        builder.shutdown(wait=False, cancel_futures=True)
    for reason, n in sorted(reasons.items()):
        print(f"skipped {n:4}  {reason or 'without a reason'}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
