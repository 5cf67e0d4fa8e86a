"""libkernels.so exports only the 120 names of its interface, and needs no library of ours or CUDA's.

    dropin_names.py LIBRARY RECORD HEADER
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
import tap

LIBRARY, RECORD, HEADER = sys.argv[1:]
NAMES = pathlib.Path(RECORD).read_text().split()
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|asan|tsan|ubsan|gcc_s)\.so\.\d+|libclang_rt\..*|ld-linux.*")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@tap.test
def the_record_has_120_names():
    assert len(NAMES) == len(set(NAMES)) == 120
    assert NAMES == sorted(NAMES)


@tap.test
def the_exports_are_those_of_the_record():
    rows = [line.split() for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    assert all(row[1] == "T" for row in rows), rows
    assert sorted(row[2] for row in rows) == NAMES, sorted(set(NAMES) ^ {row[2] for row in rows})


@tap.test
def the_header_declares_those_of_the_record():
    declared = re.findall(r"^(?:int|long long) (\w+)\(", pathlib.Path(HEADER).read_text(), re.MULTILINE)
    assert sorted(declared) == NAMES, sorted(set(NAMES) ^ set(declared))


@tap.test
def it_needs_the_system_alone():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", LIBRARY))
    assert needed and all(SYSTEM.fullmatch(name) for name in needed), needed


@tap.test
def its_name_is_the_one_that_is_looked_for():
    assert "[libkernels.so]" in output("readelf", "-dW", LIBRARY)


tap.run()
