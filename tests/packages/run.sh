#!/usr/bin/env bash
# Installs the Debian package in a root directory with another Debian release, runs MPI jobs on this library and on the stock one, and
# removes it again. Says each step; fails at the first that is not as it must be.
#
#   tests/packages/run.sh ROOT PACKAGE     ROOT as tests/openmpi5/root.sh makes it
#
# What is done inside stands in tests/packages/inside.sh. Needs root.
set -euo pipefail

if [ "${INSIDE:-}" != "$$" ]; then
    INSIDE=$$ exec unshare --mount --pid --fork --mount-proc --propagation private -- "$0" "$@"
fi
unset INSIDE
root=$(realpath "$1")
package=$(realpath "$2")
here=$(realpath "$(dirname "$0")")

# All that the steps need is in a directory of memory, and goes with it; so does whatever jobs leave in /tmp.
mount -t tmpfs none "$root/mnt"
mount -t tmpfs none "$root/tmp"
chmod 1777 "$root/tmp"
for directory in dev sys; do
    mount --rbind "/$directory" "$root/$directory"
done
mount -t proc none "$root/proc"
cp "$here/inside.sh" "$here/../programs/ring.c" "$here/../../ffi/tests/macros.c" "$package" "$root/mnt"
exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TMPDIR=/tmp \
    bash /mnt/inside.sh "/mnt/$(basename "$package")"
