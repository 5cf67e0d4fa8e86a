"""Tables of docs/results and kernels/results match their data files.

    results.py ROOT
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("results", str(ROOT / "tools/results"))
results = importlib.util.module_from_spec(importlib.util.spec_from_loader("results", loader))
loader.exec_module(results)

HEAD = "<!-- table data.jsonl | cases: pair/ | variants: native, cushim exact -->\n"
DATA = [{"case": "pair/4K", "variant": "native", "p50_ns": 61077}, {"case": "other/4K", "variant": "native", "p50_ns": 1},
        {"case": "pair/4K", "variant": "cushim exact", "p50_ns": 1002.5, "held_by_live": 1.3}]


@tap.test
def tables_match_their_data():
    n_tables = 0
    for page in results.pages(ROOT):
        text = page.read_text()
        n_tables += len(results.TABLE.findall(text))
        assert len(results.TABLE.findall(text)) == len(results.MARKER.findall(text)), f"{page.name}: a marker that tools/results does not read"
        assert results.page_with_tables(text, page.parent) == text, f"{page.name}: run tools/results"
    assert n_tables >= 4, n_tables


@tap.test
def a_table_that_does_not_match_is_found():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA))
        right = (HEAD + "| case | native | exact |\n|---|---:|---:|\n| pair/4K | 61.1 us | 1.00 us (61x), held 1.30 |\n\nProse.\n")
        assert results.page_with_tables(right, pathlib.Path(folder)) == right
        assert results.page_with_tables(right.replace("61.1", "61.2"), pathlib.Path(folder)) == right
        assert results.page_with_tables(HEAD + "\nProse.\n", pathlib.Path(folder)) == right


@tap.test
def a_marker_may_be_wrapped_wherever_it_has_a_space():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA))
        words = HEAD.split(" ")
        for n in range(1, len(words)):
            head = " ".join(words[:n]) + "\n     " + " ".join(words[n:])
            right = head + "| case | native | exact |\n|---|---:|---:|\n| pair/4K | 61.1 us | 1.00 us (61x), held 1.30 |\n"
            assert results.page_with_tables(head, pathlib.Path(folder)) == right, head


@tap.test
def a_table_of_ratios_has_their_intervals():
    rows = [{"case": "step", "variant": "native", "p50_ns": 9000},
            {"case": "step", "variant": "cushim exact", "p50_ns": 1, "time_by_native": 1.0006, "time_by_native_low": 0.99,
             "time_by_native_high": 1.0104}]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        head = "<!-- ratios data.jsonl | cases: st | variants: native, cushim exact -->\n"
        right = head + "| case | native | exact |\n|---|---:|---:|\n| step | 9.00 us | 1.001 (0.990 to 1.010) |\n"
        assert results.page_with_tables(head, pathlib.Path(folder)) == right


@tap.test
def a_table_of_counts_has_their_sum():
    rows = [{"case": "a", "made": 1, "caught": 1}, {"case": "b", "made": 4, "caught": 4}, {"case": "other", "made": 1, "caught": 1},
            {"case": "a", "made": 2, "caught": 1}]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        head = "<!-- counts data.jsonl | cases: a, b | variants: made, caught -->\n"
        right = head + "| case | made | caught |\n|---|---:|---:|\n| a | 3 | 2 |\n| b | 4 | 4 |\n| all | 7 | 6 |\n"
        assert results.page_with_tables(head, pathlib.Path(folder)) == right


@tap.test
def a_table_of_records_has_those_with_all_fields():
    rows = [{"case": "a", "what": "x", "why": "a race"}, {"case": "a", "what": "y"}, {"case": "b", "what": "z", "why": "equal"}]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        head = "<!-- rows data.jsonl | cases: a, b | variants: what, why -->\n"
        right = head + "| case | what | why |\n|---|---|---|\n| a | x | a race |\n| b | z | equal |\n"
        assert results.page_with_tables(head, pathlib.Path(folder)) == right


tap.run()
