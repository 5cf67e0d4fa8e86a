"""The page as two arrays of C, before and behind its data; its policy allows this style and this script alone.

    pack.py PAGE.html PAGE.css PAGE.js FILE
"""
import base64
import hashlib
import pathlib
import sys

PAGE, STYLE, SCRIPT = (pathlib.Path(name).read_text() for name in sys.argv[1:4])


def hash_of(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def array(name, text):
    data = text.encode()
    rows = (",".join(map(str, data[i:i + 32])) for i in range(0, len(data), 32))
    return f"static const char {name}[] = {{\n" + ",\n".join(rows) + "};\n"


for text in (STYLE, SCRIPT):
    assert "</" not in text and text.isascii(), "the page would end there, or C would not take it"
whole = (PAGE.replace("@STYLE@", STYLE).replace("@SCRIPT@", SCRIPT)
         .replace("@STYLE_HASH@", hash_of(STYLE)).replace("@SCRIPT_HASH@", hash_of(SCRIPT)))
before, after = whole.split("@DATA@")
pathlib.Path(sys.argv[4]).write_text(array("html_before", before) + array("html_after", after))
