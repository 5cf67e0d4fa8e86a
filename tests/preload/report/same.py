"""Unmodified programs behave as without the preload: the same output and exit code, byte for byte,
and a report in which every allocation was seen.

Each program of tests/programs runs natively and under the preload on the software device.  One,
capture_threads, differs by design: what fails natively only because another thread captures is
served (docs/internals/memory-engine.md, "Captures").
"""
import sys
import pathlib
import functools
import os
import re

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()
DEVICES = {"multi_device": "3"}
# Programs that end with device memory live, or free it behind the report.
LEAVES_LIVE = {"exit_free", "train"}
SEEDED = {"streams", "graphs", "deep_queue", "threads", "managed"}

CAPTURES = {
    "global": {"other thread": True, "same thread": False},
    "thread local": {"other thread": True, "same thread": False},
    "relaxed": {"other thread": True, "same thread": True},
}


def name_of(program):
    return os.path.basename(program).rsplit("-", 1)[0]


def command_of(program):
    if name_of(program) != "dlopen_local":
        return [program]
    folder, flavour = os.path.dirname(program), program.rsplit("-", 1)[1]
    return [program, os.path.join(folder, f"dlopen_local_part-{flavour}.so")]


def run(program, preload, **variables):
    variables.setdefault("CUSHIM_SIM_DEVICES", DEVICES.get(name_of(program), "1"))
    return fixture.Run(OPTIONS, command_of(program), preload=preload, **variables)


@functools.cache
def run_natively(program, device):
    """Once for all settings of ours, which are nothing to it; `device`: those of the software device."""
    return run(program, False, **dict(device))


def expected_captures():
    """The designed answers of capture_threads, as it prints them."""
    lines = []
    for mode, threads in CAPTURES.items():
        for thread, is_served in threads.items():
            lines.append(f"capture in mode {mode}")
            if is_served:
                lines += [f"  {thread}: malloc: cudaSuccess", f"  {thread}: free: cudaSuccess",
                          "  launch: cudaSuccess", "  end: cudaSuccess"]
            else:
                lines += [f"  {thread}: malloc: cudaErrorStreamCaptureUnsupported",
                          "  launch: cudaErrorStreamCaptureInvalidated",
                          "  end: cudaErrorStreamCaptureInvalidated"]
    return "\n".join([*lines, "capture_threads: done"]) + "\n"


def check_device_memory(program, done):
    done.check_report()
    assert done.total("requests") > 0
    if name_of(program) not in LEAVES_LIVE:
        for counters in done.kinds():
            assert counters["live_bytes"] == 0, counters


def compare(program, **variables):
    device = tuple((name, value) for name, value in variables.items() if name.startswith("CUSHIM_SIM"))
    native, shimmed = run_natively(program, device), run(program, True, **variables)
    assert shimmed.code == native.code, (native.code, shimmed.code, shimmed.err)
    assert native.report is None
    err = shimmed.err.splitlines(True)
    if name_of(program) == "fork_after":  # its children are told
        err = [line for line in err if b" error fork: CUDA after fork: " not in line]
    assert b"".join(err) == native.err, shimmed.err
    if name_of(program) == "capture_threads":
        assert shimmed.out.decode() == expected_captures(), shimmed.out
    else:
        assert shimmed.out == native.out, (native.out, shimmed.out)
    return shimmed


def add_tests(program):
    name = os.path.basename(program).replace("-", "_")

    def same():
        done = compare(program)
        assert done.code == 0, done.err
        check_device_memory(program, done)

    def same_in_relaxed():
        done = compare(program, CUSHIM_FREE="relaxed", CUSHIM_ZERO="on")  # which relaxed leaves off
        assert done.code == 0, done.err
        check_device_memory(program, done)

    def same_in_any_order():
        for seed in ("2",) if OPTIONS.few or OPTIONS.threads else ("2", "7", "1000003"):  # an order of the device is nothing to a sanitizer
            done = compare(program, CUSHIM_SIM_SEED=seed)
            assert done.code == 0, done.err
            check_device_memory(program, done)

    def same_where_the_driver_keeps_memory():
        done = compare(program, CUSHIM_SIM_INTERNAL="64M")
        assert done.code == 0, done.err

    def same_when_memory_is_short():
        for memory in ("2M", "4M", "8M"):
            compare(program, CUSHIM_SIM_MEMORY=memory)

    def same_where_memory_is_mapped():
        done = compare(program, CUSHIM_BACKEND="vmm", CUSHIM_SIM_DEVICES="2")
        assert done.code == 0, done.err
        check_device_memory(program, done)

    def native_where_a_peer_cannot_reach():
        done = run(program, True, CUSHIM_BACKEND="vmm", CUSHIM_SIM_DEVICES="2", CUSHIM_SIM_UNREACHABLE="2",
                   CUSHIM_LOG="warn")
        line, = done.err.decode().splitlines()  # one device's memory is told of, once
        assert re.fullmatch(r"cushim\[\d+\] warn pool: device 1 cannot map memory, which device 0 could not reach:"
                            " CUSHIM_BACKEND is native there", line), line
        assert (done.out, done.code) == (run(program, False, CUSHIM_SIM_DEVICES="2").out, 0)
        check_device_memory(program, done)

    same.__name__ = f"{name}_does_what_it_does_natively"
    fixture.tap.test(same)
    same_in_relaxed.__name__ = f"{name}_does_so_where_frees_do_not_wait"
    fixture.tap.test(same_in_relaxed)
    if name_of(program) in SEEDED:
        same_in_any_order.__name__ = f"{name}_does_so_in_any_order_of_its_streams"
        fixture.tap.test(same_in_any_order)
    if name_of(program) == "reset":  # its address is where blocks were
        same_where_the_driver_keeps_memory.__name__ = f"{name}_does_so_where_the_driver_keeps_memory"
        fixture.tap.test(same_where_the_driver_keeps_memory)
    if name_of(program) == "multi_device":
        same_where_memory_is_mapped.__name__ = f"{name}_does_so_where_memory_is_mapped"
        fixture.tap.test(same_where_memory_is_mapped)
        native_where_a_peer_cannot_reach.__name__ = f"{name}_is_served_natively_where_a_peer_cannot_reach"
        fixture.tap.test(native_where_a_peer_cannot_reach)
    if name_of(program) == "errors":
        same_when_memory_is_short.__name__ = f"{name}_does_so_when_memory_is_short"
        fixture.tap.test(same_when_memory_is_short)


def main():
    for program in OPTIONS.programs:
        # how a program links the runtime is nothing to a sanitizer
        if not (program.endswith("-static") and (OPTIONS.few or OPTIONS.threads)):
            add_tests(program)
    fixture.tap.run()


main()
