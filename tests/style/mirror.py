"""Each source of src/ has its test where one looks for it: src/memory/heap/free.c in tests/unit/memory/heap/free.c.

    mirror.py [ROOT] [--lower]

limits.json lists the sources that have none there, most of them tested through a neighbour; the list may only shrink.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ratchet
import tap
import tree

ROOT = tree.root()


def without(root):
    """{source: 1} of those without a test of their name."""
    files = {path.as_posix() for path in tree.files(root)}
    return {path: 1 for path in sorted(files)
            if path.startswith("src/") and path.endswith(".c") and not path.startswith("src/dropin/")
            and "tests/unit/" + path.removeprefix("src/") not in files}


if ratchet.lower("mirror", without(ROOT)):
    sys.exit()


@tap.test
def a_new_source_has_a_test_of_its_name():
    found = ratchet.faults("mirror", without(ROOT))
    assert not found, "\n" + "\n".join(line.split(":")[0] + ": no test of its name in tests/unit" for line in found)


@tap.test
def a_source_without_a_test_is_found():
    with tree.made_of({"src/memory/heap/free.c": "", "src/base/log.c": "", "tests/unit/base/log.c": ""}) as root:
        assert without(root) == {"src/memory/heap/free.c": 1}


tap.run()
