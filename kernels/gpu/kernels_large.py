"""Tensors of more than 2^31 elements, and offsets of more than 2^31 bytes: each family on a GPU, against PyTorch.

    kernels_large.py BUILD [--only PATTERN] [--small N]   BUILD/kernels and BUILD/src/companion hold the libraries

PATTERN is part of a test's name.  --small divides the sizes: the same program on little memory, and with
PyTorch's host tensors if there is no GPU (CUSHIM_LIBCUDA is the software device then).  Prints TAP.

References are made in chunks, by operations that are right for fewer elements than 2^31.  The tests run in their
own process.  If a test ends it, leaves the device with a fault or takes too long, another process goes on.
"""
import argparse
import ctypes
import faulthandler
import gc
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import kernels_large_fixture as fixture  # noqa: E402: it ends the program if PyTorch is missing

# each adds its tests
import kernels_large_elements  # noqa: E402, F401
import kernels_large_rows  # noqa: E402, F401
import kernels_large_products  # noqa: E402, F401

MOST_S = 60  # of a test
SPARE_BYTES = 8 << 30  # for the reference's chunks
MOST_SILENT = 3  # processes that end in their first test
RESTART = 3  # the exit status: the device has a fault


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--small", type=int, default=1, help="divides sizes (1)")
    parser.add_argument("--first", type=int, help="in this process, from this test on: what the parent asks for")
    return parser.parse_args()


def wanted_tests(arguments):
    return [test for test in fixture.TESTS if arguments.only in test[0]]


def report(number, name, error):
    print(f"not ok {number} - {name}\n# {' '.join(str(error).split())[:300]}", flush=True)


# ---- the tests, in their own process ----

def why_not(gib):
    """The reason why there is no room, or None."""
    gc.collect()
    if fixture.DEVICE == "cpu":
        return None
    fixture.torch.cuda.empty_cache()
    free, needed = fixture.torch.cuda.mem_get_info()[0], (gib << 30) // fixture.Settings.small + SPARE_BYTES
    return f"{free >> 30} GiB are free, {needed >> 30} needed" if free < needed else None


def is_device_well():
    try:
        fixture.wait()
        return True
    except RuntimeError:
        return False


def run_one(number, name, function):
    """Run one test; whether it passed."""
    faulthandler.dump_traceback_later(MOST_S, exit=True)
    try:
        function()
        print(f"ok {number} - {name}", flush=True)
        return True
    except Exception as error:
        report(number, name, f"{type(error).__name__}: {error}")
        return False
    finally:
        faulthandler.cancel_dump_traceback_later()


def run_here(arguments):
    """Run the tests from --first on; the exit status is RESTART if the device is unusable."""
    is_right, fixture.Settings.small = True, arguments.small
    fixture.ours.load(arguments.build)
    fixture.torch.manual_seed(1)
    if fixture.DEVICE == "cpu":  # the references read the host's memory
        companion, context = ctypes.CDLL("libcushim.so.0"), ctypes.c_void_p()
        assert companion.cushim_context_primary(0, ctypes.byref(context)) == 0 and companion.cushim_context_push(context) == 0
    for number, (name, gib, function) in enumerate(wanted_tests(arguments), 1):
        if number < arguments.first:
            continue
        reason = why_not(gib)
        if reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
            continue
        is_right = run_one(number, name, function) and is_right
        if not is_device_well():
            return RESTART
    return 0 if is_right else 1


# ---- the process that starts them ----

def run_child(arguments, first):
    """(the last test that it reported, whether all that it reported passed, exit status, its last lines)"""
    command = [sys.executable, __file__, str(arguments.build), "--only", arguments.only, "--small", str(arguments.small),
               "--first", str(first)]
    last, is_right = first - 1, True
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            found = re.match(r"(not )?ok (\d+)", line)
            if found:
                last, is_right = int(found.group(2)), is_right and not found.group(1)
        status = child.wait()
        said.seek(0)
        return last, is_right, status, said.read().strip()


def run_all(arguments):
    names = [name for name, _, _ in wanted_tests(arguments)]
    if not names:
        print(f"1..1\nnot ok 1 - a test with {arguments.only} in its name")
        return 1
    print(f"1..{len(names)}", flush=True)
    first, is_right, n_silent = 1, True, 0
    while first <= len(names) and n_silent < MOST_SILENT:
        last, is_all_right, status, words = run_child(arguments, first)
        is_right = is_right and is_all_right
        n_silent = n_silent + 1 if last < first else 0
        if last < len(names) and status != RESTART:  # it ended in the one that follows
            last, is_right = last + 1, False
            why = f"no end in {MOST_S} s" if "Timeout (" in words else f"exit status {status}: {words.rpartition(chr(10))[2]}"
            report(last, names[last - 1], why)
        first = last + 1
    for number in range(first, len(names) + 1):
        report(number, names[number - 1], "not begun: no test before it came to its end")
    return 0 if is_right else 1


def main():
    arguments = read_arguments()
    return run_all(arguments) if arguments.first is None else run_here(arguments)


sys.exit(main())
