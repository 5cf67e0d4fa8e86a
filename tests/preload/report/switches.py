"""What is switched off hands every call on, unchanged and in order; and one failing driver call, at
whatever place, is answered as a driver might, and leaves nothing behind.

    switches.py --preload ... --sim ... [--few] SCRIPT     few: one code of each class, for a sanitizer
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
SCRIPT, = OPTIONS.programs
OUT_OF_MEMORY = 2
# What is asked for the report alone; the script asks none of them.
OUR_QUESTIONS = ("call cuCtxGetCurrent", "call cuDeviceGetCount", "call cuDeviceTotalMem_v2", "call cuStreamGetCtx", "call cuCtxGetDevice", "call cuPointerGetAttribute",
                 # what the page says of a device
                 "call cuDeviceGetName", "call cuDeviceGetUuid_v2", "call cuDeviceGetPCIBusId", "call cuDriverGetVersion",
                 # if memory is out
                 "call cuMemGetInfo_v2", "call cuDeviceGetDefaultMemPool", "call cuMemPoolGetAttribute")
REFUSALS = (1, 304, 801)
# Codes that the driver gives for a broken context: there the pool steps aside, and what the context
# had goes with it.
DAMAGE = (700, 719, 999)
FEWER = 1 if OPTIONS.few else None


def run(*words, **settings):
    return fixture.Run(OPTIONS, [SCRIPT, *words], **settings)


def calls_of(done):
    return [line for line in done.out.decode().splitlines() if line.startswith("call ")]


@fixture.tap.test
def a_script_of_driver_calls_gets_the_same_answers():
    native, shimmed = run(preload=False), run()
    assert native.code == shimmed.code == 0, (native.code, shimmed.code, shimmed.err)
    assert native.out == shimmed.out
    shimmed.check_report()
    assert shimmed.total("live_bytes") == 0, shimmed.kinds()


@fixture.tap.test
def off_hands_every_call_on_unchanged_and_in_order():
    native = run("--log", preload=False)
    assert len(calls_of(native)) > 100
    for word in ("0", "false", "off", "no", "FALSE", "Off"):
        done = run("--log", CUSHIM=word)
        assert done.out == native.out and done.err == b"" and done.code == native.code, word
        assert done.report is None


def another_version(folder):
    """A copy of the preload under a path of its own, which reports another version of itself if it is told to."""
    data = pathlib.Path(OPTIONS.preload).read_bytes()
    version, = set(re.findall(rb"\0(0\.\d\.\d)\0", data))
    other = pathlib.Path(folder, "libcushim-preload.so")
    other.write_bytes(data.replace(version, b"0.9.0"))  # the linker may have put a string "0" into its end
    return str(other)


@fixture.tap.test
def of_two_versions_the_first_serves_and_says_in_one_line_that_the_other_is_off():
    if OPTIONS.few:
        fixture.tap.skip("a sanitizer refuses two libraries with the same variables")
    alone = run("--log")
    with tempfile.TemporaryDirectory() as folder:
        other = another_version(folder)
        for first, second in ((OPTIONS.preload, other), (other, OPTIONS.preload)):
            both = run("--log", LD_PRELOAD=f"{first}:{second}", preload=False)
            assert both.code == 0 and both.out == alone.out, (both.code, both.err)
            version = "0.9.0" if first == other else alone.report["cushim"]
            assert both.err.decode() == f"cushim[{both.report['pid']}] error engine: two cushim are preloaded: {first} ({version}) is first and serves, {second} is off\n", both.err
            assert both.total("requests") == alone.total("requests"), both.report


@fixture.tap.test
def a_library_between_two_versions_does_not_reach_the_second():
    if OPTIONS.few:
        fixture.tap.skip("a sanitizer refuses two libraries with the same variables")
    with tempfile.TemporaryDirectory() as folder:
        between, program, other = f"{folder}/between.so", f"{folder}/program", another_version(folder)
        for source, words in ((BETWEEN, ["-shared", "-fPIC", "-o", between]),
                              (MALLOCS, ["-rdynamic", "-o", program, f"{OPTIONS.sim}/libcudart.so.13"])):
            subprocess.run(["cc", "-D_GNU_SOURCE", "-x", "c", "-", "-x", "none", *words], input=source, text=True, check=True)
        alone, both = (fixture.Run(OPTIONS, [program], LD_PRELOAD=":".join(preloads), preload=False, CUSHIM_LOG="info")
                       for preloads in ([OPTIONS.preload, between], [OPTIONS.preload, between, other]))
        assert f"off in {program}: every call goes to the driver as it came, another cushim is first: " in both.err.decode(), both.err
        assert both.code == 0 and both.total("requests") == alone.total("requests") == 10, both.kinds()


# A call of the runtime's by name goes to the next library that has it.
BETWEEN = """
#include <dlfcn.h>
int cudaMalloc(void **address, unsigned long n_bytes) {
    int (*next)(void **, unsigned long) = (int (*)(void **, unsigned long))dlsym(RTLD_NEXT, "cudaMalloc");
    return next(address, n_bytes);
}
"""
MALLOCS = """
int cudaMalloc(void **, unsigned long), cudaFree(void *);
int main(void) {
    void *block;
    for (int i = 0; i < 10; i++)
        if (cudaMalloc(&block, 1000) || cudaFree(block))
            return 1;
    return 0;
}
"""


@fixture.tap.test
def on_answers_most_without_the_driver():
    native, shimmed = run("--log", preload=False), run("--log")
    for name in ("call cuMemAlloc_v2", "call cuMemFree_v2"):
        assert calls_of(shimmed).count(name) < calls_of(native).count(name), name


@fixture.tap.test
def without_the_pools_every_call_goes_on_in_order_and_is_counted():
    def without_questions(done):
        return [call for call in calls_of(done)
                if call not in OUR_QUESTIONS]

    native = run("--log", preload=False)
    shimmed = run("--log", CUSHIM_POOL="0", CUSHIM_PINNED="0", CUSHIM_MANAGED="0")
    assert without_questions(shimmed) == without_questions(native)
    assert shimmed.total("native") == shimmed.total("requests") > 0
    assert shimmed.total("live_bytes") == 0


def complaints(done):
    """What the script had to say, by the number of the call that failed."""
    found, number = collections.defaultdict(list), 0
    for line in done.out.decode().splitlines():
        if line.startswith("n "):
            number = int(line[2:])
        else:
            found[number].append(line)
    return number, dict(found)


def in_turns(codes, first=0):
    """Each call fails with one of the codes: (code, the first call that fails with it, and each which after)."""
    return [(code, (1 + (first + i) % len(codes), len(codes))) for i, code in enumerate(codes)]


def check_failures(code, may_leave=False, how="--fail", finds_leaks=False, calls=(1, 1), few=(1, 1), **settings):
    """A sanitizer looks for leaks if `finds_leaks`.  It does so at the end of each of hundreds of children, which takes longer
    than the rest, and other settings fail in the same code.  `calls`, or `few` of them for a sanitizer: the first call that
    fails, and each which after."""
    if not finds_leaks:
        settings["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    done = run(how, str(code), *map(str, few if OPTIONS.few else calls), stats=False, **settings)
    assert done.code == 0, (done.code, done.out[-200:], done.err)
    n_runs, found = complaints(done)
    wrong = {number: lines for number, lines in found.items()
             if not may_leave or any(not line.startswith("left") for line in lines)}
    assert not wrong, wrong
    return n_runs


@fixture.tap.test
def natively_one_failure_leaves_nothing_behind():
    if OPTIONS.few:
        fixture.tap.skip("natively nothing of ours is there")
    assert check_failures(OUT_OF_MEMORY, preload=False) > 50


@fixture.tap.test
def out_of_memory_at_any_driver_call_leaves_nothing_behind():
    assert check_failures(OUT_OF_MEMORY, finds_leaks=True) > 100
    assert check_failures(OUT_OF_MEMORY, few=(1, 3), CUSHIM_FREE="relaxed") > 100
    assert check_failures(OUT_OF_MEMORY, few=(2, 3), CUSHIM_LARGE="2M") > 100
    assert check_failures(OUT_OF_MEMORY, few=(3, 3), CUSHIM_POOL="0") > 50


@fixture.tap.test
def a_call_that_the_driver_refuses_leaves_nothing_behind():
    if OPTIONS.few:
        fixture.tap.skip("the tests beside this one reach the same lines")
    for free, first in (("exact", 0), ("relaxed", 1)):
        for code, calls in in_turns(REFUSALS, first):
            assert check_failures(code, calls=calls, CUSHIM_FREE=free) > 100


@fixture.tap.test
def a_context_that_breaks_at_any_driver_call_breaks_nothing_of_ours():
    for code, calls in in_turns(DAMAGE)[:FEWER]:
        assert check_failures(code, may_leave=True, finds_leaks=True, calls=calls, few=(1, 3)) > 100
    for code, calls in in_turns(DAMAGE, 1)[:FEWER]:
        assert check_failures(code, may_leave=True, calls=calls, few=(2, 3), CUSHIM_FREE="relaxed") > 100


@fixture.tap.test
def a_driver_call_that_fails_while_blocks_are_checked_does_no_more_harm():
    for code, free, finds_leaks, few in ((OUT_OF_MEMORY, "exact", True, (1, 3)), (OUT_OF_MEMORY, "relaxed", False, (2, 3)),
                                         (DAMAGE[0], "exact", False, (3, 4))):
        assert check_failures(code, may_leave=code in DAMAGE, how="--fail-small", finds_leaks=finds_leaks, few=few, CUSHIM_CHECK="full",
                              CUSHIM_FREE=free) > 300


fixture.tap.run()
