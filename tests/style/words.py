"""Private words disappear: their counts may only fall (ratchet.py); docs/internals/architecture.md has the words to use.

    words.py [ROOT] [--lower]
"""
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ratchet
import tap
import tree

ROOT = tree.root()

# Parts of identifiers and of file names, between underscores, and what to say.
PARTS = {"shelf": "free lists", "supply": "provider", "ladder": "reclaim", "rung": "step", "latch": "lock", "unripe": "deferred",
         "errand": "request", "lane": "stream cache", "branch": "heap", "ticket": "handle", "relief": "pressure",
         "usual": "fast path", "door": "entry point", "twin": "reference, or per-thread variant", "natives": "foreign allocations",
         "park": "graph resources", "bias": "lock", "kit": "fixture", "rig": "fixture"}
# A warp has lanes, as UCX has; a linear layer and an exponent have a bias, a matrix rows, and machine code branches.
FREE = {"cushim_row": ("kernels/",), "branch": ("kernels/", "tests/preload/resolve/aarch64"),
        "lane": ("kernels/", "tests/kernels/", "tests/bench/kernels/", "docs/internals/interposition.md"),
        "bias": ("kernels/", "tests/kernels/", "tests/bench/kernels/", "src/include/cushim/kernels", "docs/api/kernels",
                 "docs/reference/kernels.md")}
# In comments and pages, too, these; there may be room for something.
PROSE = {**PARTS, "the room": "layer or folder", "this room": "folder", "paper": "page", "long way": "slow path", "short way": "fast path",
         "quick way": "fast path"}
# Plain words that are private in names of the engine and of pools, but for an option of the public interface.
PLAIN = {"keep", "keeps", "hold", "holds", "left", "mark", "marks", "word", "words", "bound", "cell", "cells", "bin", "bins", "source",
         "sources", "pending"}
PREFIX = re.compile(r"cushim_(?:mem|pool|arena|capture|graph|entry|guard)_")
PUBLIC = {"cushim_graph_memory_hold"}
# Plain words that are private only as names.
NAMES = ["cushim_keep", "cushim_mem_hold", "cushim_graph_left", "cushim_mark", "cushim_word", "cushim_mem_bound", "cushim_mem_cell",
         "cushim_mem_place", "cushim_mem_found", "cushim_mem_bin", "cushim_mem_source", "cushim_mem_pending", "cushim_mem_rotation",
         "cushim_mem_quick", "cushim_mem_pool", "cushim_mem_budget", "cushim_pool_held", "cushim_recording", "cushim_engine",
         "cushim_enter", "cushim_leave", "cushim_row", "cushim_pool_bin", "cushim_pool_bins", "cushim_pool_lane", "cushim_arena_hold",
         "cushim_pin_quickly", "CUSHIM_POOL_MARK", "CUSHIM_POOL_LANE", "CUSHIM_MEM_PENDING", "CUSHIM_MEM_ROTATION"]

CODE = {".c", ".h", ".cu", ".cuh", ".cpp", ".S", ".def", ".py"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[ \t][^\n]*|\"\"\".*?\"\"\"", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[A-Za-z_]\w*")
WORD = re.compile(rf"(?<!\w)({'|'.join(PROSE)})s?(?!\w)")
PRIVATE = re.compile(rf"({'|'.join(NAMES)})(?:_|$)")
SELF = pathlib.Path("tests/style/words.py")


def count_names(text, free, counts):
    for name, count in collections.Counter(NAME.findall(text)).items():
        for part in PARTS.keys() & set(name.lower().split("_")) - free:
            counts[f"name {part}"] += count
        if PREFIX.match(name.lower()) and name.lower() not in PUBLIC:
            for part in PLAIN & set(name.lower().split("_")):
                counts[f"prefixed {part}"] += count
        private = PRIVATE.match(name)
        if private and private[1] not in free:
            counts[f"name {private[1]}"] += count


def counted(root):
    counts = collections.Counter()
    for path in tree.files(root):
        posix = path.as_posix()
        if path == SELF or posix.startswith("docs/results/") or path.suffix not in CODE | {".md"}:
            continue
        free = {word for word, folders in FREE.items() if posix.startswith(folders)}
        for word in PARTS.keys() & set(re.split(r"[_./-]", posix)) - free:
            counts[f"file {word}"] += 1
        text = (root / path).read_text(errors="replace")
        if path.suffix == ".md":
            prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        else:
            prose = "\n".join(COMMENT.findall(text)) if path.suffix != ".def" else text
            count_names(COMMENT.sub("", text), free, counts)
        for word in WORD.findall(prose.lower()):
            if word not in free:
                counts[f"prose {word}"] += 1
    return {key: count for key, count in counts.items() if count}


if ratchet.lower("words", counted(ROOT)):
    sys.exit()


@tap.test
def private_words_become_fewer():
    found = ratchet.faults("words", counted(ROOT))
    assert not found, "\n" + "\n".join(found)


@tap.test
def a_private_word_is_found():
    with tree.made_of({"src/memory/shelf.c": "int cushim_mem_shelf_take(void), CUSHIM_MEM_CELL; /* The ladder. */\n",
                       "docs/x.md": "The long way through the door.\n"}) as root:
        assert counted(root) == {"file shelf": 1, "name shelf": 1, "prefixed cell": 1, "prose ladder": 1, "prose long way": 1, "prose door": 1}


@tap.test
def a_word_of_the_field_is_fine():
    with tree.made_of({"kernels/rope/x.cu": "int lane_of(int bias); /* A lane. */\n", "src/memory/state/free_lists.c": "int keep;\n",
                       "docs/x.md": "`cushim_mem_shelf`\n"}) as root:
        assert counted(root) == {}


tap.run()
