"""The ctypes layer of the Python module, written from the public headers: constants, enums, structs and prototypes.

    bindings.py OUT CUDA_H HEADER...

CUDA_H gives the enums of attributes and limits.  An opaque object is a number, as cushim/types.h says.  A struct or a function of which a part has no ctypes type is an error.
"""
import os
import pathlib
import re
import sys

PLAIN = {"int": "c_int", "unsigned": "c_uint", "float": "c_float", "size_t": "c_size_t", "ssize_t": "c_ssize_t", "cushim_devptr": "c_uint64",
         **{f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^\s*#.*?(?<!\\)$", re.MULTILINE | re.DOTALL)
STREAM = re.compile(r"^#define (CUSHIM_STREAM_\w+)\s+\(\(struct cushim_stream \*\)(\d+)\)", re.MULTILINE)
ENUM = re.compile(r"\benum (\w*) ?\{([^}]*)\}")
CUDA_ENUM = re.compile(r"\benum CU(device_attribute|function_attribute|limit)_enum (\{[^}]*\})")
STRUCT = re.compile(r"\bstruct (\w+) \{([^}]*)\}")
COUNTS = re.compile(r"_stats$|graph(exec)?_info$")  # structs of numbers, which the library fills: also tuples
CALLBACK = re.compile(r"\btypedef ([\w ]+?)\b(\w+)\(([^;]*)\);")
FUNCTION = re.compile(r"CUSHIM_API ([\w\s*]*?)\b(cushim_\w+)\(([^;]*)\);")
DECLARED = re.compile(r"^(.*?)(\w+)(?:\[(\d+)\])?$", re.DOTALL)  # type, name, length


class Headers:
    def __init__(self, texts):
        code = DIRECTIVE.sub("", COMMENT.sub("", "\n".join(texts)))
        self.streams = [pair for text in texts for pair in STREAM.findall(text)]
        self.enums = [(name, re.findall(r"(\w+)\s*=\s*(-?\w+)", body)) for name, body in ENUM.findall(code)]
        self.structs = dict(STRUCT.findall(code))
        self.callbacks = {name: (result, arguments) for result, name, arguments in CALLBACK.findall(code)}
        self.functions = FUNCTION.findall(code)

    def type_of(self, text):
        """The ctypes type of a C type; None: void."""
        text = " ".join(text.replace("*", " * ").replace("const", " ").split())
        base, stars = text.rstrip("* "), text.count("*")
        if base in self.callbacks:
            return base
        if base.startswith("enum "):
            base = "int"
        if base in ("char", "unsigned char"):
            return "c_char_p"
        if base.startswith("struct ") or base == "void":
            name = base.removeprefix("struct ")
            if stars > 1:
                return "POINTER(c_void_p)"
            if name in self.structs:
                return f"POINTER({name})" if stars else name
            return "c_void_p" if stars else None
        return f"POINTER({PLAIN[base]})" if stars else PLAIN[base]

    def types_of(self, arguments):
        """Of a list of parameters, with or without names."""
        parts = [" ".join(part.split()) for part in arguments.split(",")]
        return [self.type_of(DECLARED.match(part)[1]) for part in parts if part != "void"]

    def fields_of(self, body):
        for line in body.split(";"):
            if line.strip():
                kind, *names = [part.strip() for part in line.split(",")]
                kind, name, length = DECLARED.match(kind).groups()
                for other in [f"{name}[{length}]" if length else name, *names]:
                    _, name, length = DECLARED.match(other).groups()
                    yield name, f"{self.type_of(kind)} * {length}" if length else self.type_of(kind)


def words(name):
    """cushim_pool_stats as PoolStats."""
    return "".join(word.capitalize() for word in name.split("_")[1:])


def enum_lines(name, members):
    if not name:
        return [f"{word} = {value}" for word, value in members]
    prefix = name.upper() + "_"
    if not all(word.startswith(prefix) for word, _ in members):
        prefix = os.path.commonprefix([word for word, _ in members]).rpartition("_")[0] + "_"
    if not all(re.match("[A-Z]", word[len(prefix):]) for word, _ in members):
        sys.exit(f"bindings.py: members of {name} that are no names without {prefix}")
    kind = "enum.IntFlag" if name.endswith("_flag") else "enum.IntEnum"
    return ["", "", f"class {words(name)}({kind}):"] + [f"    {word[len(prefix):]} = {value}" for word, value in members]


def written(texts):
    headers = Headers(texts)
    lines = []
    lines += [f"{name} = {value}" for name, value in headers.streams]
    for name, members in headers.enums:
        lines += enum_lines(name, members)
    for name, body in headers.structs.items():
        fields = list(headers.fields_of(body))
        lines += ["", "", f"class {name}(Structure):", "    _fields_ = [", *(f'        ("{field}", {kind}),' for field, kind in fields), "    ]"]
        if COUNTS.search(name):
            lines += ["", "", f"class {words(name)}(NamedTuple):", *(f"    {field}: int" for field, _ in fields[1:])]  # without its size
    lines += ["", ""]
    for name, (result, arguments) in headers.callbacks.items():
        lines.append(f"{name} = CFUNCTYPE({', '.join(map(str, [headers.type_of(result), *headers.types_of(arguments)]))})")
    lines += ["", "# name: (result, arguments, it returns a status)", "FUNCTIONS: Dict[str, Tuple[Any, Any, bool]] = {"]
    for result, name, arguments in headers.functions:
        types = ", ".join(map(str, headers.types_of(arguments)))
        lines.append(f'    "{name}": ({headers.type_of(result)}, [{types}], {"enum cushim_status" in result}),')
    text = "\n".join([*lines, "}", ""])
    used = ", ".join(sorted(set(re.findall(r"\bc_\w+\b", text))))
    return f'''"""Written by bindings.py, from the headers of libcushim."""
import enum
from ctypes import CFUNCTYPE, POINTER, Structure
from ctypes import {used}
from typing import Any, Dict, NamedTuple, Tuple

{text}'''


if __name__ == "__main__":
    cuda, *headers = [pathlib.Path(path).read_text() for path in sys.argv[2:]]
    enums = [f"enum cushim_{name} {body};" for name, body in CUDA_ENUM.findall(COMMENT.sub("", cuda))]
    pathlib.Path(sys.argv[1]).write_text(written([*enums, *headers]))
