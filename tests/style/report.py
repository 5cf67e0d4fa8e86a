"""The words of the report mean the same everywhere: in src/report/words.def, the guide, the schema and its page.

    report.py ROOT
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(sys.argv[1])
WORD = re.compile(r'^WORD\((\w+), "([^"]*)", "([^"]*)"\)$', re.MULTILINE)
# Members of the schema that are words of the report.
MEMBERS = {"requests": "requests", "no_call": "no_call", "frees": "frees", "live_bytes": "live", "peak_live_bytes": "peak_live",
           "held_bytes": "held", "peak_held_bytes": "peak_held", "rounding_bytes": "rounding", "spare_bytes": "spare",
           "idle_bytes": "idle"}


COUNTER = re.compile(r'^COUNTER\((\w+), \w+, (?:SUM|GAUGE|PEAK), (?:COUNT|BYTES|NS), "([^"]*)"\)$', re.MULTILINE)


def faults(words, guide, schema):
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", guide, re.MULTILINE)
    meanings = {name: meaning for name, _, meaning in words}
    wanted = [(text, meaning) for _, text, meaning in words]
    if [row for row in rows if row[0] != "word"] != wanted:
        yield "the guide has other words"
    members = schema["$defs"]["kind"]["properties"]
    for member, name in MEMBERS.items():
        if members[member]["description"] != meanings[name]:
            yield f"{member} means something else in the schema"


@tap.test
def words_mean_the_same_everywhere():
    words = WORD.findall((ROOT / "src/report/words.def").read_text())
    assert len(words) == (ROOT / "src/report/words.def").read_text().count("\nWORD(")
    found = list(faults(words, (ROOT / "docs/guide/reading-the-report.md").read_text(),
                        json.loads((ROOT / "docs/schema/report-1.json").read_text())))
    assert not found, "\n".join(found)


@tap.test
def counters_mean_the_same_in_the_schema():
    text = (ROOT / "src/report/report.def").read_text()
    rows = COUNTER.findall(text)
    members = json.loads((ROOT / "docs/schema/report-1.json").read_text())["$defs"]["kind"]["properties"]
    assert len(rows) == text.count("\nCOUNTER(") > 20
    assert [(name, members[name]["description"]) for name, _ in rows] == rows


def written(root):
    with tempfile.NamedTemporaryFile("r", prefix="cushim-report-page-") as page:
        subprocess.run([sys.executable, "-B", root / "tools/report-page", page.name], check=True, stderr=subprocess.PIPE, text=True)
        return page.read()


@tap.test
def the_page_of_the_json_matches_the_schemas():
    assert (ROOT / "docs/reference/report.md").read_text() == written(ROOT), "write it again: tools/report-page"


@tap.test
def a_member_without_a_description_is_found():
    with tempfile.TemporaryDirectory(prefix="cushim-report-page-") as folder:
        root = pathlib.Path(folder)
        shutil.copytree(ROOT / "docs/schema", root / "docs/schema")
        (root / "tools").mkdir()
        shutil.copy(ROOT / "tools/report-page", root / "tools")
        written(root)
        schema = root / "docs/schema/report-1.json"
        text = schema.read_text()
        schema.write_text(text.replace('"description": "number of the process"', '"minimum": 0', 1))
        assert schema.read_text() != text
        try:
            written(root)
        except subprocess.CalledProcessError as error:
            assert "pid: no description" in error.stderr
        else:
            assert False, "it was not found"


@tap.test
def another_meaning_is_found():
    words = [(name, name, "right") for name in MEMBERS.values()]
    guide = "\n".join(f"| {name} | right |" for name in MEMBERS.values())
    schema = {"$defs": {"kind": {"properties": {member: {"description": "right"} for member in MEMBERS}}}}
    assert not list(faults(words, guide, schema))
    assert list(faults(words, guide.replace("| live | right", "| live | wrong"), schema)) == ["the guide has other words"]
    schema["$defs"]["kind"]["properties"]["idle_bytes"]["description"] = "wrong"
    assert list(faults(words, guide, schema)) == ["idle_bytes means something else in the schema"]


tap.run()
