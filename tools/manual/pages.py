"""What `cushim help` says, taken apart: the one source of man pages and completions."""
import re
import subprocess

ROW = re.compile(r"^\| `(\w+)` \| `--([a-z-]+)` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


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


NO_VALUE, MAY_HAVE, NEEDS = range(3)  # whether an option has a value


def flags(command, topic):
    """{option: (its words or None, whether it has a value)} of a command that has a few: from its page."""
    text = page(command, topic)
    firsts = "\n".join(re.findall(r"^    (-\S+)", text.get("OPTIONS", ""), re.MULTILINE))
    found = {name: ([], NEEDS) for name in re.findall(r"(?<![\w-])(-[a-z]) [A-Z]", text["SYNOPSIS"])}
    for name, bracket, values in re.findall(r"(?<![\w-])(--[a-z]+(?:-[a-z]+)*)(\[?)(?:=([\w|.,-]+))?", text["SYNOPSIS"] + "\n" + firsts):
        words, value = found.get(name, ([], NO_VALUE))
        words += [word for word in values.split("|") if re.fullmatch(r"[a-z0-9-]+", word) and word not in words]
        found[name] = (words, max(value, NO_VALUE if not values else MAY_HAVE if bracket else NEEDS))
    return {name: (words or None, value) for name, (words, value) in found.items()}


def options(command):
    """(name, its words or None, needs a value, variable, default, sentence, values) of each option of `cushim run`."""
    bare = set(re.findall(r"^    --([a-z-]+)\[=", page(command, "options")["DESCRIPTION"], re.MULTILINE))
    table = subprocess.run([command, "help", "options", "--markdown"], text=True, capture_output=True, check=True).stdout
    found = []
    for variable, name, values, preset, sentence in ROW.findall(table):
        values = values.replace("\\|", "|")
        words = values.split("|") if re.fullmatch(r"[a-z0-9|]+", values) else None
        found.append((name, words, name not in bare, variable, preset, sentence.replace("\\|", "|"), values))
    assert found, "no options"
    return found


def groups(command):
    """{heading: rows of options()}, in the order of the help: the everyday ones come first."""
    rows = {row[0]: row for row in options(command)}
    parts = re.split(r"^  (\S.*):$", page(command, "options")["DESCRIPTION"], flags=re.MULTILINE)
    return {heading: [rows[name] for name in re.findall(r"^    --([a-z-]+)", text, re.MULTILINE)] for heading, text in zip(parts[1::2], parts[2::2])}
