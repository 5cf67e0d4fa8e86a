"""Includes and calls follow the layers of docs/internals/architecture.md.

    layers.py [ROOT [BUILD]]

The page has a block that begins with "```layers".  Its line `folders: a < b, c < d` says which top-level folders a
folder may include: those to its left, and the folders that these may include; only direct includes count. A line
`memory: x < y` says the same for the folders inside src/memory. In a line "." means the files of the folder itself, and
"*" every sub-folder that the line does not name.

Includes in quotes are written from src/include/, kernels/include/, src/ or the root, so that each begins with the name
of a folder.  Only in tools and tests, whose folders are separate programs, may a file include a neighbour by its bare
name. docs/examples is outside of all layers, like a user's programs: it includes only installed headers, in angle
brackets.

The calls of a file are read from the symbols of its object in BUILD, so that a private declaration, a weak symbol or a
variable hides nothing. Without BUILD only includes are checked.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = tree.root()
BUILD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
PAGE = "docs/internals/architecture.md"

# The folder of each name on the page.
FOLDERS = {"include": "src/include/cushim", "base": "src/base", "cuda": "src/cuda", "memory": "src/memory", "copy": "src/copy", "report": "src/report", "trace": "src/trace",
           "shared": "src/companion/shared.h", "companion": "src/companion", "dropin": "src/dropin", "kernel-include": "kernels/include/cushim", "kernels": "kernels", "kernel-tests": "kernels/tests",
           "preload": "preload",
           "cli": "tools/cushim", "sim": "tools/sim", "tests": "tests"}
BARE = ["tools", "tests"]
FROM = ["src/include", "src", ".", "kernels/include"]
# If device code is compiled for the host, the emulator replaces the built-ins of nvcc.
SEAM = (pathlib.Path("kernels/device/device.cuh"), "kernels/tests/emulator/cuda.h")
OUTSIDE = "docs/examples"

# Includes that violate the order. This list may only shrink: an unneeded entry is a fault.
AGAINST = {
    "kernels/shared/row.h": ["kernels/launch/call.h"],
}

# Names of higher layers that lower layers use, by the file that defines them. The table of events is above the code
# that raises them. This list may only shrink.
UPWARD = {
    "preload/events.c": ["cushim_events"],
    "src/companion/events.c": ["cushim_events"],
}
# The folders whose objects are read, and whether every build has them.
LINKED = ["src", "preload", "tools/cushim"]
BUILT = ["src/memory", "src/companion", "preload"]
# Names of the driver, the runtime and NVML, because the resolver returns cushim's hooks, which it knows by name.
CUDA_NAME = re.compile(r"(cu(da)?|nvml)[A-Z]\w*")

# Code that does not use CUDA: whole folders, and the nouns of src/memory that need no driver.
WITHOUT_CUDA_FOLDERS = ["src/include/cushim", "kernels/include/cushim", "src/base", "src/trace"]
WITHOUT_CUDA_NOUNS = ["sizeclass", "pagemap", "segment", "block", "stats", "metadata", "trace"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"(cuda|cuda_.*|cudaTypedefs|cudaProfiler|driver_types|vector_types|nvrtc)\.h")


class Order:
    """One line of the block: layers from left to right; folders of one layer do not include each other."""

    def __init__(self, text):
        self.layers = [[name.strip() for name in layer.split(",")] for layer in text.split("<")]

    def layer_of(self, path):
        """(layer, name) of a path below the line's folder, by the longest name that fits."""
        folder = path.parent.as_posix()
        best = None
        for number, names in enumerate(self.layers):
            for name in names:
                fits = {".": folder == ".", "*": folder != "."}.get(
                    name, folder == name or folder.startswith(name + "/") or path.as_posix() == name)
                weight = 0 if name == "*" else len(name)
                if fits and (best is None or weight > best[0]):
                    best = (weight, number, name)
        return best[1:] if best else None

    def allows(self, source, target):
        here, there = self.layer_of(source), self.layer_of(target)
        return here is None or there is None or there[0] < here[0] or (here[1] == there[1] and (
            here[1] != "*" or source.parts[0] == target.parts[0]))


def rules(root):
    """(the folders that each folder may include, the order inside each folder), from the page."""
    block = re.search(r"^```layers\n(.*?)^```", (root / PAGE).read_text(), re.DOTALL | re.MULTILINE)
    assert block, f"{PAGE} has no block of layers"
    may, inside = {}, {}
    for line in filter(None, map(str.strip, block.group(1).splitlines())):
        name, _, text = line.partition(":")
        if name != "folders":
            inside[FOLDERS[name]] = Order(text)
            continue
        seen = set()
        for layer in Order(text).layers:
            for folder in layer:
                through = [below for below in seen if not FOLDERS[below].endswith(".h")]
                may.setdefault(folder, set()).update(seen, *(may[below] for below in through))
            seen |= set(layer)
    return {FOLDERS[name]: {FOLDERS[below] for below in belows | {name}} for name, belows in may.items()}, inside


def folder_of(path):
    fits = [folder for folder in FOLDERS.values() if f"{path.as_posix()}/".startswith(folder + "/")]
    return max(fits, key=len, default=None)


def includes(path):
    """(is in quotes, name) of each include."""
    return [(mark == '"', name) for mark, name in INCLUDE.findall(path.read_text(errors="replace"))]


def resolve(root, name):
    """The file of an include in quotes, relative to root; None if it is generated."""
    for folder in FROM:
        if (root / folder / name).is_file():
            return pathlib.Path(folder) / name
    return None


def meant_by(root, name):
    """The file of an include in quotes, otherwise its written path, or None."""
    paths = [pathlib.Path(folder) / name for folder in FROM]
    return resolve(root, name) or next(filter(folder_of, paths), None)


def sources(root):
    return [path for path in tree.files(root) if path.suffix in (".c", ".h", ".cu", ".cuh", ".S", ".def")]


def fault_of(folder, path, target, may, inside):
    """The fault of an include of target by path in folder, or None."""
    if not target:
        return "is not written from src/ or the root"
    if folder_of(target) not in may[folder]:
        return f"lies below {folder}"
    if folder_of(target) == folder and folder in inside and not inside[folder].allows(
            path.relative_to(folder), target.relative_to(folder)):
        return f"lies below it in {folder}"
    return None


class Symbols:
    """The names that an object defines and uses, and cushim's weak names in it."""

    def __init__(self, lines):
        self.defined, self.used, self.weak = set(), set(), set()
        for kind, name in lines:
            if kind in "wvWV" and name.startswith("cushim_"):
                self.weak.add(name)
            if kind in "Uwv":
                self.used.add(name)
            elif kind.isupper():
                self.defined.add(name)


def objects_of(root, build):
    """{source: its object} for the folders of LINKED in a build."""
    objects = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        folder = pathlib.Path(entry["directory"])
        source = pathlib.Path(os.path.relpath((folder / entry["file"]).resolve(), root.resolve()))
        if (folder / entry["output"]).is_file() and any(f"{source.as_posix()}".startswith(name + "/") for name in LINKED):
            objects[source] = folder / entry["output"]
    return objects


def symbols_of(root, build):
    """{source: Symbols}"""
    nm = shutil.which("nm") or shutil.which("llvm-nm")
    objects = objects_of(root, build)
    for folder in BUILT:
        assert any(folder_of(source) == folder for source in objects), f"{build} has no objects of {folder}: build it first"
    lines = collections.defaultdict(list)
    listed = subprocess.run([nm, "-A", "-P", *objects.values()], capture_output=True, text=True, check=True).stdout
    for object_file, name, kind in re.findall(r"^(.*?)(?:\[.*\])?: (\S+) (\w)\b", listed, re.MULTILINE):
        lines[object_file].append((kind, name))
    return {source: Symbols(lines[str(path)]) for source, path in objects.items()}


def is_below(source, target, may, inside):
    """Whether source may use names of target."""
    folder = folder_of(source)
    if folder_of(target) != folder:
        return folder_of(target) in may[folder]
    return folder not in inside or inside[folder].allows(source.relative_to(folder), target.relative_to(folder))


def faults_of_calls(root, symbols, upward=None):
    may, inside = rules(root)
    unused = {target: list(names) for target, names in (upward or {}).items()}
    definers = collections.defaultdict(list)
    for source, of_source in symbols.items():
        for name in of_source.defined:
            definers[name].append(source)
    for source, of_source in sorted(symbols.items()):
        for name in sorted(of_source.weak):
            yield f"{source}: {name} is weak"
        for name in sorted(of_source.used):
            if CUDA_NAME.fullmatch(name):
                continue
            own = [target for target in definers[name] if folder_of(target) == folder_of(source)]
            # in a separate library a function of this name in another folder is a different function, unless its name
            # is cushim's
            targets = own or (definers[name] if name.startswith("cushim_") else [])
            if not targets or any(is_below(source, target, may, inside) for target in targets):
                continue
            target = targets[0].as_posix()
            if name not in (upward or {}).get(target, ()):
                yield f"{source}: {name} of {target} lies above it"
            elif name in unused[target]:
                unused[target].remove(name)
    for target, names in unused.items():
        for name in names:
            yield f"{target}: {name} is listed as an exception, and is none"


def faults_of_direction(root, against=None):
    may, inside = rules(root)
    unused = dict(against or {})
    for path in sources(root):
        folder = folder_of(path)
        if path.as_posix().startswith(OUTSIDE + "/"):
            for is_quoted, name in includes(root / path):
                if is_quoted and "/" in name:
                    yield f'{path}: "{name}" is not what a user has'
            continue
        if not folder:
            yield f"{path}: in no layer"
            continue
        for is_quoted, name in includes(root / path):
            if not is_quoted:
                if name.startswith("cushim/"):
                    yield f'{path}: <{name}> is ours: write "{name}"'
                continue
            if (path.parts[0] in BARE and "/" not in name) or (path, name) == SEAM:
                continue
            target = meant_by(root, name) if "/" in name and ".." not in name and not name.startswith("src/") else None
            fault = fault_of(folder, path, target, may, inside)
            if fault and name in (against or {}).get(path.as_posix(), ()):
                unused[path.as_posix()] = [other for other in unused[path.as_posix()] if other != name]
            elif fault:
                yield f'{path}: "{name}" {fault}'
    for path, names in unused.items():
        for name in names:
            yield f'{path}: "{name}" is listed as an exception, and is none'


def faults_of_cuda(root):
    for path in sources(root):
        folder = folder_of(path)
        if folder in WITHOUT_CUDA_FOLDERS or (folder == "src/memory" and path.stem in WITHOUT_CUDA_NOUNS):
            way = way_to_cuda(root, path, set())
            if way:
                yield " -> ".join(map(str, way))


def way_to_cuda(root, path, seen):
    """The chain of includes from path to a header of CUDA, or None."""
    seen.add(path)
    for is_quoted, name in includes(root / path):
        if CUDA_HEADER.fullmatch(name):
            return [path, name]
        target = resolve(root, name) if is_quoted else None
        if target and target not in seen:
            way = way_to_cuda(root, target, seen)
            if way:
                return [path, *way]
    return None


def assert_none(faults):
    faults = list(faults)
    assert not faults, "\n" + "\n".join(faults)


def made_of(texts):
    """A tree with the rules of this one."""
    return tree.made_of({PAGE: (ROOT / PAGE).read_text(), **texts})


@tap.test
def folders_include_themselves_and_layers_before_them():
    assert_none(faults_of_direction(ROOT, AGAINST))


@tap.test
def files_call_themselves_and_layers_before_them():
    if BUILD is None:
        tap.skip("no build to read objects of")
    assert_none(faults_of_calls(ROOT, symbols_of(ROOT, BUILD), UPWARD))


@tap.test
def code_without_the_driver_includes_no_CUDA_header():
    assert_none(faults_of_cuda(ROOT))


@tap.test
def the_page_orders_every_sub_folder():
    _, inside = rules(ROOT)
    for path in sources(ROOT):
        folder = folder_of(path)
        if folder in inside:
            assert inside[folder].layer_of(path.relative_to(folder)), f"{PAGE} does not say where {path.parent} stands"


@tap.test
def an_include_of_a_later_layer_is_found():
    for path, name in (("src/base/log.c", "cuda/table.h"), ("src/memory/heap.c", "preload/hooks/hooks_copy.h"),
                       ("src/include/cushim/x.h", "base/log.h"), ("preload/report/exit.c", "companion/arena/arena.h"),
                       ("preload/report/exit.c", "kernels/fill/fill.h"), ("src/cuda/load.c", "memory/heap.h"),
                       ("kernels/softmax/softmax.cu", "kernels/tests/emulator/cuda.h"), ("kernels/rope/x.c", "tools/sim/sim.h"),
                       ("kernels/launch/x.c", "companion/core/driver.h"), ("kernels/launch/x.c", "base/try.h"),
                       ("kernels/device/device.cuh", "kernels/tests/frame/case.h"), ("tools/sim/x.c", "tests/unit/x.h"),
                       ("src/companion/pool/pool.c", "kernels/launch/call.h"), ("tools/sim/x.c", "companion/pool/pool.h"), ("tests/unit/x.c", "kernels/launch/call.h"),
                       ("tools/cushim/x.c", "preload/state/process.h"), ("preload/state/x.c", "tools/sim/sim.h")):
        with made_of({path: f'#include "{name}"\n'}) as root:
            assert len(list(faults_of_direction(root))) == 1, (path, name)


@tap.test
def an_include_against_the_order_inside_a_folder_is_found():
    for path, name in (("src/memory/layout/block.c", "memory/heap.h"), ("src/memory/stats.h", "memory/layout/block.h"),
                       ("src/companion/core/error.c", "companion/pool/pool.h"), ("preload/resolve/route.c", "preload/entry/entry.h"),
                       ("preload/hooks/hooks_set.c", "preload/report/exit.h"), ("kernels/rope/rope.c", "kernels/norm/norm_args.h"),
                       ("kernels/device/math/half.cuh", "kernels/device/row.cuh"), ("kernels/launch/call.c", "kernels/rope/rope_args.h")):
        with made_of({path: f'#include "{name}"\n'}) as root:
            assert len(list(faults_of_direction(root))) == 1, (path, name)
            assert not list(faults_of_direction(root, {path: [name]}))


@tap.test
def a_call_of_a_later_layer_is_found():
    name = "cushim_called"
    for source, target in (("src/memory/layout/block.c", "src/memory/heap.c"), ("src/base/log.c", "src/memory/stats.c"),
                           ("preload/state/contexts.c", "preload/entry/foreign.c"), ("preload/state/contexts.c", "preload/events.c"),
                           ("src/companion/pool/pool.c", "src/companion/graph/graph.c"), ("preload/report/exit.c", "src/companion/core/error.c")):
        here, there = pathlib.Path(source), pathlib.Path(target)
        for kind in "Uw":
            symbols = {here: Symbols([(kind, name)]), there: Symbols([("T", name)])}
            assert len(list(faults_of_calls(ROOT, symbols))) == (2 if kind == "w" else 1), (source, target)
        symbols = {here: Symbols([("U", name)]), there: Symbols([("T", name)])}
        assert not list(faults_of_calls(ROOT, symbols, {target: [name]})), (source, target)
        back = {here: Symbols([("D", name)]), there: Symbols([("U", name)])}
        assert_none(faults_of_calls(ROOT, back) if folder_of(here) == folder_of(there) else ())
        assert len(list(faults_of_calls(ROOT, back, {target: [name]}))) >= 1, "an exception that is not needed"


@tap.test
def a_weak_symbol_of_cushim_is_found():
    for kind in "wvWV":
        assert len(list(faults_of_calls(ROOT, {pathlib.Path("src/base/log.c"): Symbols([(kind, "cushim_x")])}))) == 1
        assert_none(faults_of_calls(ROOT, {pathlib.Path("src/base/log.c"): Symbols([(kind, "dladdr1")])}))


@tap.test
def an_exception_that_is_not_needed_is_found():
    with made_of({"src/memory/heap.c": '#include "memory/layout/block.h"\n'}) as root:
        assert len(list(faults_of_direction(root, {"src/memory/heap.c": ["memory/layout/block.h"]}))) == 1
        assert len(list(faults_of_direction(root, {"src/memory/gone.c": ["memory/layout/block.h"]}))) == 1


@tap.test
def an_include_of_an_earlier_layer_is_fine():
    for path, name in (("src/memory/heap.c", "memory/layout/segment.h"), ("preload/report/exit.c", "memory/stats.h"),
                       ("preload/report/exit.c", "preload/report/exit.h"), ("tools/cushim/commands/run.c", "base/options.h"),
                       ("tests/unit/x.c", "tools/sim/sim.h"), ("src/base/status.c", "cushim/status.h"),
                       ("kernels/softmax/softmax.cu", "kernels/device/device.cuh"), ("kernels/launch/call.c", "companion/shared.h"),
                       ("kernels/tests/x.c", "kernels/launch/call.h"), ("kernels/tests/x.c", "tests/unit/suite.h"), ("kernels/device/row.cuh", "kernels/device/math/half.cuh"), SEAM):
        with made_of({path: f'#include "{name}"\n'}) as root:
            assert_none(faults_of_direction(root))


@tap.test
def an_include_that_is_not_written_from_the_root_is_found():
    with made_of({"docs/examples/x.c": '#include <cushim/cushim.h>\n#include "try.h"\n#include "base/log.h"\n'}) as root:
        assert len(list(faults_of_direction(root))) == 1
    for line in ('#include "heap.h"', '#include "../heap/heap.h"', "#include <cushim/status.h>",
                 '# include "other/heap.h"', '#include "src/memory/heap.h"'):
        with made_of({"src/memory/heap.c": line + "\n"}) as root:
            assert len(list(faults_of_direction(root))) == 1, line


@tap.test
def a_bare_name_is_allowed_only_in_tools_and_tests():
    text = '#include "x.h"\n'
    with made_of({"tools/sim/a.c": text, "tests/unit/a.c": text, "src/base/a.c": text, "preload/entry/a.c": text}) as root:
        assert [fault.split(":")[0] for fault in faults_of_direction(root)] == ["preload/entry/a.c", "src/base/a.c"]


@tap.test
def a_file_in_no_layer_is_found():
    with made_of({"src/other/x.c": "", "x.c": ""}) as root:
        assert len(list(faults_of_direction(root))) == 2


@tap.test
def a_CUDA_header_is_found_through_others():
    with made_of({"src/memory/layout/block.c": '#include "memory/layout/block.h"\n',
                  "src/memory/layout/block.h": '#include "memory/layout/chunk.h"\n',
                  "src/memory/layout/chunk.h": '#include "cuda/table.h"\n',
                  "src/cuda/table.h": "#include <cuda.h>\n",
                  "src/base/log.c": "#include <cuda_runtime_api.h>\n"}) as root:
        faults = list(faults_of_cuda(root))
        assert len(faults) == 3, faults
        assert any("src/memory/layout/block.c -> src/memory/layout/block.h -> src/memory/layout/chunk.h" in f for f in faults), faults


tap.run()
