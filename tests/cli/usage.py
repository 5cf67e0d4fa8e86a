"""What people type that is wrong: each gets one line that helps; and what they type in other spellings.

    usage.py CUSHIM PRELOAD SIM_FOLDER CC...
"""
import os
import re
import shutil
import subprocess
import sys

from fixture import CUSHIM, SIM, scratch, tap

HERE = scratch / "usage"
HERE.mkdir()
for name, text in {"leaky.c": "int main(void) { return 0; }", "train.py": "print(1)", "report.json": "{}", "stats.json": '{"schema": "cushim-report/1"}', "notes.txt": "text"}.items():
    (HERE / name).write_text(text)
for name, text in {"fails": "#!/bin/sh\nexit 3\n", "script": "#!/nowhere/sh\n", "prints": "#!/bin/sh\necho $CUSHIM_LIMIT $CUSHIM_FREE $CUSHIM_SIM_DEVICES $1\n"}.items():
    (HERE / name).write_text(text)
    (HERE / name).chmod(0o755)
(HERE / "folder").mkdir()
ENVIRONMENT = {"PATH": os.environ["PATH"], "CUSHIM_LIVE_DIR": str(scratch / "live"), "XDG_CACHE_HOME": str(scratch / "cache"), "LD_LIBRARY_PATH": str(SIM)}

# The words, the exit code, and what the one line on standard error has.
WRONG = [
    ("rnu ./fails", 2, "did you mean `run`?"), ("./fails", 2, "did you mean `cushim run ./fails`?"), ("ls -l", 2, "did you mean `cushim run ls`?"),
    ("--stats ./fails", 2, "did you mean `cushim run --stats`?"), ("--limit=1G ./fails", 2, "did you mean `cushim run --limit=1G`?"), ("-v", 2, "no command `-v`; try"), ("--versoin", 2, "did you mean `--version`?"), ("version x", 2, "takes nothing else"),
    ("help nothing", 2, "no page `nothing`"), ("help reprot", 2, "did you mean `report`?"), ("help run stat", 2, "one page at a time"),
    ("run", 2, "run needs a program"), ("run --", 2, "run needs a program"), ("run --stats", 2, "run needs a program"), ("run -x ./fails", 2, "no option -x"),
    ("run --limit", 2, "--limit needs a value"), ("run --limit -- ./fails", 2, "--limit needs a value"), ("run --limit ./fails", 2, "--limit=./fails is not a size"),
    ("run --limit=lots ./fails", 2, "such as 512M or 1.5G"), ("run --limit 8X ./fails", 2, "--limit=8X is not a size"), ("run --limit=-1 ./fails", 2, "not a size"),
    ("run --limit=200% ./fails", 2, "more than 100%"), ("run --keep=50%% ./fails", 2, "not a share such as 50%"), ("run --limit= ./fails", 2, "--limit= is not a size"),
    ("run --free=fast ./fails", 2, "exact|relaxed"), ("run --free fast ./fails", 2, "exact|relaxed"), ("run --free", 2, "--free needs a value"),
    ("run --stat ./fails", 2, "did you mean --stats?"), ("run --cehck ./fails", 2, "did you mean --check?"), ("run --=x ./fails", 2, "no option --"),
    ("run --stats foo.json ./fails", 127, "did you mean --stats=foo.json?"), ("run --stats report.json ./fails", 127, "did you mean --stats=report.json?"),
    ("run --check full ./fails", 127, "did you mean --check=full?"), ("run --sites 64K ./fails", 127, "did you mean --sites=64K?"), ("run --pool off ./fails", 127, "did you mean --pool=off?"),
    ("run ./leaky.c", 126, "it is source code"), ("run leaky.c", 127, "it is source code"), ("run ./train.py", 126, "did you mean python3 ./train.py?"),
    ("run train.py", 127, "did you mean python3 train.py?"), ("run fails", 127, "did you mean ./fails?"), ("run folder", 127, "it is a folder"), ("run ./folder", 126, "it is a folder"),
    ("run ./notes.txt", 126, "chmod +x ./notes.txt"), ("run ./script", 127, "the interpreter that it names is missing"), ("run ./missing", 127, "./missing: No such file"),
    (["run", "./fails 5"], 127, "did you mean ./fails 5, without quotes?"), (["record", "python3 train.py"], 127, "did you mean python3 train.py, without quotes?"),
    ("sim run ./fails", 127, "did you mean cushim run?"), ("record sim ./fails", 127, "did you mean cushim sim?"), ("run record ./fails", 127, "did you mean cushim record?"),
    ("run OMP_NUM_THREADS=1 ./fails", 127, "did you mean OMP_NUM_THREADS=1 cushim ...?"),
    ("run --stats=/nowhere/x.json ./fails", 125, "no report can be made"), ("run --stacks=all ./fails", 2, "none|native|auto"), ("run --log=loud ./fails", 2, "off|error|warn"),
    ("run --copy-threads=100 ./fails", 2, "too large: 63 is the most"), ("run --trace-max=1 ./fails", 2, "too small: 64K is the least"),
    ("run --copy-threads=-1 ./fails", 2, "-1 is not a whole number"), ("run --copy-threads= ./fails", 2, "is not a whole number"), ("run --version", 2, "no option --version"), ("run --trace=rel ./fails", 2, "--trace=rel does not have the form: /FOLDER"), ("run --arena-reset=nvtx: ./fails", 2, "does not have the form: nvtx:NAME"),
    ("record", 2, "record needs a program"), ("record -o", 2, "-o needs a value"), ("record -o x", 2, "record needs a program"), ("record --trace-max=much ./fails", 2, "not a size"),
    ("record --stacks ./fails", 2, "none|native|auto"), ("record --stacks=on ./fails", 2, "none|native|auto"), ("record -o /nowhere/x ./fails", 125, "No such file"),
    ("record -o notes.txt ./fails", 125, "notes.txt is a file, and a recording is a folder"),
    ("record ./leaky.c", 126, "it is source code"), ("record --trace=/tmp/a ./fails", 2, "-o names the folder"), ("record --trace /tmp/a ./fails", 2, "-o names the folder"), ("record --format=json ./fails", 2, "no option --format"),
    ("report", 2, "report needs a recording, which `cushim record` makes"), ("report train.py b", 1, "b: No such file"), ("report missing", 1, "missing: No such file"),
    ("report folder", 1, "folder: no recording; `cushim record` makes one"), ("merge folder", 1, "folder has no report"), ("report notes.txt", 1, "notes.txt: no recording; `cushim record` makes one"), ("report report.json", 1, "report.json: no recording; "), ("report stats.json", 1, "`cushim merge` and `cushim diff` read"), ("report --format", 2, "--format needs a value"),
    ("report --format=svg a", 2, "not one of text, json, html"), ("report --format svg a", 2, "not one of text, json, html"), ("report --by=line a", 2, "not one of site, size"),
    ("report --at=later a", 2, "peak, end or a time"), ("report --html a", 2, "no option `--html`"), ("report --format=json --at=peak a", 2, "for text only"), ("report --redcat a", 2, "did you mean `--redact`?"),
    ("report --redact --format=json a", 2, "--redact is for the page only"), ("report --redact --at=peak a", 2, "--redact is for the page only"), ("report --redact -o a.json a", 2, "--redact is for the page only"),
    ("replay", 2, "replay needs one recording"), ("replay a b", 2, "not also `b`"), ("replay notes.txt", 1, "notes.txt: no recording; `cushim record` makes one"), ("replay --with=fast a", 2, "native, exact, relaxed"),
    ("replay --with=exact+keep=x a", 2, "`keep=x` is not a size"), ("replay --with=exact+buckets=x a", 2, "it can be: fine|pow2|exact"), ("replay --limit=1G a", 2, "no option `--limit`"),
    ("stat 99999999", 1, "`cushim run` starts one"), ("stat a b", 2, "not also `b`"), ("stat --sites", 2, "needs a process, a program or --all"), ("stat --json --sites --all", 2, "no --json"),
    ("stat --watch=0", 2, "from 1 to 86400"), ("stat --watch=x", 2, "not a whole number"), ("stat --clean x", 2, "takes nothing else"), ("stat --all 1", 2, "takes no process"),
    ("stat --jsno", 2, "did you mean `--json`?"), ("top x", 2, "takes no name"), ("top --every=0", 2, "0.1 to 3600"), ("top --every", 2, "needs a value"), ("top --once --batch", 2, "not both"),
    ("merge", 2, "merge needs a report"), ("merge notes.txt", 1, "not a report of cushim"), ("merge report.json", 1, "not a report of cushim"), ("merge -o a -o b report.json", 2, "once"),
    ("merge missing.json", 1, "No such file"), ("diff", 2, "diff needs two runs"), ("diff report.json", 2, "diff needs two runs"), ("diff a b c", 2, "not also `c`"), ("diff notes.txt report.json", 2, "not a report"),
    ("diff --fail-if=x a b", 2, "is not a condition"), ("diff --fail-if peak_hled>5 a b", 2, "no number `peak_hled`"), ("diff --fail-if peak_held>5% a b", 2, "a share needs a sign"),
    ("metrics x", 2, "takes no name"), ("metrics --every=0", 2, "from 1 to"), ("metrics --file=/nowhere/x.prom", 125, "cannot be written"), ("metrics --json", 2, "no option `--json`"),
    ("sim", 2, "sim needs a program"), ("sim --devices=99 ./fails", 2, "0 to 16"), ("sim --devices", 2, "--devices needs a value"),
    ("sim --kernels=maybe ./fails", 2, "has no function (program, skip or fail); try"),
    ("sim --shared=rel ./fails", 2, "(an absolute path); try"), ("sim --latency-ns=x ./fails", 2, "--latency-ns=x is not possible: how long every call takes ("), ("sim --devices=99 ./fails", 2, "(0 to 16); try"), ("sim --device=2 ./fails", 2, "did you mean `devices`?"), ("sim --runtime=11 ./fails", 2, "is not one of 12, 13"), ("sim ./leaky.c", 126, "it is source code"),
    ("doctor --jsno", 2, "did you mean `--json`?"), ("doctor -x", 2, "no option `-x`"),
]


def run(words, **more):
    return subprocess.run([CUSHIM, *(words.split() if isinstance(words, str) else words)], cwd=HERE, env={**ENVIRONMENT, **more}, text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)


@tap.test
def what_is_wrong_gets_one_line_that_helps():
    assert len(WRONG) > 100
    different = []
    for words, code, part in WRONG:
        result = run(words)
        line = result.stderr
        if result.returncode != code or result.stdout or part not in line or not re.fullmatch(r"cushim: [^\n]+\n", line):
            different.append((words, code, part, result))
    assert not different, different


@tap.test
def a_recording_without_a_request_leads_to_doctor():
    assert run("record ./fails").stderr == "cushim: no recording: no process used CUDA memory that cushim can see; `cushim doctor ./fails` may say why\n"
    used = "import ctypes; cuda, n = ctypes.CDLL('libcuda.so.1'), ctypes.c_size_t(); cuda.cuInit(0), cuda.cuMemGetInfo_v2(ctypes.byref(n), ctypes.byref(n))"
    assert run(["record", "-o", "used.cushim", "python3", "-c", used]).stderr == "cushim: used.cushim: 1 process, and no request of memory; `cushim doctor python3 ...` may say why\n"


@tap.test
def a_place_that_cannot_be_written_leads_to_another():
    locked = HERE / "locked"
    locked.mkdir(mode=0o555, exist_ok=True)
    user = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    if user and (not shutil.which("setpriv") or subprocess.run([*user, "true"]).returncode):
        tap.skip("root may write everywhere")
    result = subprocess.run([*user, CUSHIM, "record", HERE / "fails"], cwd=locked, env=ENVIRONMENT, text=True, capture_output=True, timeout=60)
    assert result.returncode == 125 and result.stderr.endswith(".cushim: Permission denied; -o names another place\n"), result


@tap.test
def a_page_that_cannot_be_written_leads_to_another_place():
    used = "import ctypes; cuda, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint64(); cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0); " \
           "cuda.cuCtxSetCurrent(at); cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096))"
    assert run(["record", "-o", "read.cushim", "python3", "-c", used]).returncode == 0
    (HERE / "read.html").mkdir()  # in the place of the page
    result = run("report read.cushim")
    assert result.returncode == 125 and result.stdout, result
    assert result.stderr == "cushim: read.html cannot be written: Is a directory; -o names another place\n", result
    result = run("report -o read.html read.cushim")
    assert result.stderr == "cushim: read.html cannot be written: Is a directory\n", result


@tap.test
def a_value_may_be_the_next_word():
    for words in ("run --limit 1.5G --free relaxed ./prints a", "run --limit=1.5G --free=relaxed -- ./prints a"):
        assert run(words).stdout == "1.5G relaxed a\n", run(words)
    assert run("sim --devices 2 --memory 1GiB ./prints a").stdout == "2 a\n"
    for words in (["report", "--format", "json"], ["report", "--format=json"], ["report", "--by", "size"], ["replay"], ["replay", "--plan"]):
        assert run([*words, "missing"]).stderr == "cushim: missing: No such file or directory\n", words


@tap.test
def help_stands_behind_any_option_and_fits_in_80_columns():
    for words in ("run --help", "run --stats -h", "report --format json --help", "doctor --help", "sim -h"):
        result = run(words)
        assert result.returncode == 0 and result.stdout.startswith(f"NAME\n    cushim {words.split()[0]} - "), result
    topics = re.findall(r"^    ([a-z]+)  ", run("help").stdout, re.MULTILINE)
    assert len(topics) > 12
    for topic in [*topics, "options", "cushim"]:
        wide = [line for line in run(["help", topic]).stdout.splitlines() if len(line) > 80]
        assert not wide, (topic, wide)
    everyday = run("run --help").stdout.split("Everyday:")[1].split("Recordings")[0]
    assert re.findall(r"^    --([a-z]+)", everyday, re.MULTILINE) == ["stats", "sites", "check", "limit", "free"], everyday


@tap.test
def output_that_is_lost_is_a_mistake():
    """Also if the command wrote it before its end, or found something wrong."""
    for words, code in (("--version", 125), ("help", 125), ("top --once", 1), ("top --batch --every=0.1", 1), ("doctor --no-run ./fails", 125),
                        ("doctor --json --no-run ./fails", 125), ("doctor ./fails", 125), ("doctor --no-run ./none", 1)):
        with open("/dev/full", "w") as full:
            result = subprocess.run([CUSHIM, *words.split()], cwd=HERE, env=ENVIRONMENT, text=True, stdout=full, stderr=subprocess.PIPE, timeout=60)
        said = "cushim: standard output cannot be written: No space left on device\n"
        assert result.returncode == code and result.stderr.endswith(said) and result.stderr.count("written") == 1, (words, result)


@tap.test
def a_reader_that_leaves_is_no_mistake():
    for words in ("metrics", "help", "run --help", "report --help"):
        for ignores in False, True:
            reader, writer = os.pipe()
            os.close(reader)
            result = subprocess.run([CUSHIM, *words.split()], cwd=HERE, env=ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE, restore_signals=not ignores, timeout=60)
            os.close(writer)
            assert result.stderr == b"", (words, ignores, result)


@tap.test
def doctor_runs_a_program_with_and_without_dashes():
    for words in ("doctor ./fails -x", "doctor -- ./fails -x", "doctor --json ./fails"):
        assert "exit status 3" in run(words).stdout, words
    assert "exit status" not in run("doctor --no-run ./fails").stdout


tap.run()
