"""Every exported function has a complete block, and pages name only existing functions.

    api.py ROOT
"""
import importlib.machinery
import importlib.util
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = pathlib.Path(sys.argv[1])
REFERENCES = "kernels_ref"  # the head of the file documents all of its functions
NAME = re.compile(r"\bcushim_[a-z0-9_]+\b")
CONSTANT = re.compile(r"\bCUSHIM_[A-Z0-9_]+\b")
OPTION = re.compile(r"^OPT\(\w+, *(\w+)", re.MULTILINE)
READ_PAGES = ["docs/guide/companion.md", "docs/reference/c-api.md", "docs/reference/names.md"]


def module_of(name, path):
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


pages = module_of("api_pages", ROOT / "tools/api-pages")
FIELD_INSIDE = re.compile(rf"\* .*\S\s+({pages.FIELDS})  ")
exports = module_of("exports", ROOT / "src/companion/exports.py")


def headers(root):
    return pages.headers_of(root)


def is_of_kernels(path):
    """Functions of libcushim-kernels, which do not belong to the companion."""
    return pages.OF_KERNELS in path.as_posix()


def faults_of_blocks(root):
    """Functions without a block, and blocks without the parts that every block has."""
    shown = set()
    for path in headers(root):
        if "#ifdef __cplusplus" not in path.read_text():
            continue
        for comment, code in pages.pieces(path.read_text()):
            names = pages.functions_of("\n".join(pages.statements(code)[0]))
            if not (comment and comment.startswith("/**")) or not names:
                continue
            shown.update(names)
            sentence, _, result, notes = pages.block_of(comment)
            if not sentence.strip():
                yield f"{names[0]}: no sentence"
            if not result and not code.strip().startswith(("CUSHIM_API void", "void")):
                yield f"{names[0]}: nothing about what it returns"
            if "Threads" not in dict(notes):
                yield f"{names[0]}: nothing about threads"
            if not is_of_kernels(path) and any(FIELD_INSIDE.search(line) for line in comment.splitlines()):
                yield f"{names[0]}: a field that does not begin its line"
    for name in exports.exports_of(path for path in headers(root) if path.stem != REFERENCES):
        if name not in shown:
            yield f"{name}: no block"


def words_of(root, folder, pattern):
    return {word for path in sorted((root / folder).rglob("*.[ch]")) for word in pattern.findall(path.read_text())}


def faults_of_names(root):
    """Words of pages that look like cushim's functions, types, constants or variables but do not exist."""
    known = {word for folder in (pages.HEADERS, pages.OF_KERNELS) for pattern in (NAME, CONSTANT) for word in words_of(root, folder, pattern)}
    known |= words_of(root, "src", re.compile(r'"(CUSHIM_[A-Z0-9_]+)"'))
    options = root / "src/base/options.def"
    known |= {f"CUSHIM_{name.upper()}" for name in OPTION.findall(options.read_text())} if options.exists() else set()
    for read in READ_PAGES:
        text = (root / read).read_text() if (root / read).exists() else ""
        for word in sorted(set(NAME.findall(text) + CONSTANT.findall(text))):
            if word not in known and not (word == "CUSHIM_0" or word.endswith("_")):
                yield f"{read}: {word} is nowhere"


def assert_none(faults):
    faults = list(faults)
    assert not faults, "\n" + "\n".join(faults)


@tap.test
def every_exported_function_has_a_full_block():
    assert_none(faults_of_blocks(ROOT))


@tap.test
def pages_name_only_existing_functions():
    assert_none(faults_of_names(ROOT))


@tap.test
def names_md_has_every_function():
    """Every function of the companion is in the table of names, or in its list of functions without a counterpart."""
    text = (ROOT / "docs/reference/names.md").read_text()
    companion = [path for path in headers(ROOT) if not is_of_kernels(path)]
    missing = [name for name in exports.exports_of(companion) if not re.search(rf"\b{name}\b", text)]
    assert not missing, "\n" + "\n".join(missing)


STATUS = {"src/base/status.def": 'STATUS(0, OK, NONE, "done")\n',
          "src/cuda/translate.c": "    {0, 0, CUSHIM_OK},\n    {34, 34, CUSHIM_SYSTEM},\n"}
GUARD = '/* What it is. */\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n%s\n#ifdef __cplusplus\n}\n#endif\n'
GOOD = "/**\n * Do.\n * @param n  how much\n * @return 0\n * Threads  any\n */\nCUSHIM_API int cushim_do(int n);\n"


def a_tree(header, **others):
    return tree.made_of({**STATUS, "src/include/cushim/status.h": GUARD % "", "src/include/cushim/do.h": GUARD % header,
                         **{name.replace("__", "/").replace("_md", ".md"): text for name, text in others.items()}})


@tap.test
def a_function_without_a_full_block_is_found():
    for text, fault in ((GOOD, None), (GOOD.replace("/**", "/*"), "no block"), (GOOD.replace("Threads  any", ""), "threads"),
                        (GOOD.replace("@return 0", ""), "returns"),
                        (GOOD.replace("return 0\n * ", "return 0      "), "begin its line"), (GOOD.replace("Do.", ""), "no sentence")):
        with a_tree(text) as root:
            found = list(faults_of_blocks(root))
            assert len(found) == (1 if fault else 0) and (not fault or fault in found[0]), (text, found)


@tap.test
def a_name_that_is_nowhere_is_found():
    with a_tree(GOOD, docs__guide__companion_md="`cushim_do`, `cushim_undo`, CUSHIM_API, CUSHIM_X") as root:
        assert list(faults_of_names(root)) == ["docs/guide/companion.md: CUSHIM_X is nowhere", "docs/guide/companion.md: cushim_undo is nowhere"]


@tap.test
def a_page_has_what_the_block_says_word_for_word():
    block = ("/**\n * Copy *n bytes.\n * @param n, m  out [2]; `a|b`\n * @param s\n * @return CUSHIM_OK | the driver's Threads  any\n"
             " * (also here)     Owner\n * caller\n */\nCUSHIM_API int cushim_do(int *n, int *m,\n                         int s);\n"
             "CUSHIM_API int cushim_do2(void);\n\n/* How. */\nenum cushim_how {\n    CUSHIM_HOW = 1 /* so */\n};\n")
    with a_tree(block) as root:
        text, names = pages.page(root / "src/include/cushim/do.h")
    assert names == ["cushim_do", "cushim_do2"], names
    for part in ("## cushim_do, cushim_do2\n", "Copy \\*n bytes.\n", "- `n, m`: out \\[2\\]; `a|b`\n- `s`\n",
                 "**Returns** `CUSHIM_OK` | the driver's\n", "**Threads** any (also here)  \n**Owner** caller  \n",
                 "int cushim_do(int *n, int *m,\n              int s);\nint cushim_do2(void);\n```",
                 "```c\n/* How. */\nenum cushim_how {\n    CUSHIM_HOW = 1 /* so */\n};\n```"):
        assert part in text, (part, text)


@tap.test
def a_header_of_kernels_has_a_page_and_blocks_and_twins_need_none():
    family = GUARD.replace("What it is.", "What it is:\n * - one;\n * - two.") % GOOD
    references = GUARD % "/* ---- all ---- */\n\nCUSHIM_API void cushim_do_ref(int n);\n"
    names = {"kernels/include/cushim/kernels/do.h": family, "kernels/include/cushim/kernels_ref.h": references}
    with tree.made_of({**STATUS, "src/include/cushim/status.h": GUARD % "", **names}) as root:
        pages.write(root, root / "written")
        text = (root / "written/kernels_do.md").read_text()
        assert "# cushim/kernels/do.h\n\nWhat it is:\n- one;\n- two.\n" in text, text
        assert "*all*\n\n```c\nvoid cushim_do_ref(int n);" in (root / "written/kernels_ref.md").read_text()
        assert "[kernels_do](kernels_do.md)** `cushim_do`" in (root / "written/README.md").read_text()
        assert not list(faults_of_blocks(root))
        (root / "kernels/include/cushim/kernels/do.h").write_text(family.replace("Threads  any", ""))
        assert list(faults_of_blocks(root)) == ["cushim_do: nothing about threads"]


tap.run()
