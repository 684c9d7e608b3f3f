#!/usr/bin/env bash
# Installs the rpm into a clean root directory, runs ranks with the library that it brought, and removes it: nothing may be left.
#
#   tests/packages/rpm.sh ROOT PACKAGE     ROOT as tests/openmpi5/root.sh makes it; a Debian, in which rpm asks for no dependencies
#
# No system that has rpm for its own packages is tried. Needs root, and rpm.
set -euo pipefail

if [ "${INSIDE:-}" != "$$" ]; then
    INSIDE=$$ exec unshare --mount --pid --fork --mount-proc --propagation private -- "$0" "$@"
fi
unset INSIDE
root=$(realpath "$1")
package=$(realpath "$2")
here=$(realpath "$(dirname "$0")")

fail() {
    echo "FAIL: $1" >&2
    exit 1
}

files() {
    find "$root" -xdev -path "$root/var/lib/rpm" -prune -o -path "$root/mnt" -prune -o -path "$root/tmp" -prune -o -printf '%P %y %s %l\n' | LC_ALL=C sort
}

before=$(files)
# rpm's own list is outside of the root.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
mount -t tmpfs none "$root/tmp"
mount -t tmpfs none "$root/mnt"
mkdir -p "$root/var/lib/rpm"
mount --bind "$database" "$root/var/lib/rpm"
cp "$here/../programs/ring.c" "$root/mnt"

rpm --force-debian --root "$root" --dbpath /var/lib/rpm --nodeps -i "$package"
rpm --force-debian --root "$root" --dbpath /var/lib/rpm --nodeps -V pmix-dstore || fail "rpm -V"
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
# shellcheck disable=SC2016 # the shell inside expands it
out=$(chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C RING_LIBRARY=all OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 bash -euc '
    mpicc /mnt/ring.c -o /mnt/ring
    timeout 120 pmixrun -n 4 --report /mnt/ring
    timeout 120 mpirun --oversubscribe -np 4 env LD_LIBRARY_PATH=/usr/lib64/pmix-dstore/lib /mnt/ring' 2>&1) || fail "$out"
[ "$(grep -c 'libraries /usr/lib64/pmix-dstore/lib/libpmix.so.2$' <<<"$out")" -eq 8 ] || fail "not all ranks have the library of the package: $out"
grep -q '4 of 4 in shared memory' <<<"$out" || fail "pmixrun: $out"
echo "rpm -i: 4 ranks under pmixrun and 4 under mpirun have mapped /usr/lib64/pmix-dstore/lib/libpmix.so.2"
umount -l "$root/dev" "$root/proc"
rpm --force-debian --root "$root" --dbpath /var/lib/rpm -e pmix-dstore
umount "$root/tmp" "$root/mnt" "$root/var/lib/rpm"
rmdir "$root/var/lib/rpm"
diff <(echo "$before") <(files) || fail "rpm -e has left or taken something"
echo "rpm -e: the $(wc -l <<<"$before") files of the root are as before"
