"""What cushim says to people, from outside: the verdict of the exit report, and the log.

    words.py --preload ... --sim ... SHARED STATIC
"""
import sys
import pathlib
import re

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
SHARED, STATIC = OPTIONS.programs


def run(scenario, program=SHARED, **settings):
    return fixture.Run(OPTIONS, [program, scenario], **settings)


def verdict(scenario, **settings):
    """The lines of the verdict in the report as text, each without its indent, numbers of time as T."""
    text = run(scenario, stats=False, CUSHIM_STATS="stderr", **settings).err.decode()
    lines = text[text.index("\nverdict: ") + 1:].partition("\nadvice: ")[0].splitlines()
    return [re.sub(r"[\d.]+ (ns|us|ms|s)\b", "T", line.strip()) for line in lines]


@fixture.tap.test
def the_verdict_says_what_was_counted_and_measured_and_nothing_else():
    assert verdict("count") == ["verdict: 87.50 % of 8 requests made no driver call",
                                "1 driver allocation took T (no GPU)"]
    natively = ["verdict: cushim pooled no device memory: 8 requests went to the driver",
                "8 driver allocations took T, T each (no GPU)", "8 driver frees took T, T each (no GPU)"]
    assert verdict("count", CUSHIM_POOL="0") == natively
    assert verdict("copies", CUSHIM_POOL="0")[0].endswith(": 2 requests went to the driver")
    assert verdict("leave_with_code", CUSHIM_POOL="0")[1:] == [
        "1 driver allocation took T (no GPU)", "1 driver free took T (no GPU)"]


@fixture.tap.test
def what_is_measured_is_what_the_driver_took():
    """A driver whose calls take a millisecond each: no number is that of another machine."""
    done = run("count", CUSHIM_POOL="0", CUSHIM_SIM_LATENCY_NS="1000000")
    assert done.total("native_allocs") == 8 and done.total("native_alloc_ns") >= 8 * 1000000, done.kinds()
    assert "estimate" not in str(done.report) and done.report["is_software"] is True, done.report


@fixture.tap.test
def who_asks_for_memory_that_is_only_forwarded_is_told_so():
    none = "verdict: no device memory was asked for by cudaMalloc or cuMemAlloc"
    in_order = "3.00 MiB were asked for in stream order (3 calls): forwarded"
    assert verdict("in_stream_order") == [none, in_order]
    assert verdict("virtually") == [none, "8.00 MiB were asked for by cuMemCreate (1 call): forwarded"]
    assert verdict("in_all_ways") == ["verdict: 0.00 % of 1 request made no driver call",
                                      "1 driver allocation took T (no GPU)",
                                      "16.0 MiB were asked for by cuMemCreate (2 calls): forwarded", in_order]
    for program in (SHARED, STATIC):
        device, = run("in_all_ways", program=program).report["devices"]
        assert device["virtual"] == {"requests": 2, "requested_bytes": 16 << 20, "live_bytes": 8 << 20, "peak_live_bytes": 16 << 20}, device
        assert device["kinds"]["async"]["requests"] == 3, device


@fixture.tap.test
def one_of_a_thing_is_told_in_the_singular():
    text = run("findings", stats=False, CUSHIM_STATS="stderr").err.decode()
    for words in ("1 free of memory already freed, or never allocated\n", "2 frees inside a block, not at its start\n",
                  "3 frees of memory that was not seen being allocated\n", "4 copies or sets that left their block\n"):
        assert "finding: " + words in text, text
    assert not re.search(r"\b1 (times|frees|requests|copies)\b", text), text
    assert re.search(r"driver allocated +1 time, [\d.]+ [num]?s \(no GPU\)\n", text), text


def said(scenario, level, **settings):
    """The lines of the log, without process numbers, each number of bytes as N."""
    done = run(scenario, stats=False, CUSHIM_LOG=level, **settings)
    assert done.out == b"" and done.code == 0, done
    return re.sub(r"cushim\[\d+\] ", "", done.err.decode()).splitlines()


@fixture.tap.test
def who_asks_whether_it_is_active_is_told_at_info():
    for program, first in ((SHARED, "cudaMalloc"), (STATIC, "cuMemAlloc_v2")):
        lines = said("count", "info", program=program, CUSHIM_LARGE="64M")
        assert re.fullmatch(rf"info engine: active in {re.escape(program)}: cushim \S+, {re.escape(OPTIONS.preload.split()[-1])}", lines[0]), lines
        assert sorted(lines[1:3]) == ["info engine: set: CUSHIM_LARGE=64M", "info engine: set: CUSHIM_LOG=info"], lines
        assert lines[3] == ("info pool: device 0, cushim software device, CUDA 13.0: memory is pooled from now on; "
                            f"{first} came first"), lines
        assert lines[-1] == ("info engine: ended; requests of device memory: 8, without a driver call: 7, "
                             "bypassed: 0"), lines
    lines = said("count", "info", CUSHIM="0")
    assert lines == [f"info engine: off in {SHARED}: every call goes to the driver as it came (CUSHIM=0)"], lines
    assert said("nothing", "info") == []


@fixture.tap.test
def why_a_request_went_to_the_driver_is_told_at_debug():
    lines = said("copies", "debug", CUSHIM_POOL="0")
    assert lines.count("debug request: cudaMalloc of size 4096 went to the driver: CUSHIM_POOL is off") == 2, lines
    lines = said("in_all_ways", "debug")
    assert "debug memory: device 0: memory of size 2097152 asked of the driver: a new segment" in lines, lines
    assert lines.count("debug request: cuMemCreate of size 8388608 was forwarded") == 2, lines
    assert lines.count("debug request: cuMemAllocAsync of size 1048576 was forwarded") == 3, lines


fixture.tap.run()
