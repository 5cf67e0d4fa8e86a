"""The table in docs/internals/interposition.md has a decision for every entry point of cuda.h that takes or gives an
address (C10).

    addresses.py ROOT CUDA_INCLUDE CC...          the test
    addresses.py --list CUDA_INCLUDE CC...        the symbols of the header, one per line
"""
import collections
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

# The first word of a decision, and whether all names of its row are hooked; None: some may be.
HOOKED = {"judged": True, "served": True, "answered": True, "native": False, "gives": None, "none": None}


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


def table(text):
    """{symbol: decision} of the table; symbols that are there twice are listed separately."""
    section = re.search(r"^### Entry points with addresses\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    decisions, twice = {}, []
    for names, decision in re.findall(r"^\| (cu.*?) \| \*\*(\w+)\*\*", section[1] if section else "", re.M):
        for name in names.split(", "):
            twice += [name] if name in decisions else []
            decisions[name] = decision
    return decisions, twice


def roles(text):
    return {abi: role for role, abi in re.findall(r"^SYM\((\w+),\s*DRV,\s*(\w+),", text, re.M)}


def old(include):
    """ABI names of the 32-bit interface, which is older than 3.2 and was replaced."""
    rows = revisions.read(include)
    newer = {row.symbol for row in rows if row.since >= 3020}
    return {row.abi for row in rows if row.since < 3020 and row.symbol in newer}


def faults(found, decisions, twice, role_of, old_names):
    for name in twice:
        yield f"{name} stands there twice"
    for name in sorted(found.keys() - decisions.keys()):
        yield f"{name} is not decided"
    for name in sorted(decisions.keys() - found.keys()):
        yield f"{name} is no such entry point"
    for name in sorted(found.keys() & decisions.keys()):
        if decisions[name] not in HOOKED:
            yield f"{name}: {decisions[name]} is no decision"
            continue
        is_due = HOOKED[decisions[name]]
        for abi in sorted(found[name] - old_names):
            if is_due is not None and (role_of.get(abi) == "HOOK") != is_due:
                yield f"{abi} is {'not ' if is_due else ''}hooked, but {decisions[name]}"


if sys.argv[1] == "--list":
    for name, names in sorted(entry_points(sys.argv[2], sys.argv[3:]).items()):
        print(name, *sorted(names))
    sys.exit()

ROOT, INCLUDE, CC = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]


@tap.test
def every_entry_point_with_an_address_has_a_decision_and_is_hooked_accordingly():
    if f"#define CUDA_VERSION {VERSION}" not in (pathlib.Path(INCLUDE) / "cuda.h").read_text():
        tap.skip(f"the toolkit is not {VERSION // 1000}.{VERSION % 1000 // 10}")
    listed, twice = table((ROOT / "docs/internals/interposition.md").read_text())
    wrong = list(faults(entry_points(INCLUDE, CC), listed, twice,
                        roles((ROOT / "src" / "cuda" / "symbols.def").read_text()), old(INCLUDE)))
    assert not wrong, "\n" + "\n".join(wrong)


@tap.test
def structs_in_structs_are_followed():
    text = "typedef struct a_st { struct { CUdeviceptr p; } in; } a; typedef a b; typedef struct c_st { union { b x; int y; }; } c;"
    assert {"a", "b", "c", "c_st"} <= types_with_an_address(text)
    assert "d" not in types_with_an_address(text + "typedef struct d_st { int n; } d;")


@tap.test
def a_table_that_lacks_invents_or_contradicts_is_found():
    found = {"cuOne": {"cuOne", "cuOne_ptsz"}, "cuTwo": {"cuTwo", "cuTwo_v2"}, "cuThree": {"cuThree"}}
    listed, twice = table("### Entry points with addresses\n| cuOne, cuTwo, cuTwo | **judged** |\n| cuFour | **native** x |\n")
    wrong = set(faults(found, listed, twice, {"cuOne": "HOOK", "cuTwo_v2": "HOOK"}, {"cuTwo"}))
    assert wrong == {"cuTwo stands there twice", "cuThree is not decided", "cuFour is no such entry point",
                     "cuOne_ptsz is not hooked, but judged"}


tap.run()
