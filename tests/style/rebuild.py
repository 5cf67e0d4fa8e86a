"""What a touched file rebuilds may only become less: limits.json has the counts, and docs/internals/architecture.md says them.

    rebuild.py ROOT [BUILD] [--lower]    the build is ROOT/build where none is named

Read from build.ninja and from what the compiler said it included; nothing is touched.  A list of a library's symbols that
comes out the same stops the build there, so what lies behind one is not counted.  Nor are the kernels, which a build may lack.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ratchet
import tap

ROOT, *NAMED = [pathlib.Path(word).resolve() for word in sys.argv[1:] if not word.startswith("--")]
BUILD = NAMED[0] if NAMED else ROOT / "build"
PAGE = "docs/internals/architecture.md"
FILES = ["preload/hooks/hooks_set.c", "src/memory/heap/free.c", "src/memory/heap/heap.h", "src/memory/state/heap_state.h", "src/base/options.def", "src/cuda/symbols.def"]
STOPS = "SHSYM"  # the rule that keeps its output where it came out the same
APART = ("kernels/", "tests/kernels/", "tests/gpu/")


def steps_of(text):
    """[(rule, outputs, inputs)] of a build.ninja; what only has to be there first is no input."""
    found = []
    for line in text.replace("$\n", "").splitlines():
        if line.startswith("build "):
            outputs, _, rest = line[6:].replace("$:", "\0").replace("$ ", "\1").partition(":")
            rule, *inputs = rest.split("||")[0].replace("|", " ").split()
            plain = [[name.replace("\0", ":").replace("\1", " ") for name in names] for names in (outputs.replace("|", " ").split(), inputs)]
            found.append((rule, *plain))
    return found


def needed(steps):
    """Those that a plain `ninja` makes."""
    makes = {name: step for step in steps for name in step[1]}
    want, seen, found = ["all"], set(), []
    while want:
        step = makes.get(want.pop())
        if step and id(step) not in seen:
            seen.add(id(step))
            found.append(step)
            want += step[2]
    return found


def included(text):
    """{object: files} of `ninja -t deps`."""
    found, files = {}, []
    for line in text.splitlines():
        if line.startswith("    "):
            files.append(line.strip())
        elif ": #deps" in line:
            files = found.setdefault(line.split(": #deps")[0], [])
    return found


def rebuilt(steps, deps, touched):
    """(compiled, steps) where `touched`, relative to the build folder, changed."""
    behind = {}
    for step in steps:
        for name in step[2] + [os.path.normpath(name) for output in step[1] for name in deps.get(output, ())]:
            behind.setdefault(os.path.normpath(name), []).append(step)
    want, seen, rules = [touched], set(), []
    while want:
        for step in behind.get(os.path.normpath(want.pop()), ()):
            if id(step) in seen or step[1][0].startswith(APART):
                continue
            seen.add(id(step))
            if step[0] != "phony":
                rules.append(step[0])
            if step[0] != STOPS:
                want += step[1]
    return sum(rule.endswith("_COMPILER") for rule in rules), len(rules)


def not_compiled(steps, deps):
    """Objects that the compiler has said nothing of yet."""
    return [step[1][0] for step in steps if step[0].endswith("_COMPILER") and step[1][0] not in deps and not step[1][0].startswith(APART)]


def counted():
    """Of a build in which all is compiled; else nothing."""
    ninja = shutil.which("ninja") or shutil.which("ninja-build")
    if not ninja or not (BUILD / "build.ninja").exists():
        return {}
    steps = needed(steps_of((BUILD / "build.ninja").read_text()))
    deps = included(subprocess.run([ninja, "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout)
    counts = {}
    if not_compiled(steps, deps):
        return counts
    for file in FILES:
        counts[file + " compiled"], counts[file + " steps"] = rebuilt(steps, deps, os.path.relpath(ROOT / file, BUILD))
    return counts


if ratchet.lower("rebuild", counted()):
    sys.exit()


@tap.test
def a_touched_file_rebuilds_no_more_than_it_did():
    counts = counted()
    if not counts:
        tap.skip("no ninja here, or not all is compiled")
    assert all(counts.values()), counts
    found = ratchet.faults("rebuild", counts)
    assert not found, "\n" + "\n".join(found)


@tap.test
def the_page_says_the_limits():
    page, limits = (ROOT / PAGE).read_text(), ratchet.limits("rebuild")
    for file in FILES:
        row = re.search(rf"^\| `{re.escape(file)}` \| (\d+) \| (\d+) \|", page, re.MULTILINE)
        said = (limits[file + " compiled"], limits[file + " steps"])
        assert row and tuple(map(int, row.groups())) == said, f"{PAGE}: {file} rebuilds {said}"


@tap.test
def each_step_behind_a_file_is_counted_once_up_to_a_list_of_symbols():
    steps = needed(steps_of("""build a.o: c_COMPILER ../a.c || made
build b.o: c_COMPILER ../b.c
build lib.so | lib.a: c_LINKER a.o b.o
build lib.symbols: SHSYM lib.so
build $
 program: c_LINKER c.o | lib.symbols
build kernels/k.o: c_COMPILER ../k.c
build loose: c_LINKER a.o
build all: phony lib.so program kernels/k.o
"""))
    deps = included("a.o: #deps 2, deps mtime 1 (VALID)\n    ../a.c\n    ../x.h\n\nb.o: #deps 1, deps mtime 1 (VALID)\n    ../x/../x.h\n\n"
                    "kernels/k.o: #deps 1, deps mtime 1 (VALID)\n    ../x.h\n")
    assert rebuilt(steps, deps, "../x.h") == (2, 4)
    assert rebuilt(steps, deps, "../a.c") == (1, 3)
    assert rebuilt(steps, deps, "../none.h") == (0, 0)
    assert not_compiled(steps, deps) == [] and not_compiled(steps, {"a.o": []}) == ["b.o"]


tap.run()
