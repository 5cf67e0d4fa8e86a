"""The map of docs/internals/architecture.md leads to files with the right content.

    map.py ROOT

WANTED has each row of the map with the patterns that its files must contain; <family> is each family of kernels. Every
file, folder and function that the page names must exist, and each folder of the sources has a row.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = pathlib.Path(sys.argv[1])
PAGE = "docs/internals/architecture.md"

# question: {a name of the row: a pattern that each file has, or, for a folder, one of its files}
WANTED = {
    "what happens on `cudaMalloc`": {
        "preload/hooks/hooks_alloc.c": r"CUSHIM_EXPORT cudaError_t cudaMalloc\(",
        "src/memory/alloc.c": r"^uint64_t cushim_mem_alloc_fast\("},
    "... when the fast path does not apply": {
        "preload/entry/alloc.c": r"^CUresult cushim_entry_alloc\(",
        "src/memory/alloc.c": r"^enum cushim_status cushim_mem_alloc\("},
    "what happens on `cudaFree`": {
        "preload/hooks/hooks_alloc.c": r"CUSHIM_EXPORT cudaError_t cudaFree\(",
        "preload/entry/free.c": r"^bool cushim_entry_free_live\(",
        "src/memory/free.c": r"^enum cushim_status cushim_mem_free\("},
    "the wait of an exact free": {"src/memory/fence/fence.c": r"^enum cushim_status cushim_mem_fence_wait\("},
    "reuse in relaxed mode": {
        "src/memory/fence/fence.c": r"^uint64_t cushim_mem_fence_poll\(",
        "src/memory/state/deferred.c": r"^bool cushim_mem_deferred_add\("},
    "whether an address is ours": {"src/memory/layout/block.c": r"^bool cushim_mem_blocks_find\("},
    "which size a request is rounded to": {"src/memory/layout/sizeclass.h": r"\bcushim_mem_sizeclass_of\("},
    "when memory goes back to the driver": {
        "src/memory/state/watermark.c": r"^size_t cushim_mem_watermark_now\(",
        "src/memory/reclaim.c": r"^void cushim_mem_reclaim_shrink\("},
    "what happens when memory runs out": {"src/memory/reclaim.c": r"^bool cushim_mem_reclaim_run\("},
    "how memory that the driver serves is counted": {
        "preload/entry/foreign.c": r"^void cushim_foreign_record\(",
        "preload/entry/mapped_memory.c": r"^CUresult cushim_mapped_memory_unmap\("},
    "how a `dlsym` or `cuGetProcAddress` is answered": {"preload/resolve/": r"\bdlsym\b"},
    "how to hook one more function": {
        "src/cuda/symbols.def": r"^SYM\(HOOK, +DRV, cuMemAlloc_v2,",
        "preload/hooks/": r"^CUSHIM_EXPORT CUresult cuMemAlloc_v2\("},
    "which copies run through cushim's pinned memory, and how": {
        "preload/entry/copy_stage.c": r"\bis_counted\(",
        "src/copy/": r"\bcushim_copy_ring_\w+\("},
    "what a stream of a pool keeps, and when it is over": {
        "src/memory/cache/stream.c": r"^enum cushim_status cushim_mem_stream_cache_prove\(",
        "src/memory/fence/stream_fence.c": r"^bool cushim_mem_stream_fence_is_complete\("},
    "how a pool's request is served": {
        "src/companion/pool/pool_alloc.c": r"\bcushim_mem_stream_cache_serve\(",
        "src/memory/stream_alloc.c": r"^enum cushim_status cushim_mem_stream_cache_serve\("},
    "what is told of a fork, or of the end of a context, a driver or a thread": {
        "preload/events.c": r"\.forked = .*\n(?:.*\n)*.*\.driver_lost = .*\n(?:.*\n)*.*\.context_gone = ",
        "src/companion/events.c": r"\.thread_ended = "},
    "what another process asks of this one": {
        "preload/state/control.c": r"^void cushim_control_answer\(",
        "preload/observe/watch.c": r"^int cushim_watch_record\("},
    "what is served from host memory when a device is full": {"preload/entry/alloc.c": r"^bool cushim_entry_spill\(",
                                                              "preload/entry/mapped_memory.c": r"^static bool create_on_host\(",
                                                              "preload/state/spill.c": r"^size_t cushim_spill_free_bytes\("},
    "a limit, and what a group of processes has of it": {"preload/entry/device_limit.c": r"^bool cushim_device_limit_admits\(",
                                                         "src/report/group.c": r"^bool cushim_group_charge\("},
    "stream captures": {
        "preload/state/captures.c": r"\bCUstream\b",
        "src/companion/capture/": r"\bcushim_\w*captur\w*\("},
    "the counters of a process, and how others read them": {
        "src/report/page.h": r"^struct cushim_page \{",
        "src/report/page_file.c": r"\bcushim_page_folder_open\(",
        "preload/state/live.c": r"\bcushim_live_\w+\("},
    "what the report says about a finding, or about a request that found no memory": {
        "src/report/finding.c": r"^void cushim_finding_text\(",
        "src/report/shortage.c": r"^void cushim_shortage_text\(",
        "preload/observe/check.c": r"\bcushim_page_ring_put\(",
        "preload/observe/shortage.c": r"^void cushim_shortage_note\("},
    "what waits for a program and reports how it ended": {"tools/cushim/wait.c": r"\bwaitpid\(|\bwaitid\("},
    "how to add an option": {"src/base/options.def": r"^OPT\("},
    "a public function": {
        "src/include/cushim/pool.h": r"\bcushim_pool_create\(",
        "src/companion/pool/pool*.c": r"^enum cushim_status cushim_pool_create\("},
    "a kernel, its reference and its test": {
        "kernels/<family>/<family>*.cu": r"^#include \"kernels/",
        "kernels/<family>/<family>*_reference.c": r"_ref\(",
        "kernels/tests/cases/cases_<family>*.c": r"\btable_add\w*\("},
}
NAME = re.compile(r"[\w.<>*-]+(?:/[\w.<>*-]+)*/?")
FUNCTION = re.compile(r"cushim_\w+")


def rows(root):
    """{question: names in backticks of the answer} of the page's first table."""
    table = (root / PAGE).read_text().split("\n## ")[1]
    found = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return {question: [name for name in re.findall(r"`([^`]+)`", answer) if "/" in name]
            for question, answer in found if not set(question) <= {"-"} and question != "where is ..."}


def families(root):
    return sorted(path.name for path in (root / "kernels").glob("*") if list(path.glob(f"{path.name}*_reference.c")))


def texts(root, name):
    """The texts of the files of a name in the map, with a list for each family if it has <family>."""
    for family in families(root) if "<family>" in name else [""]:
        pattern = name.replace("<family>", family) + ("*" if name.endswith("/") else "")
        yield [path.read_text(errors="replace") for path in sorted(root.glob(pattern)) if path.is_file()]


def faults(root, wanted):
    map_ = rows(root)
    for question in sorted(set(map_) | set(wanted)):
        if question not in wanted:
            yield f"{question}: no answer is looked for"
        elif question not in map_:
            yield f"{question}: not on the map"
        else:
            for name in set(map_[question]) ^ set(wanted[question]):
                yield f"{question}: {name} is named by one alone of page and check"
            for name in set(map_[question]) & set(wanted[question]):
                for of_name in texts(root, name):
                    if not any(re.search(wanted[question][name], text, re.MULTILINE) for text in of_name):
                        yield f"{question}: {name} has no {wanted[question][name]}"


def missing(root):
    """Names of the page that do not exist, and folders of the sources that the page leaves out."""
    page = (root / PAGE).read_text()
    ticked = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL)))
    known = "".join(f"/{path.as_posix()}\n" for path in tree.files(root))
    drawn = re.findall(r"^  (\S+/\S+) ", page, re.MULTILINE)
    for name in sorted(ticked | set(drawn)):
        if FUNCTION.fullmatch(name):
            if not any(name in path.read_text(errors="replace") for path in root.glob("[skp]*/**/*.[ch]")):
                yield f"{name} is nowhere"
        elif NAME.fullmatch(name) and ("/" in name or re.search(r"\.(c|h|cu|def|py|md)$", name)):
            pattern = re.sub(r"<family>[*]?", "*", name)
            is_there = any(f"/{name.rstrip('/')}{end}" in known for end in (["/"] if name.endswith("/") else ["\n", ".c\n", ".h\n", "/"]))
            if not is_there and not ("*" in pattern and next(root.glob(pattern), None)):
                yield f"{name} is nowhere"
    for folder in sorted({path.parent.relative_to(root).as_posix() for top in ("src/memory", "preload") for path in root.glob(f"{top}/*/*.c")}
                         | {path.parent.relative_to(root).as_posix() for path in root.glob("src/*/*.c")}):
        if f"`{folder}/`" not in page:
            yield f"{folder}/ is not among the folders"


@tap.test
def the_map_leads_to_the_right_files():
    found = list(faults(ROOT, WANTED))
    assert not found, "\n" + "\n".join(found)


@tap.test
def every_name_on_the_page_exists():
    found = list(missing(ROOT))
    assert not found, "\n" + "\n".join(found)


@tap.test
def a_missing_name_and_a_folder_without_a_row_are_found():
    page = "# A\n\n| `src/wait/` | waits |\n\n`src/wait/wait.c` has `cushim_wait`.\n\n```\n  src/wait/wait   it waits\n```\n"
    texts_ = {"src/wait/wait.c": "int cushim_wait(void);"}
    for more, n in (({}, 0), ({"src/wait/wait.c": "int other(void);"}, 1), ({"src/more/more.c": ""}, 1),
                    ({PAGE: page.replace("wait.c", "gone.c")}, 1), ({PAGE: page.replace("  src/wait/wait", "  src/wait/gone")}, 1)):
        with tree.made_of({PAGE: page, **texts_, **more}) as root:
            assert len(list(missing(root))) == n, (more, list(missing(root)))


@tap.test
def a_row_that_leads_elsewhere_is_found():
    page = "# A\n\n## Where?\n\n| where is ... | it is in |\n|---|---|\n| the wait | `src/wait.c` |\n\n## More\n"
    wanted = {"the wait": {"src/wait.c": r"\bwait\("}}
    for texts_, n in (({"src/wait.c": "int wait(void);"}, 0), ({"src/wait.c": "int other(void);"}, 1), ({"src/other.c": "int wait(void);"}, 1)):
        with tree.made_of({PAGE: page, **texts_}) as root:
            assert len(list(faults(root, wanted))) == n, texts_
            assert len(list(faults(root, {}))) == 1
            assert len(list(faults(root, {**wanted, "the end": {}}))) == n + 1


tap.run()
