"""The version script of the companion library, made from the CUSHIM_API marks of its public headers.

    exports.py MAP HEADER...

One function is one mark; nothing else is exported.
"""
import pathlib
import re
import sys

MARK = re.compile(r"^CUSHIM_API\b[^;{]*?\b(cushim_\w+)\s*\(", re.MULTILINE)


def exports_of(headers):
    return sorted({name for header in headers for name in MARK.findall(pathlib.Path(header).read_text())})


if __name__ == "__main__":
    names = exports_of(sys.argv[2:])
    lines = "".join(f"    {name};\n" for name in names)
    pathlib.Path(sys.argv[1]).write_text(f"CUSHIM_0 {{\nglobal:\n{lines}local:\n    *;\n}};\n")
