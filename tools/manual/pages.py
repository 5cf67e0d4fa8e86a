"""What `cushim help` says, taken apart: the one source of man pages and completions."""
import re
import subprocess

OPTION = re.compile(r"^    --([a-z-]+)(\[?)=([^\s\]]+)\]?    (\w+), default (.*)$")


def page(command, topic):
    """{heading: text} of one page, as it stands."""
    text = subprocess.run([command, "help", topic], text=True, capture_output=True, check=True).stdout
    parts = re.split(r"^([A-Z][A-Z ]+)$\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def commands(command):
    """{name: what it does}."""
    rows = re.findall(r"^    ([a-z]+)  +(\S.*)$", page(command, "cushim")["COMMANDS"], re.MULTILINE)
    assert rows, "no commands"
    return dict(rows)


def topics(command):
    """The pages that `cushim help` shows."""
    return [name for name in commands(command) if name != "help"] + ["options"]


def flags(command, topic):
    """The flags of a command that has a few."""
    return list(dict.fromkeys(re.findall(r"--[a-z]+(?:-[a-z]+)*", page(command, topic)["SYNOPSIS"])))


def options(command):
    """(name, its words or None, needs a value, variable, default, sentence) of each option of `cushim run`."""
    lines = page(command, "options")["DESCRIPTION"].splitlines()
    found = []
    for line, sentence in zip(lines, lines[1:]):
        row = OPTION.match(line)
        if row:
            name, bracket, values, variable, preset = row.groups()
            words = values.split("|") if re.fullmatch(r"[a-z0-9|]+", values) else None
            found.append((name, words, not bracket, variable, preset, sentence.strip()))
    assert found, "no options"
    return found
