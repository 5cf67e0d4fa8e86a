"""The pages agree with src/base/options.def.

    options.py ROOT CUSHIM

docs/reference/options.md is the output of `cushim help options --markdown`; pages for users name only existing options.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT, CUSHIM = pathlib.Path(sys.argv[1]), sys.argv[2]
READ_PAGES = ["README.md", "docs/reference/compatibility.md", "docs/results/allocator.md", "docs/results/copies.md", "docs/README.md",
          *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/guide").glob("*.md")
                  if path.name != "companion.md")]  # variables of the companion only

VARIABLE = re.compile(r"\b(CUSHIM(?:_[A-Z0-9]+)*)=|`(CUSHIM_[A-Z0-9_]+)`")
RUN = re.compile(r"cushim run((?:[ ]+--[^\s`]+)+)")


def written():
    done = subprocess.run([CUSHIM, "help", "options", "--markdown"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def known(markdown):
    """The variables and the arguments of the table, as two sets."""
    rows = re.findall(r"^\| `(CUSHIM\w*)` \| `--([\w-]+)` ", markdown, re.MULTILINE)
    assert rows
    return set(re.findall(r"\bCUSHIM\w*", markdown)), {name for _, name in rows}


def faults(root, markdown):
    variables, names = known(markdown)
    for place in READ_PAGES:
        path = root / place
        text = path.read_text() if path.exists() else ""
        for match in VARIABLE.finditer(text):
            variable = match.group(1) or match.group(2)
            if variable not in variables and not variable.startswith("CUSHIM_SIM_"):
                yield f"{place}: {variable} is no option"
        for arguments in RUN.findall(text):
            for argument in arguments.split():
                name = argument[2:].split("=")[0]
                if name and name not in names and name not in ("OPTION", "help", "suspend"):
                    yield f"{place}: --{name} is no option"


@tap.test
def docs_options_is_current():
    assert (ROOT / "docs/reference/options.md").read_text() == written(), \
        "write it again: cushim help options --markdown > docs/reference/options.md"


@tap.test
def pages_name_no_unknown_option():
    found = list(faults(ROOT, written()))
    assert not found, "\n" + "\n".join(found)


@tap.test
def an_unknown_option_is_found():
    text = "`CUSHIM_NONSENSE`, CUSHIM_OTHER=1, CUSHIM=0, CUSHIM_SIM_SEED=1\n    cushim run --stats=1 --nonsense=2 -- ./app\n"
    with tree.made_of({"README.md": text}) as root:
        found = list(faults(root, written()))
        assert len(found) == 3, found


tap.run()
