"""Live pages of other containers and users, of folders that are refused, and how much memory they take.

    live_pages.py CUSHIM PRELOAD SIM_FOLDER LIVE CC...

LIVE is live.c.
"""
import collections
import ctypes
import os
import pwd
import re
import signal
import subprocess
import sys

LIVE = sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, scratch, tap  # noqa: E402
from live_fixture import HEAD, environment, folder, pages, run, started, stat  # noqa: E402

APART = ["unshare", "-rpf", "--kill-child", "--mount-proc"]


def needs_namespaces():
    if subprocess.run([*APART, "true"], capture_output=True).returncode:
        tap.skip("no PID namespace can be made here")


def apart(*words):
    """In a PID namespace of its own, as in a container, where it is process 1."""
    process = subprocess.Popen([*APART, *map(str, words)], env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def end(*processes):
    for process in processes:
        process.kill()
        process.communicate()


@tap.test
def who_runs_is_seen_from_another_pid_namespace_and_keeps_its_page():
    needs_namespaces()
    process = started(LIVE, "pause")
    os.utime(pages()[0], (0, 0))
    look = f"{CUSHIM} stat; {CUSHIM} stat --clean; {CUSHIM} run {LIVE} exit"
    done = subprocess.run([*APART, "sh", "-c", look], env=environment(), text=True, capture_output=True, timeout=120)
    assert re.search(rf"^ *{process.pid}  live .*  runs$", done.stdout, re.MULTILINE), done
    assert "0 pages of ended processes removed" in done.stderr and len(pages()) == 1, done
    end(process)
    assert "  ended\n" in stat().stdout
    stat("--clean")


@tap.test
def who_was_killed_in_a_namespace_has_ended_whoever_has_its_number():
    needs_namespaces()
    process = apart(CUSHIM, "run", LIVE, "pause")
    assert re.search(r"^ *1  live .*  runs$", stat().stdout, re.MULTILINE), stat()
    end(process)
    assert re.search(r"^ *1  live .*  ended$", stat().stdout, re.MULTILINE), stat()
    assert "1 page of" in stat("--clean").stderr and not pages()


@tap.test
def equal_numbers_in_two_namespaces_are_two_series():
    needs_namespaces()
    processes = [apart(CUSHIM, "run", LIVE, "pause") for _ in range(2)]
    text = subprocess.run([CUSHIM, "metrics"], env=environment(), text=True, capture_output=True).stdout
    end(*processes)
    stat("--clean")
    series = collections.Counter(line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#"))
    assert set(series.values()) == {1} and sum(name.startswith("cushim_up{") for name in series) == 2, text
    assert all('pid="1"' in name and 'host="' in name and 'namespace="' in name and 'user="' in name for name in series), text
    assert all('uuid="GPU-' in name for name in series if 'device="' in name), text


@tap.test
def a_second_page_of_a_process_is_no_second_series():
    process = started(LIVE, "pause")
    page, = pages()
    code = ("import fcntl, struct, sys; file = open(sys.argv[1], 'r+b'); "
            "fcntl.fcntl(file, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)); print('ready', flush=True); sys.stdin.read()")
    made_up = folder / "7-7.page"
    made_up.write_bytes(page.read_bytes())
    holder = subprocess.Popen([sys.executable, "-c", code, str(made_up)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "ready\n"
    assert stat().stdout.count("  runs\n") == 2, stat()
    text = subprocess.run([CUSHIM, "metrics"], env=environment(), text=True, capture_output=True).stdout
    end(holder, process)
    stat("--clean")
    assert text.count("\ncushim_up{") == 1, text


def cut(path):
    """As a shell of its user would, who is not root."""
    drop_override = lambda: ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE: with exec root is as others
    result = subprocess.run(["sh", "-c", ': > "$1"', "sh", str(path)], preexec_fn=drop_override, text=True, capture_output=True)
    assert result.returncode, f"{path} was cut"


@tap.test
def neither_a_page_nor_a_recording_can_be_cut_under_its_program():
    recording = scratch / "cut"
    process = started(LIVE, "pause", CUSHIM_TRACE=str(recording))
    page, = pages()
    file, = recording.iterdir()
    before = file.stat().st_size, page.stat().st_size
    cut(page)
    cut(file)
    assert (file.stat().st_size, page.stat().st_size) == before
    end(process)
    stat("--clean")


@tap.test
def who_closes_all_descriptors_goes_on_and_a_child_does_not_stand_for_its_parent():
    process = started(LIVE, "closed")
    assert "  runs\n" in stat().stdout
    end(process)
    process = subprocess.Popen([CUSHIM, "run", LIVE, "leave_child"], env=environment(), text=True, stdout=subprocess.PIPE)
    child = int(process.stdout.readline())
    process.wait()
    seen = stat()
    os.kill(child, signal.SIGKILL)
    process.stdout.close()
    assert "  runs\n" not in seen.stdout and seen.stdout.count("  ended\n") == 2, seen
    stat("--clean")


@tap.test
def a_child_keeps_what_its_parent_mapped():
    result = run(LIVE, "fork_in_holes")
    assert result.returncode == 4, result
    stat("--clean")


@tap.test
def a_page_takes_64_KiB_at_most_where_little_is_used():
    process = started("--sites", LIVE, "pause")
    page, = pages()
    assert page.stat().st_blocks * 512 <= 64 << 10 < page.stat().st_size, page.stat()
    end(process)
    stat("--clean")


@tap.test
def pages_of_ended_processes_take_16_MiB_at_most():
    folder.mkdir(mode=0o700, exist_ok=True)
    for i in range(40):
        page = folder / f"{2 ** 22 + i}-{i}.page"
        page.write_bytes(b"x" * (1 << 20))
        os.utime(page, ns=(page.stat().st_mtime_ns - (100 - i) * 10 ** 9,) * 2)
    run(LIVE, "exit")
    left = pages()
    assert sum(page.stat().st_blocks * 512 for page in left) <= 16 << 20 and left[-1].name == f"{2 ** 22 + 39}-39.page", left
    stat("--clean")


@tap.test
def a_refused_folder_is_told_before_the_start():
    refused, link, file = scratch / "refused", scratch / "a_link", scratch / "a_file"
    refused.mkdir(mode=0o700)
    refused.chmod(0o755)
    link.symlink_to(refused)
    file.write_text("")
    for path, why in ((refused, "has mode 0755; it must have 0700, or 0750"), (link, "is a link"), (file, "is no folder"),
                      (scratch / "no" / "where", ": No such file or directory")):
        result = run(LIVE, "exit", CUSHIM_LIVE_DIR=str(path))
        assert result.returncode == 4 and re.fullmatch(rf"cushim: no live page of {LIVE}: {path}:? ?{why}\n", result.stderr), result
        result = run("--stats", LIVE, "signal6", CUSHIM_LIVE_DIR=str(path))
        assert result.returncode == -6 and "before it used" not in result.stderr and "without a report" in result.stderr, result
        assert run(LIVE, "exit", CUSHIM_LIVE_DIR=str(path), CUSHIM_LIVE="0").stderr == ""
        for words in ("stat",), ("top", "--once"):
            result = subprocess.run([CUSHIM, *words], env=environment(CUSHIM_LIVE_DIR=str(path)), text=True, capture_output=True)
            assert result.returncode == 1 and f"no process has a live page in {path}; " in result.stderr, result
    refused.chmod(0o750)
    assert run(LIVE, "exit", CUSHIM_LIVE_DIR=str(refused)).stderr == ""


@tap.test
def a_full_file_system_is_told_before_the_start():
    full = scratch / "full"
    full.mkdir()
    command = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=16k,mode=700 x "$0" && exec "$@"', str(full)]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        tap.skip("no file system can be mounted here")
    result = subprocess.run([*command, CUSHIM, "run", "--stats", LIVE, "signal6"], env=environment(CUSHIM_LIVE_DIR=str(full)),
                            text=True, capture_output=True, timeout=120)
    assert result.stderr.startswith(f"cushim: no live page of {LIVE}: {full}: No space left on device\n"), result
    assert result.returncode == -6 and "before it used" not in result.stderr, result


@tap.test
def root_sees_the_pages_of_all_users():
    if os.geteuid():
        tap.skip("other users are for root")
    user = next(row for row in pwd.getpwall() if row.pw_uid >= 65534)
    home = f"/dev/shm/cushim-{user.pw_uid}"
    if os.path.exists(home):
        tap.skip(f"{home} is in use")
    process = started(LIVE, "pause")
    page, = pages()
    text = page.read_bytes()
    os.mkdir(home, 0o700)
    try:
        made_up = f"{home}/{process.pid}-1.page"
        with open(made_up, "wb") as file:
            file.write(text)
        assert user.pw_name not in stat("--all-users").stdout, "a page of root in the folder of a user is not shown"
        os.chown(home, user.pw_uid, -1)
        os.chown(made_up, user.pw_uid, -1)
        rows = stat("--all-users").stdout
        assert re.search(rf"^ *\d+ root     live .*  runs$", rows, re.MULTILINE), rows
        assert re.search(rf"^ *\d+ {user.pw_name[:8]:8} live .*  ended$", rows, re.MULTILINE), rows
        assert all(len(line) <= 80 for line in rows.splitlines()), rows
        assert len(re.findall(r"^ *\d+  live ", stat().stdout, re.MULTILINE)) == 1, stat()
        top = subprocess.run([CUSHIM, "top", "--once", "--all-users"], env=environment(), text=True, capture_output=True).stdout
        assert re.search(rf"^ *\d+  {user.pw_name[:8]:8} live .*  ended$", top, re.MULTILINE), top
        assert top.splitlines()[0].endswith(" held   req/s wait%  past") and all(len(line) <= 80 for line in top.splitlines()), top
        stat("--clean")
        run(LIVE, "exit")
        assert os.path.exists(made_up), "nobody removes the page of another user"
        os.chmod(home, 0o777)
        assert user.pw_name not in stat("--all-users").stdout, "anybody can have made what is in it"
    finally:
        end(process)
        subprocess.run(["rm", "-r", home])
        stat("--clean")


tap.run()
