"""Each mutation of tools/mutate can still be made: its text is in its file exactly once, and its tests exist.

    mutations.py [ROOT [BUILD]]
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

ROOT = tree.root()
BUILD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build"
LEAST = 60
sys.dont_write_bytecode = True


def loaded():
    if sys.version_info < (3, 11):
        tap.skip("the lists are TOML, which needs Python 3.11")
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools/mutate/run"))
    mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(mutate)
    return mutate


def assert_none(found):
    found = list(found)
    assert not found, "\n" + "\n".join(found)


@tap.test
def the_text_of_each_mutation_is_once_in_its_file():
    mutate = loaded()
    rows = mutate.mutations()
    faults = [(row, mutate.fault(row, ROOT)) for row in rows]
    assert_none(f"{row['list']}.toml: \"{row['guarantee']}\": {fault}: write it again for the current code, or remove it"
                for row, fault in faults if fault)
    assert len(rows) >= LEAST, len(rows)


@tap.test
def no_two_mutations_have_one_name():
    counts = collections.Counter(row["guarantee"] for row in loaded().mutations())
    assert_none(name for name, n in counts.items() if n > 1)


@tap.test
def the_tests_that_must_fail_exist():
    mutate = loaded()
    build = BUILD / "meson-info/intro-tests.json"
    names = {test["name"] for test in json.loads(build.read_text())} if build.exists() else set()
    if not {"launcher", "property"} <= names:
        tap.skip("this build has not all tests")
    assert_none(f"{row['list']}.toml: no test {name}" for row in mutate.mutations() if row["setup"] == mutate.BASE
                for name in row["tests"] if name not in names)


@tap.test
def a_text_that_is_gone_or_there_twice_is_found():
    mutate = loaded()
    row = {"guarantee": "g", "file": "a.c", "old": "x = 1;", "new": "x = 2;", "tests": ["t"], "list": "l", "setup": []}
    for text, is_well in (("x = 1;\n", True), ("x = 1;\nx = 1;\n", False), ("x = 3;\n", False)):
        with tree.made_of({"a.c": text}) as root:
            assert (mutate.fault(row, root) is None) == is_well, text
            assert mutate.fault({**row, "file": "b.c"}, root)
            assert mutate.fault({**row, "new": row["old"]}, root)
            assert mutate.fault({**row, "tests": []}, root)
            assert mutate.fault({**row, "old text": ""}, root)


TEXT = """\
#define MORE 1 + 1
/* a + b */
int f(int a) {
    note(a, "a + b");
    if (a > 2 && is_set(a))
        return a + 1;
    return 0;
}
"""


@tap.test
def operators_conditions_constants_and_calls_are_changed_only_in_code():
    with tree.made_of({"a.c": TEXT}) as root:
        rows = loaded().generate.generated(root, ["a.c"], 100, 1)
    assert {(row["guarantee"].split(": ")[1], row["new"].strip()) for row in rows} == {
        ("no call", "(void)0;"), (">= for >", "if (a >= 2 && is_set(a))"), ("|| for &&", "if (a > 2 || is_set(a))"),
        ("3 for 2", "if (a > 3 && is_set(a))"), ("the opposite condition", "if (!(a > 2 && is_set(a)))"),
        ("- for +", "return a - 1;"), ("2 for 1", "return a + 2;"), ("1 for 0", "return 1;")}, rows


@tap.test
def generated_mutations_can_be_made_and_repeated():
    mutate = loaded()
    with tree.made_of({"a.c": TEXT + TEXT}) as root:
        rows = mutate.generate.generated(root, ["a.c"], 100, 1)
        assert len(rows) == 16 and not [row for row in rows if mutate.fault({**row, "tests": ["t"]}, root)]
        few = mutate.generate.generated(root, ["a.c"], 5, 2)
        assert len(few) == 5 and few == mutate.generate.generated(root, ["a.c", "a.c"], 5, 2) != rows[:5]


@tap.test
def the_tests_of_a_file_are_its_own_and_those_of_its_folder():
    names = ["memory/heap", "memory/fence/fence", "memory/fence/await", "launcher"]
    assert loaded().generate.tests_of("src/memory/fence/fence.c", names) == ["memory/fence/fence", "memory/fence/await"]
    assert loaded().generate.tests_of("tools/cushim/launch.c", names) == []


ROW = {"guarantee": "g", "file": "a.c", "old": "x = 1;", "new": "x = 2;", "tests": ["t"], "list": "l", "setup": []}


@tap.test
def a_result_stands_until_the_mutation_or_the_code_of_its_file_changes():
    mutate = loaded()
    with tree.made_of({"a.c": "/* before */\nx = 1;\n"}) as root:
        key = mutate.key_of(ROW, root)
        assert key != mutate.key_of({**ROW, "tests": ["u"]}, root)
        (root / "a.c").write_text("/* a comment\n * of two lines */\nx = 1;\n")
        assert mutate.key_of(ROW, root) == key
        (root / "a.c").write_text("x = 1;\ny = 1;\n")
        assert mutate.key_of(ROW, root) != key
    log = [{"key": "a", "state": "old", "verdict": "caught"}, {"key": "b", "state": "old", "verdict": "survived"}]
    assert mutate.earlier(log, "a", "now") == log[0]
    assert not mutate.earlier(log, "b", "now") and mutate.earlier(log, "b", "old") == log[1]


@tap.test
def results_are_merged_and_those_of_removed_mutations_go():
    mutate = loaded()
    rows = [{**ROW, "guarantee": name} for name in ("f", "g")]
    with tree.made_of({"a.c": "x = 1;\n", "data": ""}) as root:
        data = root / "data"
        mutate.write({"g": ("1", "caught"), "gone": ("2", "caught")}, rows, root, data)
        f, g = mutate.read_lines(data)
        assert (f["guarantee"], f["tried"], f["caught"]) == ("f", 0, 0) and (g["key"], g["tried"], g["caught"]) == ("1", 1, 1)
        mutate.write({"f": ("3", "survived")}, [{**rows[0], "survives": "a race"}, rows[1]], root, data)
        f, again = mutate.read_lines(data)
        assert again == g and (f["survived"], f["why"]) == (1, "a race")


tap.run()
