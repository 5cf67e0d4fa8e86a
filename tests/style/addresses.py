"""docs/internals/interposition.md has every function of the driver that is hooked, and says of every other entry point
of cuda.h that takes or gives an address (C10) why it is not.

    addresses.py ROOT CUDA_INCLUDE CC...          the test
    addresses.py --list CUDA_INCLUDE CC...        the symbols of the header, one per line
"""
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "preload" / "resolve"))
import revisions
import tap

VERSION = 13000  # the version of the toolkit to whose header the table applies

# Types that hold an address; a type that has one of these as a member does, too.
ADDRESSES = {"CUdeviceptr", "CUdeviceptr_v1", "CUdeviceptr_v2", "CUaccessPolicyWindow"}


def preprocessed(include, cc):
    text = subprocess.run([*cc, "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_ENABLE_DEPRECATED", "-x", "c", "-"],
                          input=f'#include "{include}/cuda.h"\n', capture_output=True, text=True, check=True).stdout
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)


def has(text, names):
    return any(re.search(rf"\b{name}\b", text) for name in names)


def bodies(text):
    """(names, members) of each struct and union."""
    for found in re.finditer(r"\b(?:struct|union)\s+(\w+)?\s*\{", text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        typedef = re.match(r"\s*(\w+)\s*;", text[end:])
        yield {name for name in (found[1], typedef and typedef[1]) if name}, text[found.end():end]


def types_with_an_address(text):
    types = set(ADDRESSES)
    structs = list(bodies(text))
    aliases = re.findall(r"typedef\s+(?:struct\s+|union\s+)?(\w+)\s+(\w+)\s*;", text)
    before = 0
    while len(types) != before:
        before = len(types)
        for names, members in structs:
            if has(members, types):
                types |= names
        types |= {new for old, new in aliases if old in types}
    return types


def symbol_of(abi):
    return re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", abi)


def entry_points(include, cc):
    """{symbol: ABI names} of all functions with an address among their parameters, or a pointer to anything."""
    text = preprocessed(include, cc)
    types = types_with_an_address(text) | {"void"}
    found = collections.defaultdict(set)
    for abi, parameters in re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;{}]*?)\)\s*;", text):
        if parameters.strip() != "void" and has(parameters, types):
            found[symbol_of(abi)].add(abi)
    return found


def names_of(text, heading):
    """The names in the first column of the first table after a heading; a name may have a `*`."""
    section = text.partition(f"{heading}\n")[2].partition("\n#")[0].partition("\n|---")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.M)
    return [name for cell in cells for name in re.findall(r"\bcu[A-Z][\w*]*", re.sub(r"\(.*?\)", "", cell))]


def roles(text):
    return {abi: role for role, abi in re.findall(r"^SYM\((\w+),\s*DRV,\s*(\w+),", text, re.M)}


def old(include):
    """ABI names of the 32-bit interface, which is older than 3.2 and was replaced."""
    rows = revisions.read(include)
    newer = {row.symbol for row in rows if row.since >= 3020}
    return {row.abi for row in rows if row.since < 3020 and row.symbol in newer}


def faults(found, hooked, others, role_of, old_names):
    """found: entry points with addresses; hooked, others: the names of the page's two tables."""
    is_hooked = {symbol_of(abi) for abi, role in role_of.items() if role == "HOOK"}
    for names, due in ((hooked, is_hooked), (others, found.keys() - is_hooked)):
        for name in sorted(due):
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in names):
                yield f"{name} is in no row"
        for pattern in names:
            if not fnmatch.filter(due, pattern):
                yield f"{pattern} does not belong into its table"
    for name in sorted(found.keys() & is_hooked):
        for abi in sorted(found[name] - old_names):
            if role_of.get(abi) != "HOOK":
                yield f"{abi} is not hooked"


if sys.argv[1] == "--list":
    for name, names in sorted(entry_points(sys.argv[2], sys.argv[3:]).items()):
        print(name, *sorted(names))
    sys.exit()

ROOT, INCLUDE, CC = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


@tap.test
def every_entry_point_that_is_hooked_or_has_an_address_is_on_the_page():
    if f"#define CUDA_VERSION {VERSION}" not in (pathlib.Path(INCLUDE) / "cuda.h").read_text():
        tap.skip(f"the toolkit is not {VERSION // 1000}.{VERSION % 1000 // 10}")
    page = (ROOT / "docs/internals/interposition.md").read_text()
    wrong = list(faults(entry_points(INCLUDE, CC), names_of(page, "## C. Symbols and their treatment"),
                        names_of(page, "### Entry points with addresses"),
                        roles((ROOT / "src" / "cuda" / "symbols.def").read_text()), old(INCLUDE)))
    assert not wrong, "\n" + "\n".join(wrong)


@tap.test
def structs_in_structs_are_followed():
    text = "typedef struct a_st { struct { CUdeviceptr p; } in; } a; typedef a b; typedef struct c_st { union { b x; int y; }; } c;"
    assert {"a", "b", "c", "c_st"} <= types_with_an_address(text)
    assert "d" not in types_with_an_address(text + "typedef struct d_st { int n; } d;")


@tap.test
def a_table_that_lacks_or_invents_a_name_is_found():
    found = {"cuOne": {"cuOne", "cuOne_ptsz"}, "cuTwo": {"cuTwo", "cuTwo_v2"}, "cuThree": {"cuThree"}, "cuSix": {"cuSix"}}
    page = "## A\n| a | b |\n|---|---|\n| cuOne±, cuF* (cuTwo) | x cuNo |\n\ncuNo\n## B\n| a | b |\n|---|---|\n| cuS*, cuOne | y |\n"
    roles_ = {"cuOne": "HOOK", "cuTwo_v2": "HOOK", "cuFour": "HOOK", "cuThree": "NATIVE"}
    wrong = list(faults(found, names_of(page, "## A"), names_of(page, "## B"), roles_, {"cuTwo"}))
    assert wrong == ["cuTwo is in no row", "cuThree is in no row", "cuOne does not belong into its table", "cuOne_ptsz is not hooked"], wrong


tap.run()
