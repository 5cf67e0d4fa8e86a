"""Debian packages are built from this tree, lintian finds nothing new, and their content works.

    debian.py SOURCE BUILD CUDA PROGRAM IMAGES CC...

BUILD is this build's folder. PROGRAM allocates memory through the CUDA runtime. IMAGES is the folder of the kernels'
device code, or `none`: then the packages that have kernels are left out. The packages are compiled like this
build and unpacked; the script run, beside this file, compiles them as they are released and installs them in a separate
root file system.
"""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "style")]
import same_build
import tap
import tree

SOURCE, BUILD, PROGRAM = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 2, 4))
CUDA, IMAGES, *CC = sys.argv[3], *sys.argv[5:]
WORK = BUILD / "debian"
PROFILE = "pkg.cushim.kernels"
PACKAGES = {paragraph.split("\n")[0] for paragraph in (SOURCE / "debian/control").read_text().split("\nPackage: ")[1:]
            if IMAGES != "none" or f"<{PROFILE}>" not in paragraph}
# The findings of lintian that are accepted, and why.
LISTED = {"bogus-mail-host": "the packages have no maintainer with an address",
          "bogus-mail-host-in-debian-changelog": "the same",
          "initial-upload-closes-no-bugs": "nobody uploads them"}


def command(*words, **more):
    done = subprocess.run(list(map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    assert done.returncode == 0, f"{' '.join(map(str, words))} ended with {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-60:])
    return done.stdout


@functools.cache
def built():
    """{package: its file}."""
    for tool in ("dpkg-buildpackage", "dh_auto_configure", "dh_python3"):
        if not shutil.which(tool):
            tap.skip(f"no {tool}")
    shutil.rmtree(WORK, ignore_errors=True)
    for path in tree.files(SOURCE):
        (WORK / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / path, WORK / "tree" / path)
    rules = WORK / "tree/debian/rules"
    text = rules.read_text()
    assert text.count("--buildsystem=meson") == text.count("-Dtests=disabled") == 1, text
    text = text.replace("--buildsystem=meson", f"--buildsystem=meson --builddirectory={same_build.folder(SOURCE, BUILD)}")
    kernels = [] if IMAGES == "none" else [f"-Dkernel_images={IMAGES}"]
    rules.write_text(text.replace("-Dtests=disabled", shlex.join(["-Dtests=disabled", *same_build.options(BUILD), *kernels])))
    # -d, because meson and ninja may be installed without Debian's packages
    command("dpkg-buildpackage", "-b", "-us", "-uc", "-d", *(["-P" + PROFILE] if kernels else []), cwd=WORK / "tree",
            env={**os.environ, "CUDA_HOME": CUDA, "CC": shlex.join(CC), "DEB_CFLAGS_SET": "", "DEB_CPPFLAGS_SET": "",
                 "DEB_BUILD_OPTIONS": "noautodbgsym"})
    return {path.name.split("_")[0]: path for path in WORK.glob("*.deb")}


@functools.cache
def holder():
    return tempfile.TemporaryDirectory(prefix="cushim-debian-")


@functools.cache
def unpacked():
    root = pathlib.Path(holder().name)
    for package in PACKAGES:
        command("dpkg-deb", "-x", built()[package], root)
    return root


def libraries():
    return next(unpacked().glob("usr/lib/*/libcushim-preload.so")).parent


def fields(package):
    return dict(line.split(": ", 1) for line in command("dpkg-deb", "-f", built()[package]).splitlines() if ": " in line)


@tap.test
def each_package_is_built_and_shares_no_file():
    assert set(built()) == PACKAGES
    files = [line.split()[5] for package in PACKAGES for line in command("dpkg-deb", "-c", built()[package]).splitlines() if line[0] != "d"]
    assert len(files) == len(set(files)), sorted(file for file in set(files) if files.count(file) > 1)


@tap.test
def packages_depend_on_those_whose_libraries_they_load():
    needed = {"libvkgdr1": "libcushim0", "python3-vkgdr": "libvkgdr1", "libcushim-kernels0": f"libcushim0 (= {fields('cushim')['Version']})"}
    for package in needed.keys() & PACKAGES:
        assert needed[package] in fields(package)["Depends"], fields(package)


@tap.test
def lintian_finds_nothing_that_is_not_listed():
    built()
    if not shutil.which("lintian"):
        tap.skip("no lintian")
    changes, = WORK.glob("*.changes")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", changes], text=True, capture_output=True)
    found = [line for line in done.stdout.splitlines() if re.match(r"[EW]: ", line)]
    new = [line for line in found if line.split(": ", 2)[2].split()[0] not in LISTED]
    assert done.returncode == 0 and not new, "\n".join([*new, done.stderr])


@tap.test
def a_program_runs_on_the_software_device_and_python_reads_its_report():
    command(HERE.parent / "judge", unpacked() / "usr/bin/cushim", sys.executable, libraries() / "cushim/sim", PROGRAM,
            env={**os.environ, "PYTHONPATH": str(unpacked() / "usr/lib/python3/dist-packages")})


@tap.test
def files_that_Python_compiled_are_removed_with_the_package():
    command("dpkg-deb", "-e", built()["cushim"], pathlib.Path(holder().name, "control"))
    assert "py3clean -p cushim" in pathlib.Path(holder().name, "control/prerm").read_text()


@tap.test
def the_completion_for_zsh_is_in_a_folder_of_its_path():
    if not shutil.which("zsh"):
        tap.skip("no zsh")
    folders = command("zsh", "-fc", "print -l $fpath").split()
    assert [folder for folder in folders if (unpacked() / folder[1:] / "_cushim").is_file()], folders


def run_in_c(library, header, statement):
    """Compile, link and run a program against the packages, on the software device."""
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": str(libraries() / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(unpacked()),
                   "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
    words = command("pkg-config", "--cflags", "--libs", "cushim", env=environment).split()
    source = f"#include <cushim/{header}>\nint main(void) {{ {statement} }}\n"
    subprocess.run(["cc", "-x", "c", "-", "-o", unpacked() / "try", "-isystem", f"{CUDA}/include", *words, f"-l{library}"],
                   input=source, text=True, check=True)
    command(unpacked() / "try", env={**os.environ, "LD_LIBRARY_PATH": str(libraries()), "CUSHIM_LIBCUDA": str(libraries() / "cushim/sim/libcuda.so.1")})


@tap.test
def c_programs_find_headers_and_libraries():
    run_in_c("cushim", "cushim.h", "return !cushim_version();")
    run_in_c("vkgdr", "dropin/vkgdr.h", "return vkgdr_open(-1, 0) || !vkgdr_last_error();")
    if IMAGES != "none":
        run_in_c("cushim-kernels", "kernels.h", "return cushim_kernels_load();")
        run_in_c("kernels", "dropin/libkernels.h", "return !launch_add;")


tap.run()
