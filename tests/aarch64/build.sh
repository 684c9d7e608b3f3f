#!/usr/bin/env bash
# Compiles and links the library and the tools for 64-bit ARM with Debian's cross toolchain, and looks at what came out.
#
#   tests/aarch64/build.sh ROOT     a root directory with Debian sid, which is made where it is not there
#
# It takes sid, since the standard library for another processor comes from a package of the compiler's own release, and no earlier Debian
# has the release that this project needs. The crates are those that cargo has on this machine. The build is not optimised as a whole.
# qemu starts what was built, in the root. Needs root and debootstrap.
set -euo pipefail

project=$(realpath "$(dirname "$0")/../..")
root=${1:?usage: $0 ROOT}
packages=(rustc cargo gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev:arm64 libstd-rust-dev:arm64 qemu-user)
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)}

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "$0: needs root, and debootstrap (apt-get install debootstrap)" >&2
    exit 1
fi
if [ ! -e "$root/etc/apt/sources.list" ]; then
    debootstrap --variant=minbase sid "$root" "$mirror"
fi
root=$(realpath "$root")
cp /etc/resolv.conf "$root/etc/resolv.conf"
exec unshare --mount --propagation private -- bash -euo pipefail -c '
    root=$1 project=$2
    shift 2
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    if [ ! -e "$root/usr/bin/aarch64-linux-gnu-gcc" ]; then
        chroot "$root" dpkg --add-architecture arm64
        chroot "$root" apt-get -o Acquire::Check-Valid-Until=false update
        chroot "$root" apt-get install -y --no-install-recommends "$@"
        chroot "$root" apt-get clean
    fi
    mkdir -p "$root/mnt/project" "$root/mnt/cargo" "$root/mnt/target"
    mount --bind "$project" "$root/mnt/project"
    mount --bind "${CARGO_HOME:-$HOME/.cargo}" "$root/mnt/cargo"
    exec chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C bash /mnt/project/tests/aarch64/inside.sh' \
    sh "$root" "$project" "${packages[@]}"
