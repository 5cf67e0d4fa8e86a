"""The installed files are enough to build programs: pkg-config, headers, library.

    install.py MESON BUILD SOURCE LIBRARY CC...

Everything is installed in a temporary folder. docs/examples/alloc_copy.c is built there as C and as C++, with only the
flags of the installed pkg-config file, and run; so is the program in docs/guide/companion.md.
"""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

MESON, BUILD, SOURCE, LIBRARY = sys.argv[1:5]
CC = sys.argv[5:]
EXAMPLE = pathlib.Path(SOURCE, "docs/examples/alloc_copy.c")
LIBC = re.compile(r"(lib(c|pthread|dl|m)\.so\.\d+|ld-linux.*)$")
LANGUAGES = {"C": ["-x", "c", "-std=c11"], "C++": ["-x", "c++", "-std=c++17"]}


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def refuse_sanitizers():
    if re.search("__[at]san_init", run("nm", "-D", LIBRARY)):
        tap.skip("a sanitizer must be loaded first in the process")


def installed():
    """The folder of the installation, made once and removed at the end."""
    if not hasattr(installed, "folder"):
        installed.folder = tempfile.TemporaryDirectory(prefix="cushim-install-")
        run(MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", installed.folder.name)
    return pathlib.Path(installed.folder.name)


def found(pattern):
    paths = sorted(installed().rglob(pattern))
    assert paths, f"{pattern} is not installed"
    return paths[0]


def flags():
    if not shutil.which("pkg-config"):
        tap.skip("no pkg-config")
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(found("cushim.pc").parent), "PKG_CONFIG_SYSROOT_DIR": str(installed())}
    env.pop("PKG_CONFIG_PATH", None)
    return run("pkg-config", "--cflags", "--libs", "cushim", env=env).split()


def build_and_run(language, source, wanted):
    refuse_sanitizers()
    program = installed() / f"{source.stem}-{language}"
    if language == "C++" and subprocess.run([*CC, *LANGUAGES[language], "-fsyntax-only", "-"], input="", text=True,
                                            capture_output=True).returncode:
        tap.skip("this compiler knows no C++17")
    run(*CC, *LANGUAGES[language], "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(source), "-x", "none", "-o", str(program),
        *flags(), cwd=installed())
    env = {**os.environ, "LD_LIBRARY_PATH": str(found("libcushim.so.0").parent)}
    assert run(str(program), env=env) == wanted
    return program


@tap.test
def a_C_program_builds_with_the_flags_of_pkg_config_and_runs():
    program = build_and_run("C", EXAMPLE, "400 floats there and back\n")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(program)))
    assert sorted(needed) == ["libc.so.6", "libcushim.so.0"], needed


@tap.test
def pkg_config_finds_a_moved_tree_by_the_option_of_the_page():
    if not shutil.which("pkg-config"):
        tap.skip("no pkg-config")
    option, = re.findall(r"`(--define-variable=prefix=)\$PREFIX`", pathlib.Path(SOURCE, "docs/guide/install.md").read_text())
    prefix = found("cushim.h").parents[2]
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(found("cushim.pc").parent)}
    words = run("pkg-config", f"{option}{prefix}", "--cflags", "--libs", "cushim", env=env).split()
    folders = [pathlib.Path(word[2:]) for word in words if word.startswith(("-I", "-L"))]
    assert any((folder / "cushim/cushim.h").exists() for folder in folders) and any((folder / "libcushim.so").exists() for folder in folders), words


@tap.test
def a_program_builds_from_a_build_that_is_not_installed():
    if not shutil.which("pkg-config"):
        tap.skip("no pkg-config")
    refuse_sanitizers()
    env = {**os.environ, "PKG_CONFIG_PATH": str(pathlib.Path(BUILD, "meson-uninstalled"))}
    words = run("pkg-config", "--cflags", "--libs", "cushim", env=env).split()
    folders = [pathlib.Path(word[2:]) for word in words if word.startswith(("-I", "-L"))]
    assert [path for path in folders if (path / "cushim/cushim.h").exists()], words
    private = pathlib.Path(SOURCE, "src/companion").resolve()
    assert private not in [path.resolve() for path in folders], "a program that includes <error.h> gets cushim's"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "alloc_copy")
        run(*CC, str(EXAMPLE), "-o", str(program), *words, cwd=folder)
        libraries = ":".join(str(path) for path in folders if (path / "libcushim.so.0").exists())
        assert run(str(program), env={**os.environ, "LD_LIBRARY_PATH": libraries}) == "400 floats there and back\n"


@tap.test
def a_CXX_program_builds_with_the_flags_of_pkg_config_and_runs():
    build_and_run("C++", EXAMPLE, "400 floats there and back\n")


@tap.test
def the_program_of_docs_companion_builds_and_runs():
    text = pathlib.Path(SOURCE, "docs/guide/companion.md").read_text()
    source = installed() / "companion.c"
    source.write_text(re.search(r"```c\n(.*?)```", text, re.DOTALL).group(1))
    build_and_run("C", source, "42\n")
    build_and_run("C++", source, "42\n")


@tap.test
def the_library_needs_nothing_but_libc():
    refuse_sanitizers()
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(found("libcushim.so.0"))))
    assert needed and all(LIBC.match(name) for name in needed), needed


@tap.test
def no_installed_header_is_missing_and_none_needs_CUDA():
    folder = found("cushim.h").parent
    has_kernels = list(installed().rglob("libcushim-kernels.so"))
    written = {path.name for folder in ["src/include", *(["kernels/include"] if has_kernels else [])]
               for path in pathlib.Path(SOURCE, folder, "cushim").glob("*.h")}
    there = {path.name for path in folder.glob("*.h")}
    assert there == written, f"not installed: {sorted(written - there)}"
    text = "".join(f'#include "cushim/{name}"\n' for name in sorted(there))
    listed = run(*CC, "-x", "c", "-std=c11", "-M", f"-I{folder.parent}", "-", input=text)
    assert "cuda" not in listed.replace(str(folder), ""), listed


@tap.test
def a_dlopen_with_private_scope_works():
    refuse_sanitizers()
    library = ctypes.CDLL(str(found("libcushim.so.0")), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    address = ctypes.c_uint64()
    assert library.cushim_memory_alloc(None, ctypes.c_size_t(1024), ctypes.byref(address)) == 0 and address.value
    assert library.cushim_memory_free(address) == 0
    assert not hasattr(ctypes.CDLL(None), "cushim_memory_alloc")


@tap.test
def a_CMake_program_finds_the_library_and_runs():
    refuse_sanitizers()
    if not shutil.which("cmake"):
        tap.skip("no cmake")
    folder = installed() / "cmake-program"
    folder.mkdir()
    folder.joinpath("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(one C)\nfind_package(cushim 0.1 REQUIRED)\n"
        f"add_executable(one {EXAMPLE})\ntarget_link_libraries(one cushim::cushim)\n"
        "if(NOT EXISTS ${cushim_PRELOAD})\n  message(FATAL_ERROR \"no preload\")\nendif()\n")
    where = f"-Dcushim_DIR={found('cushimConfig.cmake').parent}"
    run("cmake", "-S", str(folder), "-B", str(folder / "b"), where, f"-DCMAKE_C_COMPILER={CC[-1]}")
    run("cmake", "--build", str(folder / "b"))
    assert run(str(folder / "b/one")) == "400 floats there and back\n"
    folder.joinpath("CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(one C)\nfind_package(cushim 99 REQUIRED)\n")
    done = subprocess.run(["cmake", "-S", folder, "-B", folder / "c", where, f"-DCMAKE_C_COMPILER={CC[-1]}"], text=True, capture_output=True)
    assert done.returncode and "99" in done.stderr, done.stderr


@tap.test
def pages_licence_and_examples_are_in_the_usual_folders():
    for name in ("doc/cushim/LICENSE", "doc/cushim/guide/companion.md", "doc/cushim/reference/options.md", "doc/cushim/examples/alloc_copy.c"):
        assert found("share").joinpath(name).is_file(), name
    if re.search("__[at]san_init", run("nm", "-D", LIBRARY)):
        return
    for name in ("man/man1/cushim-run.1", "man/man8/libcushim-preload.8", "bash-completion/completions/cushim",
                 "zsh/site-functions/_cushim", "fish/vendor_completions.d/cushim.fish"):
        assert found("share").joinpath(name).is_file(), name


@tap.test
def after_uninstall_nothing_is_left():
    root = installed()
    library = found("libcushim.so.0")
    run("ninja", "-C", BUILD, "uninstall")
    left = [path for path in root.rglob("*") if path.is_file() and {"share", "lib", "include", "bin"} & set(path.relative_to(root).parts)]
    assert not library.exists() and not left, left


tap.run()
