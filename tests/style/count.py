"""tools/check counts correctly: a test that failed, died or ran nothing never passes.

    count.py ROOT
"""
import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(ROOT / "tools" / "setup")]
import phases
import tap


def counted(result, stdout="", returncode=0):
    count, _ = phases.count_test({"name": "cushim:unit / x", "result": result, "stdout": stdout, "returncode": returncode})
    return count.passed, count.failed, count.skipped


@tap.test
def each_subtest_counts():
    assert counted("OK", "1..3\nok 1 - a\nok 2 - b # SKIP no device\nok 3 - c\n") == (2, 0, 1)
    assert counted("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n# not ok at all\n") == (1, 1, 0)


@tap.test
def a_test_without_subtests_counts_once():
    assert counted("OK", "whatever") == (1, 0, 0)
    assert counted("FAIL", "whatever") == (0, 1, 0)
    assert counted("SKIP", "") == (0, 0, 1)


@tap.test
def a_test_that_skips_all_is_one_skip():
    assert counted("SKIP", "1..0 # SKIP no CUDA device\n") == (0, 0, 1)
    assert counted("OK", "1..0 # SKIP no CUDA device\n") == (0, 0, 1)


@tap.test
def a_test_that_dies_or_stops_early_is_a_failure():
    for result in ("TIMEOUT", "ERROR", "FAIL", "INTERRUPT", "UNEXPECTEDPASS"):
        assert counted(result, "1..3\nok 1 - a\n")[1] == 1, result
        assert counted(result)[1] == 1, result


@tap.test
def the_text_of_a_failure_leaves_out_what_passed():
    passed = [f"ok {i} - passes" for i in range(2, 2 + phases.TAIL)]
    shown = phases.tail("\n".join(["1..9", "not ok 1 - fails", "# why", *passed]))
    assert shown.split("\n") == ["    1..9", "    not ok 1 - fails", "    # why"]
    assert phases.tail("a\n" * (phases.TAIL + 2)).startswith("    ... 2 lines above\n")


@tap.test
def suites_are_read_from_meson_s_names():
    assert phases.suites_of({"name": "cushim:unit / pool"}) == ["unit"]
    assert phases.suites_of({"name": "cushim:unit+tsan / pool"}) == ["unit", "tsan"]
    assert phases.suites_of({"name": "pool"}) == []


class Fake(phases.Run):
    """Builds and tests nothing; tsan does not compile."""
    made = []

    def make(self, front):
        self.made.append((self.phase.name, bool(front)))
        return self.phase.name != "tsan"

    def test(self):
        self.count.passed += 1

    def fail(self, what, text):
        self.count.failed += 1


@tap.test
def builds_come_in_order_and_each_folder_is_built_once():
    runs = []
    for phase in phases.PHASES:
        runs.append(Fake(ROOT, dataclasses.replace(phase, needs=(), library=""), before=tuple(runs)))
    with phases.begin_builds(runs):
        for run in runs:
            run.run()
    assert Fake.made == [("plain", False), ("sanitize", True), ("tsan", True)], Fake.made
    assert [run.count.passed for run in runs] == [1, 1, 1, 1, 0, 1], "what was not built is not tested"


@tap.test
def without_a_command_or_its_compiler_s_library_a_phase_is_a_skip():
    for needs, library, lacking in (("no-such-command",), "", "no-such-command"), ((), "no-such-library.so", "no-such-library.so"):
        run = Fake(ROOT, dataclasses.replace(phases.PHASES[0], needs=needs, library=library))
        with phases.begin_builds([run]):
            run.run()
        assert (run.count.passed, run.count.failed, run.count.skipped) == (0, 0, 1)
        assert list(run.reasons) == [f"no {lacking}"], run.reasons
    here = Fake(ROOT, dataclasses.replace(phases.PHASES[0], needs=("sh",), library="libc.so.6"))
    assert here.missing() == []


@tap.test
def a_phase_of_some_suites_has_the_unit_tests_that_run_together():
    by_name = {phase.name: phase.only(("unit", "style")) for phase in phases.PHASES}
    assert by_name == {"plain": ("unit", "style"), "emulated": (), "packages": (), "sanitize": ("unit",), "tsan": ("unit",), "valgrind": ("together",)}


@tap.test
def suites_that_plain_leaves_out_run_in_a_phase_of_the_same_build():
    plain, *others = phases.PHASES
    elsewhere = {suite for phase in others if phase.folder == plain.name for suite in set(phase.suites) - set(phase.without)}
    assert plain.suites == () and set(plain.without) <= elsewhere, set(plain.without) - elsewhere
    assert plain.only(("install", "unit")) == ("unit",)
    assert [phase.name for phase in phases.PHASES if "emulated" in phase.only(("kernels",))] == ["emulated"]
    assert [phase.name for phase in phases.PHASES if "recipes" in phase.only(("examples",))] == ["packages"]


@tap.test
def the_command_of_nvcc_has_all_its_flags_because_ccache_sees_no_others():
    with tempfile.TemporaryDirectory() as folder:
        nvcc = pathlib.Path(folder, "bin/nvcc")
        os.environ["CUDA_HOME"] = folder
        assert phases.kernel_compiler(True) == "-Dkernel_compiler="  # a toolkit that lacks it
        nvcc.parent.mkdir()
        nvcc.touch()
        front = "ccache," if shutil.which("ccache") else ""
        assert phases.kernel_compiler(True) == f"-Dkernel_compiler={front}{nvcc},--Ofast-compile=max"
        assert phases.kernel_compiler(False) == f"-Dkernel_compiler={front}{nvcc}"


@tap.test
def kernels_are_compiled_for_the_oldest_the_main_and_the_newest_device():
    with tempfile.TemporaryDirectory() as folder:
        row = "option('kernel_archs', type: 'array', value: [{}], description: 'devices')\n"
        for every, some in [(("60", "90", "100"), ("60", "90", "100")), (("80", "90", "95", "130"), ("80", "90", "130")),
                            (("75", "90"), ("75", "90"))]:
            pathlib.Path(folder, "meson_options.txt").write_text(row.format(", ".join(f"'{arch}'" for arch in every)))
            assert tuple(phases.kernel_archs(pathlib.Path(folder), True)) == every
            assert tuple(phases.kernel_archs(pathlib.Path(folder), False)) == some
    every = phases.kernel_archs(ROOT, True)
    assert {every[0], phases.MAIN_ARCH, every[-1]} == set(phases.kernel_archs(ROOT, False)), every


@tap.test
def the_result_of_a_command_has_its_exit_and_its_processor_time():
    run = phases.Run(ROOT, phases.PHASES[0])
    assert run.command(["sh", "-c", "echo said; exit 3"]).returncode == 3
    assert run.command(["sh", "-c", "echo said; kill -9 $$"]).returncode == -9
    before = run.cpu_seconds
    assert run.command(["sh", "-c", f"'{sys.executable}' -c 'print(sum(range(10**7)) % 7)'"]).stdout == "3\n"
    assert run.cpu_seconds > before + 0.05


tap.run()
