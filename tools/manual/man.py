"""A page of the manual, from what the command says of itself.

    man.py CUSHIM TOPIC|preload|library SECTION VERSION FILE
"""
import pathlib
import re
import sys

import library
import pages

CUSHIM, TOPIC, SECTION, VERSION, FILE = sys.argv[1:6]
NAMES = {"cushim": "cushim", "preload": "libcushim-preload", "library": "libcushim"}
PRELOAD = {
    "NAME": "    libcushim-preload - pool the CUDA memory of the program that it is preloaded to\n",
    "SYNOPSIS": "    LD_PRELOAD=libcushim-preload.so PROGRAM [ARGUMENT ...]\n",
    "ENVIRONMENT": None,
}


def plain(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def paragraphs(text):
    """Filled where it is prose, as it stands where columns matter."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [line.removeprefix("    ") for line in block.splitlines()]
        as_it_stands = any(re.search(r"\S {3,}\S|^ |^\d+  ", line) for line in lines)
        yield as_it_stands, lines


def section(heading, text, keeps_lines):
    out = [f".SH {heading}"]
    for number, (as_it_stands, lines) in enumerate(paragraphs(text)):
        if number:
            out.append(".PP")
        if as_it_stands or keeps_lines:
            out += [".nf", *map(plain, lines), ".fi"]
        else:
            out += [plain(re.sub(r"  +", " ", line)) for line in lines]
    return out


def option_list(by_variable):
    for heading, rows in pages.groups(CUSHIM).items():
        yield f".SS {plain(heading)}"
        for name, _words, needs, variable, preset, sentence, values in rows:
            shown = f"{variable}={values}" if by_variable else f"--{name}={values}" if needs else f"--{name}[={values}]"
            other = f"--{name}" if by_variable else variable
            yield from (".TP", f"\\fB{plain(shown)}\\fR", plain(f"{sentence} ({other}; default {preset})"))


def body():
    return (library.body(plain) if TOPIC == "library" else body_of_help()) + see_also()


def body_of_help():
    parts = PRELOAD if TOPIC == "preload" else pages.page(CUSHIM, TOPIC)
    out = []
    for heading, text in parts.items():
        if text is None:
            out += [f".SH {heading}", *option_list(True)]
            continue
        before, rows, _ = text.partition("\n  Everyday:")
        if heading == "NAME":
            before = before.replace("cushim " + TOPIC, "cushim-" + TOPIC, 1)
        out += section(heading, before, heading in ("SYNOPSIS", "EXAMPLES"))
        if rows:
            out += option_list(False)
    return out


def see_also():
    others = {"cushim(1)", "cushim-options(7)", "libcushim-preload(8)", "libcushim(3)"} - {f"{NAMES.get(TOPIC, 'cushim-' + TOPIC)}({SECTION})"}
    if TOPIC == "cushim":
        others |= {f"cushim-{name}(1)" for name in pages.commands(CUSHIM)}
    named = sorted(plain(name).replace("(", " (") for name in others)
    return [".SH SEE ALSO"] + [f".BR {name}{',' if name != named[-1] else ''}" for name in named]


title = NAMES.get(TOPIC, "cushim-" + TOPIC).upper()
lines = ['.\\" Written from `cushim help` and the public headers.', f'.TH {plain(title)} {SECTION} "" "cushim {VERSION}" "cushim"', *body()]
pathlib.Path(FILE).write_text("\n".join(lines) + "\n")
