#!/usr/bin/env bash
# The source archive built twice: in directories of other names and depths, with other homes, users' masks, time zones, languages, numbers of
# jobs and host names. Each file that `make install` puts down must have the same bytes.
#
#   tests/packages/reproducible.sh WORK     WORK is a directory for what is made, which is removed in the end
#
# Prints the checksum of each program and library, which whoever builds the same archive with the same compiler can compare.
set -euo pipefail
project=$(dirname "$(dirname "$(dirname "$(realpath -- "$0")")")")
mkdir -p -- "${1:?usage: $0 WORK}"
work=$(mktemp -d -p "$(realpath -- "$1")")
trap 'rm -rf -- "$work"' EXIT

fail() {
    echo "$0: $1" >&2
    exit 1
}

archived=$("$project/packaging/dist" "$work")
archive=$work/${archived##* }
toolchain=$(dirname "$(rustup which cargo 2>/dev/null || command -v cargo)")

# build DIRECTORY NAME=VALUE...: builds the archive below that directory, with this environment, and installs into its `installed`.
build() {
    local directory=$1
    shift
    mkdir -p "$directory/home"
    tar -xf "$archive" -C "$directory"
    local tree=$directory/$(basename "$archive" .tar.xz)
    # make install removes nothing and asks for no network. A name of its own for the host takes a name space, which root may make.
    local host=(env)
    if unshare -u true 2>/dev/null; then
        host=(unshare -u sh -c 'hostname "$1" && shift && exec "$@"' sh "$(basename "$directory" | tr ' ' -)")
    fi
    (cd "$tree" && "${host[@]}" env -i PATH="$toolchain:$PATH" HOME="$directory/home" CARGO_HOME="$directory/home/cargo" CARGO_NET_OFFLINE=true \
        "$@" make --no-print-directory build install PREFIX=/usr DESTDIR="$directory/installed") >"$directory/log" 2>&1 || {
        tail -n 40 "$directory/log" >&2
        fail "the archive does not build in $directory"
    }
}

(umask 022 && build "$work/one" TZ=UTC LC_ALL=C)
(umask 027 && build "$work/another one/deeper by some" TZ=Asia/Kathmandu LC_ALL=C.UTF-8 CARGO_BUILD_JOBS=1 SOURCE_DATE_EPOCH=1)
first=$work/one/installed
second="$work/another one/deeper by some/installed"
# diff compares links by where they lead.
if ! differing=$(diff -rq --no-dereference "$first" "$second"); then
    echo "$differing" >&2
    fail "two builds of one archive differ"
fi
files=$(find "$first" -type f | wc -l)
[ "$files" -gt 20 ] || fail "only $files files were installed"
(cd "$first" && find . -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec sha256sum {} +)
rustc -vV | sed -n 's/^release: /built by rustc /p'
echo "built twice: $files files, all the same"
