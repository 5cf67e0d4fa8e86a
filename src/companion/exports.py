"""A version script, made from the marks of headers.

    exports.py MAP HEADER...

One mark is one export, and nothing else is exported: CUSHIM_API a public function, CUSHIM_SHARED what
cushim's other libraries use, in a version of its own; CUSHIM_SHARED_ENTRY(name) is the slot of an
entry of the driver.
"""
import pathlib
import re
import sys

MARKS = {"CUSHIM_0": "CUSHIM_API", "CUSHIM_PRIVATE": "CUSHIM_SHARED"}
DECLARED = r"^(?:extern )?{}\b[^;{{]*?\b(cushim_\w+)\s*[(;]"


def exports_of(headers, mark="CUSHIM_API"):
    text = "\n".join(pathlib.Path(header).read_text() for header in headers)
    entries = re.findall(rf"^{mark}_ENTRY\((\w+)\);", text, re.MULTILINE)
    return sorted({*re.findall(DECLARED.format(mark), text, re.MULTILINE),
                   *(f"cushim_driver_{entry}" for entry in entries)})


def node(version, names):
    lines = "".join(f"    {name};\n" for name in names)
    return f"{version} {{\nglobal:\n{lines}"


if __name__ == "__main__":
    nodes = [node(version, exports_of(sys.argv[2:], mark)) for version, mark in MARKS.items()
             if exports_of(sys.argv[2:], mark)]
    pathlib.Path(sys.argv[1]).write_text("};\n".join(nodes) + "local:\n    *;\n};\n")
