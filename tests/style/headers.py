"""Every public header compiles alone, as C11 and as C++17, without a warning.

    headers.py ROOT CUDA_INCLUDE CC...
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT, CUDA_INCLUDE = pathlib.Path(sys.argv[1]), sys.argv[2]
CC = sys.argv[3:]
FOLDERS = ("src/include", "kernels/include")
LANGUAGES = {"C11": ["-x", "c", "-std=c11"], "C++17": ["-x", "c++", "-std=c++17"]}


def compile_text(text, language, root):
    return subprocess.run([*CC, *LANGUAGES[language], "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                           *[f"-I{root}/{folder}" for folder in FOLDERS], "-isystem", CUDA_INCLUDE, "-"],
                          input=text, text=True, capture_output=True)


def faults(root, language):
    headers = [(path, path.relative_to(folder)) for folder in FOLDERS for path in tree.files(root)
               if path.as_posix().startswith(folder + "/") and path.suffix == ".h"]
    assert headers, "no public header was found"
    for path, name in headers:
        done = compile_text(f'#include "{name}"\n#include "{name}"\n', language, root)
        if done.returncode:
            yield f"{path} as {language}:\n{done.stderr}"


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
