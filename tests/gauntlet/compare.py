"""Compares the outcomes of a client's tests with and without the preload, as rows of a table."""
import datetime
import json
import pathlib
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
STATUS = "exit status"  # the name of the exit status among the outcomes, which does not count as a test
SHOWN = 20  # lines of standard error to show if a run differs


def known(client, mode):
    """{test: the page that documents it}"""
    rows = tomllib.loads((HERE / "known.toml").read_text())["difference"]
    return {row["test"]: row["page"] for row in rows if row["client"] == client and mode in row["modes"]}


def differing(first, second):
    return {name for name in first | second if first.get(name) != second.get(name)}


def commit():
    done = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], text=True, capture_output=True)
    return done.stdout.strip()


class Table:
    """The tests of one client on which two native runs agree, and a row for native and for each added mode."""

    def __init__(self, client, native, again):
        self.client, self.native, self.rows = client, native, []
        self.varying = differing(native.outcomes, again.outcomes)
        self.tests = native.outcomes.keys() - self.varying - {STATUS}
        self.passed = sum(native.outcomes[name] == "ok" for name in self.tests)
        self.keep("native", f"{self.passed} of {len(self.tests)} pass", native)

    def keep(self, mode, cell, run, n_differ=0):
        self.rows.append({"case": str(self.client), "mode": mode, "cell": cell, "differ": n_differ, "cpu_seconds": round(run.cpu_seconds, 1)})

    def native_text(self):
        lines = [f"{self.client} native: {self.rows[0]['cell']}, {self.native.cpu_seconds:.0f} s of CPU"]
        lines += [f"    {name}: {self.native.outcomes[name]}" for name in sorted(self.tests) if self.native.outcomes[name] != "ok"]
        lines += [f"    left out, since it varies: {name}" for name in sorted(self.varying)]
        if not self.tests or self.native.outcomes[STATUS] != "0":
            lines += [f"    exit status {self.native.outcomes[STATUS]}", *complaints(self.native)]
        return "\n".join(lines)

    def add(self, mode, run):
        """The lines about the outcomes in this mode."""
        named = known(self.client.name, mode)
        others = differing(self.native.outcomes, run.outcomes) - self.varying
        stale = named.keys() & self.tests - others
        new = others - named.keys() | stale
        n_named = len(others & named.keys())
        cell = f"{len(new)} differ" if new else f"= {len(self.tests) - n_named}"
        cell += f", {n_named} named" if n_named else ""
        self.keep(mode, cell, run, len(new))
        lines = [f"{self.client} {mode}: {cell}, {run.cpu_seconds:.0f} s of CPU"]
        for name in sorted(new):
            why = f", but {named[name]} says that it differs" if name in stale else ""
            lines.append(f"    {name}: natively {self.native.outcomes.get(name)}, here {run.outcomes.get(name)}{why}")
        return "\n".join(lines + (complaints(run) if new else []))


def complaints(run):
    return ["    | " + line for line in run.complaints.splitlines()[-SHOWN:]]


def text_of(rows):
    """The table: a line per client, a column per mode."""
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    lines = [["client", *modes]]
    for case in dict.fromkeys(row["case"] for row in rows):
        cells = {row["mode"]: row["cell"] for row in rows if row["case"] == case}
        lines.append([case, *(cells.get(mode, "") for mode in modes)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() + "\n" for line in lines)


def keep(path, rows, modes):
    """Writes the rows of a client to a data file as one record, and replaces its old record."""
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    record = {"case": rows[0]["case"], "date": datetime.date.today().isoformat(), "commit": commit()}
    record |= {mode: "not run" for mode in modes} | {row["mode"]: row["cell"] for row in rows}
    record["cpu_seconds"] = {row["mode"]: row["cpu_seconds"] for row in rows}
    records = [other for other in records if other["case"] != record["case"]] + [record]
    path.write_text("".join(json.dumps(each) + "\n" for each in sorted(records, key=lambda each: each["case"])))
