"""The pages of `cushim help` as an array of C; a page's topic is the name of its file, without .txt.

    pack.py PAGE.txt... FILE
"""
import pathlib
import sys


def literal(line):
    return '        "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"\n'


rows = []
for path in map(pathlib.Path, sys.argv[1:-1]):
    text = path.read_text()
    assert text.isascii() and text.endswith("\n"), path
    rows.append(f'    {{"{path.name.removesuffix(".txt")}",\n' + "".join(map(literal, text.splitlines())) + "    },\n")
pathlib.Path(sys.argv[-1]).write_text("static const struct { const char *topic, *text; } help_pages[] = {\n" + "".join(rows) + "};\n")
