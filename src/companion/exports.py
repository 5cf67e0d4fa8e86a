"""A version script, made from the marks of headers.

    exports.py MAP HEADER...

One mark is one export, and nothing else is exported: CUSHIM_API a public function, CUSHIM_SHARED what
cushim's other libraries use, in a version of its own.
"""
import pathlib
import re
import sys

MARKS = {"CUSHIM_0": "CUSHIM_API", "CUSHIM_PRIVATE": "CUSHIM_SHARED"}
DECLARED = r"^(?:extern )?{}\b[^;{{]*?\b(cushim_\w+)\s*[(;]"


def exports_of(headers, mark="CUSHIM_API"):
    pattern = re.compile(DECLARED.format(mark), re.MULTILINE)
    return sorted({name for header in headers for name in pattern.findall(pathlib.Path(header).read_text())})


def node(version, names):
    lines = "".join(f"    {name};\n" for name in names)
    return f"{version} {{\nglobal:\n{lines}"


if __name__ == "__main__":
    nodes = [node(version, exports_of(sys.argv[2:], mark)) for version, mark in MARKS.items()
             if exports_of(sys.argv[2:], mark)]
    pathlib.Path(sys.argv[1]).write_text("};\n".join(nodes) + "local:\n    *;\n};\n")
