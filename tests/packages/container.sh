#!/usr/bin/env bash
# Builds an image by packaging/container and runs a job of 4 ranks in it, under pmixrun and under mpirun.
#
#   tests/packages/container.sh BASE PACKAGE     BASE holds a minimal Debian 13, or becomes one by debootstrap
#
# Needs root, debootstrap and buildah (Debian's package). No registry is asked: the base image is made of BASE. What buildah keeps is in a
# directory of its own, which goes at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
base=$1
package=$(realpath "$2")

for program in debootstrap buildah; do
    command -v "$program" >/dev/null || { echo "$0: $program is missing: apt-get install $program" >&2; exit 1; }
done
if [ ! -e "$base/etc/debian_version" ]; then
    mkdir -p "$base"
    debootstrap --variant=minbase trixie "$base" "${MIRROR:-http://deb.debian.org/debian}"
fi
base=$(realpath "$base")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUILDAH_ISOLATION=chroot TMPDIR=$work
b() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }

b from --name base scratch >/dev/null
b add -q base "$base" / >/dev/null
b commit -q base debian:trixie-slim >/dev/null
b rm base >/dev/null
mkdir "$work/context"
cp "$package" "$work/context"
echo "== building the image of packaging/container/Containerfile"
b bud -q --pull-never -f packaging/container/Containerfile -t pmix-dstore "$work/context" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
b from --pull-never --name job localhost/pmix-dstore >/dev/null
b run job -- pmixctl info | sed -n '1p; /^first/p'

# Each rank waits until all of them are there, and tells which libraries its launcher has mapped.
script='grep -oE "/[^ ]*libpmix[^ ]*" /proc/$PPID/maps | sort -u | sed "s/^/mpirun has /"; echo "rank $PMIX_RANK is here"'
# shellcheck disable=SC2016 # the rank's shell expands it
out=$(b run job -- mpirun --allow-run-as-root --oversubscribe -np 4 sh -c "$script" 2>&1) || { echo "$out" >&2; exit 1; }
sort -u <<<"$out"
[ "$(grep -c 'is here$' <<<"$out")" -eq 4 ] || { echo "not 4 ranks" >&2; exit 1; }
grep -q 'mpirun has .*/pmix-dstore/lib/libpmix.so.2$' <<<"$out" || { echo "mpirun does not have this library" >&2; exit 1; }
out=$(b run job -- pmixrun -n 4 --tag-output sh -c 'echo "rank $PMIX_RANK of pmixrun"' 2>&1) || { echo "$out" >&2; exit 1; }
sort <<<"$out"
[ "$(grep -c 'of pmixrun$' <<<"$out")" -eq 4 ] || { echo "not 4 ranks" >&2; exit 1; }
b rm job >/dev/null
echo "the image runs jobs on this library"
