#!/usr/bin/env bash
# Runs a command of this project in a root directory with another Debian release.
#
#   tests/openmpi5/inside.sh ROOT COMMAND [ARGS...]
#
# There the project has the path that it has outside, and /dev, /proc, /sys and /tmp are those of outside: test programs that were built
# here run there as they are (`make test-in-root`). All mounts are in a namespace of the command's own and end with it. Needs root.
set -euo pipefail

if [ "${INSIDE:-}" != "$$" ]; then
    INSIDE=$$ exec unshare --mount --propagation private -- "$0" "$@"
fi
unset INSIDE
root=$(realpath "$1")
shift
project=$(realpath "$(dirname "$0")/../..")
directory=$PWD
# Clusters of tests enter mount namespaces of their own, which takes a root that is a mount point.
mkdir -p "$root$project" "$root/outside"
mount --bind "$root" "$root"
for shared in dev proc sys tmp; do
    mount --rbind "/$shared" "$root/$shared"
done
# A project below /tmp is there already.
if [ "${project#/tmp/}" = "$project" ]; then
    mount --bind "$project" "$root$project"
fi
cd "$root"
pivot_root . outside
umount --lazy /outside
cd "$directory"
exec env HOME=/root LC_ALL=C "$@"
