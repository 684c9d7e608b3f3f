#!/usr/bin/env bash
# The source archive: made twice, in two directories, it is the same; without network and with an empty cargo directory it builds, and what it
# builds runs a job.
#
#   tests/packages/dist.sh WORK     WORK is a directory for what is made, which is removed in the end
set -euo pipefail
project=$(dirname "$(dirname "$(dirname "$(realpath -- "$0")")")")
mkdir -p -- "${1:?usage: $0 WORK}"
work=$(mktemp -d -p "$(realpath -- "$1")")
trap 'rm -rf -- "$work"' EXIT

fail() {
    echo "$0: $1" >&2
    exit 1
}

first=$("$project/packaging/dist" "$work/first")
echo "$first"
# Another clone, other modes, another time.
(umask 077 && git clone -q "$project" "$work/clone with a blank")
second=$(umask 077 && "$work/clone with a blank/packaging/dist" "$work/second")
[ "$first" = "$second" ] || fail "two archives of one commit differ: $second"
echo "made again in another clone: the same"

archive=$work/first/${first##* }
tar -xf "$archive" -C "$work"
tree=$work/$(basename "$archive" .tar.xz)
# An empty CARGO_HOME: no crate can come from anywhere else. The toolchain stays reachable.
toolchain=$(dirname "$(rustup which cargo 2>/dev/null || command -v cargo)")
build=(env -u CARGO_TARGET_DIR -u RUSTUP_TOOLCHAIN PATH="$toolchain:$PATH" CARGO_HOME="$work/cargo" CARGO_NET_OFFLINE=true)
if unshare -rn true 2>/dev/null; then
    build+=(unshare -rn)
    echo "building without a network"
else
    echo "building with cargo offline; this machine permits no network namespace"
fi
(cd "$tree" && "${build[@]}" make --no-print-directory build) >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    fail "the archive does not build"
}
job=$("$tree/target/release/pmixrun" -n 4 sh -c 'echo "rank $PMIX_RANK"' | sort)
[ "$job" = "$(printf 'rank %d\n' 0 1 2 3)" ] || fail "its pmixrun did not run four ranks: $job"
echo "built from the archive: pmixrun runs 4 ranks"
