"""Mutations made from source text: an operator, a condition, a constant, a call."""
import pathlib
import random
import re

SUFFIXES = {".c", ".h", ".cu", ".cuh"}

# Comments, strings and lines of the preprocessor are left alone.
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
OPERATORS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+"}
OPERATOR = re.compile(r"(?<= )(?:" + "|".join(map(re.escape, sorted(OPERATORS, key=len, reverse=True))) + r")(?=[ \n])")
CONDITION = re.compile(r"\b(?:if|while) (?=\()")
CONSTANT = re.compile(r"(?<![\w.])(?:\d+(?=u?l*\b(?![.\w]))|true\b|false\b)", re.IGNORECASE)
CALL = re.compile(r"^[ \t]+(?=[A-Za-z_]\w*\()", re.MULTILINE)


def end_of_parentheses(code, start):
    """Behind the one that closes what opens at or behind `start`; None: it does not close."""
    depth = 0
    for place in range(code.index("(", start), len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return place + 1
    return None


def changes(text):
    """(start, end, what comes in its place, what that is), in the order of the text."""
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found = [(at.start(), at.end(), OPERATORS[at[0]], f"{OPERATORS[at[0]]} for {at[0]}") for at in OPERATOR.finditer(code)]
    for at in CONDITION.finditer(code):
        end = end_of_parentheses(code, at.end())
        if end:
            found.append((at.end(), end, f"(!{text[at.end():end]})", "the opposite condition"))
    for at in CONSTANT.finditer(code):
        word = at[0].lower()
        other = {"true": "false", "false": "true"}.get(word) or str(int(word) + 1) if word in ("true", "false") or word == str(int(word)) else None
        if other:
            found.append((at.start(), at.end(), other, f"{other} for {at[0]}"))
    for at in CALL.finditer(code):
        end = end_of_parentheses(code, at.end())
        before = code[:at.start()].rstrip()
        if end and code[end:end + 2] == ";\n" and before.endswith((";", "{", "}", ")", "else", ":")):
            found.append((at.end(), end, "(void)0", "no call"))
    return sorted(found)


def row_of(file, text, start, end, new, what):
    """A mutation as the lists have them: its text is as many whole lines as make it the only one."""
    first, last = text.rfind("\n", 0, start) + 1, text.index("\n", end) + 1
    line = text.count("\n", 0, start) + 1
    while text.count(text[first:last]) > 1:
        if first:
            first = text.rfind("\n", 0, first - 1) + 1
        else:
            last = text.index("\n", last) + 1
    return {"guarantee": f"{file}:{line}:{start - text.rfind(chr(10), 0, start)}: {what}", "file": str(file),
            "old": text[first:last], "new": text[first:start] + new + text[end:last]}


def generated(root, files, n, seed):
    """At most n, drawn from all that the files have; the same for the same files and seed."""
    found = []
    for file in sorted(set(map(pathlib.PurePosixPath, files))):
        text = (root / file).read_text()
        found += [row_of(file, text, *change) for change in changes(text)]
    return random.Random(seed).sample(found, min(n, len(found)))


def tests_of(file, names):
    """The tests of a source file: the one of its name, or those of its folder."""
    noun = pathlib.PurePosixPath(file).with_suffix("")
    noun = noun.relative_to("src") if noun.parts[0] == "src" else noun
    own = [name for name in names if name == str(noun)]
    return own + sorted(name for name in names if name.startswith(f"{noun.parent}/") and name not in own)
