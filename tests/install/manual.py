"""Man pages are clean and complete, links of installed pages lead to others, and completions work in their shells.

    manual.py FOLDER CUSHIM PAGES
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[2] / "tools/manual")]
import tap

sys.dont_write_bytecode = True
import pages

FOLDER, CUSHIM, PAGES = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
HOME = tempfile.TemporaryDirectory(prefix="cushim-manual-")  # shells write to it
# The typed text, and its completion.
CASES = {"cushim ru": "run", "cushim help opt": "help options", "cushim run --free=re": "run --free=relaxed",
         "cushim run --copy-stage-m": "run --copy-stage-min=", "cushim run --buckets=f": "run --buckets=fine",
         "cushim doctor --js": "doctor --json", "cushim stat --cl": "stat --clean", "cushim record --free=re": "record --free=relaxed", "cushim report --fo": "report --format=",
         "cushim report --format=per": "report --format=perfetto", "cushim report --format pe": "report --format perfetto", "cushim report --by=th": "report --by=thread",
         "cushim run --free re": "run --free relaxed", "cushim record --stacks=na": "record --stacks=native", "cushim record --buck": "record --buckets=",
         "cushim sim --kernels=sk": "sim --kernels=skip", "cushim replay --lea": "replay --least-limit", "cushim doctor --no": "doctor --no-run", "cushim record --tra": "record --trace-max=", "cushim report --format=tr": "report --format=trace-text", "cushim stat --by=si": "stat --by=site",
         "cushim stat --si": "stat --sites", "cushim stat --wat": "stat --watch", "cushim record -o out basena": "record -o out basename", "cushim run basena": "run basename"}


def need(shell):
    if not shutil.which(shell):
        tap.skip(f"no {shell}")


def run(*command):
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True, env={**os.environ, "HOME": HOME.name})
    assert done.returncode == 0, done
    return done.stdout


@tap.test
def man_pages_lint_clean():
    need("mandoc")
    for page in sorted(FOLDER.glob("*.[1378]")):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], text=True, capture_output=True)
        said = [line for line in done.stdout.splitlines() if "missing date" not in line]  # the same bytes on any day
        assert not said, said


@tap.test
def every_page_of_help_is_a_man_page_and_every_option_is_in_it():
    names = {page.name.rsplit(".")[0] for page in FOLDER.glob("*.[1378]")}
    assert names == {"cushim", "libcushim-preload", "libcushim"} | {f"cushim-{topic}" for topic in pages.topics(CUSHIM)} | {"cushim-help"}, f"tools/manual/meson.build has {names}"
    options = pages.options(CUSHIM)
    told = set(re.findall(r"^OPT\(\w+, *(\w+)", pathlib.Path(__file__).resolve().parents[2].joinpath("src/base/options.def").read_text(),
                          re.MULTILINE))
    assert {name.replace("-", "_") for name, *_ in options} == told
    for page, column in (("cushim-run.1", 0), ("cushim-options.7", 0), ("libcushim-preload.8", 3)):
        text = (FOLDER / page).read_text().replace("\\-", "-")
        shown = dict(re.findall(r"^\\fB(?:--)?([\w-]+)\[?=(.*?)\]?\\fR$", text, re.MULTILINE))
        assert shown == {row[column]: row[6] for row in options}, page
        assert list(shown)[0] in ("stats", "CUSHIM_STATS"), f"{page}: the everyday options come first"


@tap.test
def each_exit_status_has_a_line():
    n_pages = 0
    for page in FOLDER.glob("cushim-*.1"):
        _, is_there, text = page.read_text().partition(".SH EXIT STATUS\n")
        shown = re.sub(r"^\.nf\n.*?^\.fi$", "", text.partition("\n.SH")[0], flags=re.MULTILINE | re.DOTALL)  # without what is shown line by line
        n_pages += bool(is_there)
        assert not re.search(r"^\d", shown, re.MULTILINE), (page, shown)
    assert n_pages > 10


@tap.test
def every_function_and_status_is_on_the_page_of_the_library():
    text = re.sub(r"\\f[BR]", "", (FOLDER / "libcushim.3").read_text()).replace("\\-", "-")
    root = pathlib.Path(__file__).resolve().parents[2]
    names = set()
    for header in sorted((root / "src/include/cushim").glob("*.h")):
        names |= set(re.findall(r"^CUSHIM_API\b[^;]*?\b(cushim_\w+)\(", header.read_text(), re.MULTILINE))
    names |= {f"CUSHIM_{word}" for word in re.findall(r"^STATUS\(-?\d+, (\w+)", (root / "src/base/status.def").read_text(), re.MULTILINE)}
    assert len(names) > 200 and not [name for name in names if not re.search(rf"\b{name}\b", text)]


@tap.test
def links_of_installed_pages_lead_to_installed_files():
    links = [(page, target) for page in PAGES.rglob("*.md")
             for target in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)) if "://" not in target]
    assert len(links) > 200 and (PAGES / "README.md").is_file() and not [link for link in links if not (link[0].parent / link[1]).exists()], links


@tap.test
def bash_completes():
    need("bash")
    for typed, wanted in CASES.items():
        words = re.findall(r"=|[^\s=]+", typed)  # split as by readline
        script = 'compopt() { :; }; . "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cushim; printf "%s\\n" "${COMPREPLY[@]}"'
        given = list(dict.fromkeys(run("bash", "-c", script, "bash", FOLDER / "cushim", *words).split()))  # as readline drops doubles
        assert given == [re.findall(r"\S+", wanted)[-1].split("=")[-1] if "=" in words else wanted.split()[-1]], (typed, given)


@tap.test
def fish_completes():
    need("fish")
    for typed, wanted in CASES.items():
        given = run("fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", FOLDER / "cushim.fish", typed)
        given = [line.split("\t")[0] for line in given.splitlines()]
        assert [word.rstrip("=") for word in given] == [wanted.split()[-1].rstrip("=")], (typed, given)


def read_until(terminal, wanted):
    """Reads the output of a shell up to this text, however slow the machine is."""
    said = b""
    while wanted not in said:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, said
        said += os.read(terminal, 4096)
    return said


@tap.test
def zsh_completes():
    need("zsh")
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": HOME.name})
    setup = f"fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -D -u; cushim() {{ print -r -- \"GOT\"\"<$*>\" }}; print READ''Y\n"
    os.write(terminal, setup.encode())
    read_until(terminal, b"READY")
    for typed, wanted in CASES.items():
        os.write(terminal, typed.encode() + b"\t\n")
        said = read_until(terminal, b">\r\n")
        given = re.search(rb"GOT<(.*?)>", said).group(1).decode().strip()
        assert given.rstrip("=") == wanted.rstrip("="), (typed, given)
    os.write(terminal, b"exit\n")
    os.close(terminal)
    os.waitpid(process, 0)


tap.run()
