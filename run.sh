#!/usr/bin/env bash
# The only script. `./run.sh help` lists what it does; everything it installs it names first, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'TEXT'
./run.sh                 build, install what is missing, bake the sample and say where the result is
./run.sh bake ARGS…      kiln bake ARGS…     (./run.sh bake --help)
./run.sh doctor          what this machine can bake with, and what is missing
./run.sh test            every test
./run.sh bench [FOLDER]  the table of quality, time and memory, for the sets here or those in FOLDER
./run.sh torture ARGS…   faults into the real programs: --seed S --faults N (default 2000)
./run.sh check           formatting, lints, documentation
TEXT
}

say() { if [ -t 2 ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi; }

# install REASON PACKAGE…: Debian and Ubuntu packages, once.
install() {
    local reason=$1 missing=() package
    shift
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "installing ${missing[*]}: $reason"
    if ! command -v apt-get >/dev/null; then
        say "this system has no apt-get: please install the equivalents of ${missing[*]}"
        return 1
    fi
    local root=()
    [ "$(id -u)" -eq 0 ] || root=(sudo)
    "${root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
}

need_toolchain() {
    command -v cargo >/dev/null || { say "Kiln needs Rust 1.95 or newer: https://rustup.rs"; exit 1; }
    command -v c++ >/dev/null || install "meshopt is C++ and is compiled with the crate" g++
}

# A GPU needs the Vulkan loader; without a GPU the processor bakes and nothing is needed.
need_gpu_loader() {
    compgen -G '/dev/nvidia[0-9]*' >/dev/null || compgen -G '/dev/dri/renderD*' >/dev/null || return 0
    ldconfig -p | grep -q libvulkan.so.1 || install "the GPU of this machine is reached through Vulkan" libvulkan1
}

build() {
    need_toolchain
    need_gpu_loader
    cargo build --release --locked --workspace --bins
}

command=${1:-sample}
[ $# -gt 0 ] && shift
case $command in
sample)
    build
    mkdir -p out
    target/release/kiln bake tests/data/spot/mesh_nouv.glb --views tests/data/spot/transforms.json \
        -o out/spot.glb --preview out/spot.png --report out/spot.json --holdout 2 "$@" >/dev/null
    say "model    out/spot.glb"
    say "preview  out/spot.png"
    say "report   out/spot.json"
    ;;
bake | doctor)
    build
    exec target/release/kiln "$command" "$@"
    ;;
test)
    need_toolchain
    install "the GPU stages are tested on Mesa's software Vulkan, on any machine" libvulkan1 mesa-vulkan-drivers
    command -v npm >/dev/null || install "the GLBs are checked by the Khronos validator, an npm package" nodejs npm
    (cd tests/validator && npm ci --silent --no-audit --no-fund)
    export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp}
    # Workers that go wrong on purpose; then the real ones, in the same folder: both builds keep their parts side by side.
    cargo build --release --locked -p kiln -p kiln-baker --bins --features kiln/failpoints,kiln-baker/failpoints
    mkdir -p target/failpoints
    cp target/release/kiln target/release/kiln-baker target/failpoints/
    # With --lib: the library that makes kiln's system calls fail is preloaded into it.
    cargo build --release --locked --workspace --lib --bins
    cargo test --release --locked --workspace "$@"
    ;;
bench)
    build
    exec target/release/bench "$@"
    ;;
torture)
    build
    exec target/release/torture "$@"
    ;;
check)
    need_toolchain
    cargo fmt --all --check
    cargo clippy --release --locked --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --release --locked --workspace --no-deps --document-private-items
    ;;
help | -h | --help)
    usage
    ;;
*)
    usage >&2
    exit 64
    ;;
esac
