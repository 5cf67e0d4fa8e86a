"""Each mutation of tools/mutate can still be made: its text stands once in its file, and its tests are there.

    mutations.py ROOT BUILD
"""
import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
LEAST = 200
sys.dont_write_bytecode = True


def loaded():
    if sys.version_info < (3, 11):
        tap.skip("the lists are TOML, which Python reads from 3.11 on")
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools/mutate/run"))
    mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(mutate)
    return mutate


def assert_none(found):
    found = list(found)
    assert not found, "\n" + "\n".join(found)


@tap.test
def the_text_of_each_mutation_stands_once_in_its_file():
    mutate = loaded()
    rows = mutate.mutations()
    faults = [(row, mutate.fault(row, ROOT)) for row in rows]
    assert_none(f"tools/mutate/{row['list']}.toml: \"{row['guarantee']}\": {fault}: write it anew for the code as it is, or take it out"
                for row, fault in faults if fault)
    assert len(rows) >= LEAST, len(rows)


@tap.test
def no_two_have_one_name():
    counts = collections.Counter(row["guarantee"] for row in loaded().mutations())
    assert_none(name for name, n in counts.items() if n > 1)


@tap.test
def the_tests_that_must_fail_are_there():
    mutate = loaded()
    build = BUILD / "meson-info/intro-tests.json"
    names = {test["name"] for test in json.loads(build.read_text())} if build.exists() else set()
    if not {"launcher", "property"} <= names:
        tap.skip("this build has not all tests")
    assert_none(f"tools/mutate/{row['list']}.toml: no test {name}" for row in mutate.mutations() if row["setup"] == mutate.BASE
                for name in row["tests"] if name not in names)


@tap.test
def a_text_that_is_gone_or_stands_twice_is_found():
    mutate = loaded()
    row = {"guarantee": "g", "file": "a.c", "old": "x = 1;", "new": "x = 2;", "tests": ["t"], "list": "l", "setup": []}
    for text, is_well in (("x = 1;\n", True), ("x = 1;\nx = 1;\n", False), ("x = 3;\n", False)):
        with tree.made_of({"a.c": text}) as root:
            assert (mutate.fault(row, root) is None) == is_well, text
            assert mutate.fault({**row, "file": "b.c"}, root)
            assert mutate.fault({**row, "new": row["old"]}, root)
            assert mutate.fault({**row, "tests": []}, root)
            assert mutate.fault({**row, "old text": ""}, root)


tap.run()
