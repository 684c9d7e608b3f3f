#!/usr/bin/env bash
# Runs a command in a root directory with another Debian release.
#
#   tests/openmpi5/enter.sh ROOT PROJECT LIBRARY PROGRAMS COMMAND [ARGS...]
#
# There /dev, /proc, /sys and /tmp are those of outside, and the file LIBRARY is /mnt/lib/libpmix.so.2, PROJECT /mnt/project
# and PROGRAMS /mnt/bin. /mnt/lib/prrte is as `make install` makes it, if PROGRAMS holds facade.so and pmixctl. All mounts are in a namespace of the command's own and go with it; nothing of ROOT itself is
# written to. Needs root.
set -euo pipefail

if [ "${INSIDE:-}" != "$$" ]; then
    INSIDE=$$ exec unshare --mount --propagation private -- "$0" "$@"
fi
unset INSIDE
root=$1 project=$2 library=$3 programs=$4
shift 4
# Hosts of namespaces (tests/openmpi/cluster.sh) are made from here, which takes a root that is a mount point.
mount --bind "$root" "$root"
for directory in dev proc sys tmp; do
    mount --rbind "/$directory" "$root/$directory"
done
mount -t tmpfs none "$root/mnt"
mkdir "$root"/mnt/{project,lib,bin,outside}
mount --bind "$project" "$root/mnt/project"
touch "$root/mnt/lib/libpmix.so.2"
mount --bind "$library" "$root/mnt/lib/libpmix.so.2"
mount --bind "$programs" "$root/mnt/bin"
if [ -e "$programs/facade.so" ]; then
    mkdir "$root/mnt/lib/prrte"
    cp "$programs/facade.so" "$root/mnt/lib/prrte/libpmix.so.2"
    ln -s ../libpmix.so.2 "$root/mnt/lib/prrte/libpmix-dstore.so"
    chroot "$root" /mnt/bin/pmixctl prrte --link --directory /mnt/lib/prrte >/dev/null
fi
# mpirun of Open MPI 5 has other variables for the user root; its TCP component is to take the one network that is there
# for sure, and the rest is as on any machine with more processes than processors.
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 LC_ALL=C HOME=/root
export OMPI_MCA_btl=self,sm,tcp OMPI_MCA_btl_tcp_if_include=lo
cd "$root"
pivot_root . mnt/outside
umount --lazy /mnt/outside
cd /
exec env -u LD_LIBRARY_PATH "$@"
