"""A folder holds one subject and at most 15 nouns; a noun is a base name.

    folders.py [ROOT]
"""
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = tree.root()
MOST = 15
TOP = ("src", "preload", "kernels", "tools")
CODE = {".c", ".h", ".cu", ".cuh", ".S", ".def"}

# More nouns than that, and why.
EXCEPTIONS = {
    "kernels/dropin": (16, "one file a family"),
    "kernels/gemv": (17, "until its paths are merged"),
    "preload/hooks": (16, "one file a group of symbols"),
    "src/base": (21, "one noun a helper"),
    "src/report": (16, "page_calls is apart from page, which a tool copies whole"),
    "src/include/cushim": (22, "one header a module, and users type the name"),
}


def nouns(root):
    """{folder: names} of the folders of the product; tests may exceed what they mirror."""
    found = collections.defaultdict(set)
    for path in tree.files(root):
        if path.parts[0] in TOP and path.suffix in CODE:
            found[path.parent.as_posix()].add(path.name.split(".")[0])
    return found


def faults(root, exceptions):
    for folder, names in sorted(nouns(root).items()):
        most = exceptions.get(folder, (MOST, ""))[0]
        if len(names) > most:
            yield f"{folder}: {len(names)} nouns, at most {most}"


@tap.test
def a_folder_holds_one_subject():
    found = list(faults(ROOT, EXCEPTIONS))
    assert not found, "\n" + "\n".join(found)


@tap.test
def an_exception_is_needed():
    found = [folder for folder in EXCEPTIONS if len(nouns(ROOT)[folder]) <= MOST]
    assert not found, f"no longer an exception: {found}"


@tap.test
def a_folder_with_too_many_is_found():
    with tree.made_of({f"src/x/n{i}.{suffix}": "" for i in range(16) for suffix in "ch"}) as root:
        assert list(faults(root, {})) == ["src/x: 16 nouns, at most 15"]
        assert not list(faults(root, {"src/x": (16, "so")}))


tap.run()
