"""Includes follow the list of rooms (docs/internals/memory-engine.md, section 4).

    layers.py ROOT

A room includes itself and rooms above it in ROOMS, never below.  Includes in quotes are written from
src/include/, src/ or the root, so that each begins with the name of a room; only in tools and tests, whose
folders are programs of their own, may a file include its own program's by a bare name.  docs/examples is outside
of all rooms, as a user's programs are: it sees installed headers alone, in angle brackets.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = pathlib.Path(sys.argv[1])

ROOMS = ["src/include/cushim", "src/base", "src/cuda", "src/memory", "src/companion", "src/dropin",
         "kernels", "preload", "tools", "tests"]
ONLY = {"preload": ["src/include/cushim", "src/base", "src/cuda", "src/memory", "preload"]}
BARE = ["tools", "tests"]
# Where device code is compiled for the host, what nvcc would know comes from the emulator.
SEAM = (pathlib.Path("kernels/device/device.cuh"), "tests/kernels/emulator/cuda.h")
OUTSIDE = "docs/examples"

# The first part of an include in quotes, and the room it means.
PREFIXES = {room.removeprefix("src/include/").removeprefix("src/"): room for room in ROOMS}

# What knows nothing of CUDA: whole rooms, and the nouns of src/memory that need no driver.
WITHOUT_CUDA_ROOMS = ["src/include/cushim", "src/base"]
WITHOUT_CUDA_NOUNS = ["sizeclass", "pagemap", "extent", "bucket", "ledger", "stats", "meta", "trace"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"(cuda|cuda_.*|cudaTypedefs|cudaProfiler|driver_types|vector_types|nvrtc)\.h")


def room_of(path):
    return next((room for room in ROOMS if path.as_posix().startswith(room + "/")), None)


def includes(path):
    """(is in quotes, name) of each include."""
    return [(mark == '"', name) for mark, name in INCLUDE.findall(path.read_text(errors="replace"))]


def resolve(root, name):
    """The file that an include in quotes means in src, relative to root, or None: it is generated."""
    for folder in ("src/include", "src", "."):
        if (root / folder / name).is_file():
            return pathlib.Path(folder) / name
    return None


def sources(root):
    return [path for path in tree.files(root) if path.suffix in (".c", ".h", ".cu", ".cuh", ".S", ".def")]


def faults_of_direction(root):
    for path in sources(root):
        room = room_of(path)
        if path.as_posix().startswith(OUTSIDE + "/"):
            for is_quoted, name in includes(root / path):
                if is_quoted and "/" in name:
                    yield f'{path}: "{name}" is not what a user has'
            continue
        if not room:
            yield f"{path}: in no room"
            continue
        allowed = ONLY.get(room, ROOMS[:ROOMS.index(room) + 1])
        for is_quoted, name in includes(root / path):
            if not is_quoted:
                if name.startswith("cushim/"):
                    yield f'{path}: <{name}> is ours: write "{name}"'
                continue
            if (room in BARE and "/" not in name) or (path, name) == SEAM:
                continue
            meant = PREFIXES.get(name.split("/")[0]) if "/" in name else None
            if not meant:
                yield f'{path}: "{name}" is not written from src/ or the root'
            elif meant not in allowed:
                yield f'{path}: "{name}" lies below {room}'


def faults_of_cuda(root):
    for path in sources(root):
        room = room_of(path)
        if room in WITHOUT_CUDA_ROOMS or (room == "src/memory" and path.stem in WITHOUT_CUDA_NOUNS):
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


@tap.test
def rooms_include_themselves_and_rooms_above():
    assert_none(faults_of_direction(ROOT))


@tap.test
def what_needs_no_driver_includes_no_CUDA_header():
    assert_none(faults_of_cuda(ROOT))


@tap.test
def an_include_of_a_room_below_is_found():
    for path, name in (("src/base/log.c", "cuda/table.h"), ("src/memory/heap/heap.c", "preload/lifetime.h"),
                       ("src/include/cushim/x.h", "base/log.h"), ("preload/report/exit.c", "companion/arena/arena.h"),
                       ("preload/report/exit.c", "kernels/fill.h"), ("src/cuda/load.c", "memory/heap/heap.h"),
                       ("kernels/softmax/softmax.cu", "tests/kernels/emulator/cuda.h"), ("kernels/twin/x.c", "tools/sim/sim.h"),
                       ("kernels/device/device.cuh", "tests/kernels/frame/case.h"), ("src/companion/pool/pool.c", "kernels/launch/call.h"),
                       ("tools/sim/x.c", "tests/unit/x.h")):
        with tree.made_of({path: f'#include "{name}"\n'}) as root:
            assert len(list(faults_of_direction(root))) == 1, path


@tap.test
def an_include_of_a_room_above_is_fine():
    for path, name in (("src/memory/heap/heap.c", "memory/layout/segment.h"), ("preload/report/exit.c", "memory/stats.h"),
                       ("preload/report/exit.c", "preload/exit.h"), ("tools/cushim/commands/run.c", "base/options.h"),
                       ("tests/unit/x.c", "tools/sim/sim.h"), ("src/base/status.c", "cushim/status.h"),
                       ("kernels/softmax/softmax.cu", "kernels/device/device.cuh"), ("kernels/launch/call.c", "companion/core/driver.h"),
                       ("tests/kernels/x.c", "kernels/launch/call.h"), SEAM):
        with tree.made_of({path: f'#include "{name}"\n'}) as root:
            assert_none(faults_of_direction(root))


@tap.test
def an_include_not_written_from_the_top_is_found():
    with tree.made_of({"docs/examples/x.c": '#include <cushim/cushim.h>\n#include "try.h"\n#include "base/log.h"\n'}) as root:
        assert len(list(faults_of_direction(root))) == 1
    for line in ('#include "pool.h"', '#include "../memory/pool.h"', "#include <cushim/status.h>",
                 '# include "other/pool.h"', '#include "src/memory/heap/heap.h"'):
        with tree.made_of({"src/memory/heap/heap.c": line + "\n"}) as root:
            assert len(list(faults_of_direction(root))) == 1, line


@tap.test
def a_bare_name_will_do_in_tools_and_tests_alone():
    text = '#include "x.h"\n'
    with tree.made_of({"tools/sim/a.c": text, "tests/unit/a.c": text, "src/base/a.c": text,
                       "preload/a.c": text}) as root:
        assert [fault.split(":")[0] for fault in faults_of_direction(root)] == ["preload/a.c", "src/base/a.c"]


@tap.test
def a_file_in_no_room_is_found():
    with tree.made_of({"src/other/x.c": "", "x.c": ""}) as root:
        assert len(list(faults_of_direction(root))) == 2


@tap.test
def a_CUDA_header_is_found_through_others():
    with tree.made_of({"src/memory/layout/bucket.c": '#include "memory/layout/bucket.h"\n',
                       "src/memory/layout/bucket.h": '#include "memory/layout/segment.h"\n',
                       "src/memory/layout/segment.h": '#include "cuda/table.h"\n',
                       "src/cuda/table.h": "#include <cuda.h>\n",
                       "src/base/log.c": "#include <cuda_runtime_api.h>\n"}) as root:
        faults = list(faults_of_cuda(root))
        assert len(faults) == 3, faults
        assert any("src/memory/layout/bucket.c -> src/memory/layout/bucket.h -> src/memory/layout/segment.h" in f for f in faults), faults


tap.run()
