# shellcheck shell=bash disable=SC2016,SC2034,SC2086  # rows are evaluated, and the sourcing script reads what is set
# Sourced by quickstart and check: what has to be on the machine before anything is built.
#
# A package counts as there when what it is for works, wherever it came from: each row is a package
# of Debian or Ubuntu and a command that succeeds with it.

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

compiles() { # compiles "SOURCE" COMPILER ARGUMENT...: does this program build?
    local source=$1
    shift
    printf '%s\n' "$source" | "$@" -o /dev/null - >/dev/null 2>&1
}

has_header() { compiles "#include <$1>" ${CC:-cc} -x c -fsyntax-only; } # CC may have arguments
has_library() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q "$1"; }
has() { command -v "$1" >/dev/null; }

readonly trivial='int main(void) { return 0; }'

base_packages=(
    'gcc        | compiles "$trivial" ${CC:-cc} -x c'
    'libc6-dev  | compiles "$trivial" ${CC:-cc} -x c'
    'python3    | has python3'
    'meson      | has meson'
    'ninja-build| has ninja'
    'pkg-config | has pkg-config'
    'check      | pkg-config --exists check'
    'uthash-dev | has_header uthash.h'
    'libjson-c-dev | pkg-config --exists json-c'
)

check_packages=(
    'ccache       | has ccache'
    'python3-jsonschema | python3 -c "import jsonschema"'
    'python3-yaml | python3 -c "import yaml"'
    'python3-venv | python3 -c "import ensurepip"'
    'bubblewrap   | has bwrap'
    'openmpi-bin  | has mpirun'
    'cmake        | has cmake'
    'debhelper    | has dh_auto_configure'
    'dh-python    | has dh_python3'
    'lintian      | has lintian'
    'mandoc       | has mandoc'
    'tmux         | has tmux'
    'nodejs       | has node'
    'protobuf-compiler | has protoc'
    'zsh          | has zsh'
    'fish         | has fish'
    'g++          | compiles "$trivial" g++ -x c++'
    'clang        | has clang'
    'clang-format | has clang-format'
    'valgrind     | has valgrind'
    'spin         | has spin'
    'libvulkan-dev | has_header vulkan/vulkan_core.h'
    'libjemalloc2 | has_library libjemalloc.so.2'
    'gcc-aarch64-linux-gnu    | has aarch64-linux-gnu-gcc'
    'libc6-dev-arm64-cross    | compiles "$trivial" aarch64-linux-gnu-gcc -x c'
    'qemu-user    | has qemu-aarch64'
)

# Sets `missing` to the packages among the rows given whose command fails.
find_missing() {
    local row package
    missing=()
    for row in "$@"; do
        package=${row%%|*}
        package=${package// /}
        if ! eval "${row#*|}" >/dev/null 2>&1; then
            missing+=("$package")
        fi
    done
}

apt_get() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        has sudo || return 1
        as_root=(sudo)
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
}

# Install what is missing among the rows given; afterwards `missing` names what still is.
install_packages() {
    find_missing "$@"
    [ ${#missing[@]} = 0 ] && return
    has apt-get || return 0
    printf 'installing %s\n' "${missing[*]}"
    apt_get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
        { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}" >/dev/null; } || true
    find_missing "$@"
}

# The base, or the end.
install_base() {
    install_packages "${base_packages[@]}"
    [ ${#missing[@]} = 0 ] && return
    has apt-get || die "there is no apt-get here; install what your system calls these: ${missing[*]}"
    [ "$(id -u)" = 0 ] || has sudo || die "run as root first: apt-get install ${missing[*]}"
    die "after apt-get these are still missing, or do not work with ${CC:-cc}: ${missing[*]}"
}

# Whatever can be had of the rest: without it some checks are skipped.
install_for_check() {
    local version
    install_packages "${check_packages[@]}"
    local still=("${missing[@]}")
    if has clang; then
        version=$(clang -dumpversion)
        install_packages "libclang-rt-${version%%.*}-dev | compiles \"\$trivial\" clang -x c -fsanitize=address"
        still+=("${missing[@]}")
    fi
    [ ${#still[@]} = 0 ] || printf 'not to be had here, so some checks are skipped: %s\n' "${still[*]}"
}

# Sets `toolkit` and CUDA_HOME to the folder of a CUDA toolkit, or ends.  Headers are enough, with --compiler nvcc is there, too; no
# GPU and no driver is needed to build.  Where there is none of 13.0 or later it is fetched with pip, pinned, into a folder of the
# tree: never into the system.
require_toolkit() { # require_toolkit ROOT [--compiler]
    toolkit=$("$1/tools/find-cuda" "${@:2}") || fetch_toolkit "$@"
    export CUDA_HOME=$toolkit
}

fetch_toolkit() { # the same arguments
    local fetched=$1/build-cuda lists=(-r "$1/tools/setup/headers.txt") what='its headers (3 MB'
    if [ "${2:-}" = --compiler ]; then
        lists+=(-r "$1/tools/setup/compiler.txt") what='its headers and nvcc (130 MB'
    fi
    printf 'no CUDA toolkit of 13.0 or later here: fetching %s, pip packages) into %s\n' "$what" "${fetched##*/}"
    install_packages 'python3-venv | python3 -c "import ensurepip"'
    rm -rf "$fetched"
    { python3 -m venv "$fetched/pip" &&
        "$fetched/pip/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
            --target "$fetched" "${lists[@]}"; } ||
        die "no CUDA toolkit: CUDA_HOME, nvcc on PATH, /usr/local/cuda and Python's packages have none, and pip cannot fetch one.
Install version 13.0 or later (https://developer.nvidia.com/cuda-downloads), or set CUDA_HOME to its folder."
    toolkit=$fetched/toolkit
    ln -s nvidia/cu13 "$toolkit" # last: what was cut short is no toolkit, and is fetched again
}
