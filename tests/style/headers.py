"""Every public header compiles alone, as C11 and as C++17, without a warning, and in every header a field of a block begins a line.

    headers.py ROOT CUDA_INCLUDE CC...
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT, CUDA_INCLUDE = pathlib.Path(sys.argv[1]), sys.argv[2]
CC = sys.argv[3:]
FOLDERS = ("src/include", "kernels/include")
FIELDS = r"(?:@(?:param|return)\b|(?:Accuracy|Capture|Edges|Errors|Owner|Source|Speed|Stream|Threads|Units)  )"
LANGUAGES = {"C11": ["-x", "c", "-std=c11"], "C++17": ["-x", "c++", "-std=c++17"]}


def compile_text(text, language, root):
    return subprocess.run([*CC, *LANGUAGES[language], "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                           *[f"-I{root}/{folder}" for folder in FOLDERS], "-isystem", CUDA_INCLUDE, "-"],
                          input=text, text=True, capture_output=True)


def headers(root):
    found = [(path, path.relative_to(folder)) for folder in FOLDERS for path in tree.files(root)
             if path.as_posix().startswith(folder + "/") and path.suffix == ".h"]
    assert found, "no public header was found"
    return found


def faults(root, language):
    for path, name in headers(root):
        done = compile_text(f'#include "{name}"\n#include "{name}"\n', language, root)
        if done.returncode:
            yield f"{path} as {language}:\n{done.stderr}"


def joined_fields(text):
    """Lines of blocks in which a field stands behind other words, or that go on with a field without being indented."""
    for block in re.findall(r"/\*\*?\n(.*?)\*/", text, re.DOTALL):
        lines = block.splitlines()
        first = next((i for i, line in enumerate(lines) if re.match(rf" \* {FIELDS}", line)), len(lines))
        yield from (line for line in lines[first:] if re.search(rf"^ \* .+{FIELDS}", line)
                    or re.match(r" \* \S", line) and not re.match(rf" \* {FIELDS}", line))


def needs_cxx():
    if compile_text("extern int nothing;\n", "C++17", ROOT).returncode:
        tap.skip("this compiler knows no C++17")


def check(language):
    found = list(faults(ROOT, language))
    assert not found, "\n" + "\n".join(found)


@tap.test
def each_header_is_C11():
    check("C11")


@tap.test
def each_header_is_CXX17():
    needs_cxx()
    check("C++17")


@tap.test
def fields_begin_lines():
    found = [f"{path}: {line}" for path in tree.files(ROOT) if path.suffix == ".h" for line in joined_fields((ROOT / path).read_text())]
    assert not found, "\n" + "\n".join(found)


@tap.test
def a_field_that_does_not_begin_a_line_is_found():
    for line in (" * that is said. Threads   any", " * which is more than fits", " * for n, @param m"):
        text = f"/**\n * Do.\n * @param n  a number\n{line}\n */\n"
        assert list(joined_fields(text)) == list(joined_fields(text.replace("/**", "/*"))) == [line], line
    assert not list(joined_fields("/**\n * Do what\n * is said.\n * @return a number\n *         of it\n * Threads  any\n */\n"))


@tap.test
def a_header_that_needs_another_is_found():
    for text in ("size_t cushim_n;\n", "static int unused(void) { return 0; }\n", "int f(;\n", "int twice = 1;\n"):
        with tree.made_of({"src/include/cushim/bad.h": text}) as root:
            assert list(faults(root, "C11")), text


@tap.test
def a_header_that_is_only_C_is_found():
    needs_cxx()
    with tree.made_of({"src/include/cushim/bad.h": "#pragma once\nint class_of(int *class);\n"}) as root:
        assert list(faults(root, "C++17"))


tap.run()
