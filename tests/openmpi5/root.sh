#!/usr/bin/env bash
# Makes a root directory with another Debian release and its Open MPI.
#
#   tests/openmpi5/root.sh DIRECTORY [RELEASE [PACKAGE...]]     RELEASE is trixie if not named; packages beside Open MPI and a compiler
#
# Needs root, debootstrap and a Debian archive: MIRROR, or the one that this machine's apt uses. A directory that holds such
# a root already is left as it is.
set -euo pipefail

root=${1:?usage: $0 DIRECTORY [RELEASE [PACKAGE...]]}
release=${2:-trixie}
packages=(openmpi-bin libopenmpi-dev gcc libc6-dev "${@:3}")
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)}

# dpkg also knows packages that others recommend and that are not there.
installed=$(chroot "$root" dpkg-query --show --showformat '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -cx installed || true)
if [ "$installed" -eq "${#packages[@]}" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "$0: needs root, and debootstrap (apt-get install debootstrap)" >&2
    exit 1
fi
if [ ! -e "$root/etc/apt/sources.list" ]; then
    debootstrap --variant=minbase "$release" "$root" "$mirror"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
# What packages set up may mount or start something: it goes with this mount namespace.
unshare --mount --propagation private -- sh -euc '
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    # A mirror may serve a list of sid that is older than its date allows.
    chroot "$1" apt-get -o Acquire::Check-Valid-Until=false update
    root=$1
    shift
    chroot "$root" apt-get install -y --no-install-recommends "$@"
    chroot "$root" apt-get clean' sh "$root" "${packages[@]}"
