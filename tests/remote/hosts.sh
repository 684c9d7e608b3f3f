#!/bin/sh
# Two hosts with munge, as namespaces of this machine, until standard input ends.
#
#   unshare --mount --net --propagation private hosts.sh
#
# This one is 10.254.0.1; /etc/pmix-dstore/remote names its interface. The other one, 10.254.0.2, has a network of its own and shares
# all files. Prints the process of the other host and that of munged once munge works. Ends only what it started.
set -e
mount -t tmpfs none /run
cp -a /etc /run/etc
mount --bind /run/etc /etc
mkdir -p /etc/pmix-dstore
echo 'near # the way to the other host' >/etc/pmix-dstore/remote
chmod 644 /etc/pmix-dstore/remote

mkdir -m 755 /run/munge
dir=/run/munge
head -c 1024 /dev/urandom >"$dir/key"
chmod 400 "$dir/key"
munged --foreground --force --key-file="$dir/key" --socket="$dir/munge.socket.2" --pid-file="$dir/pid" --log-file="$dir/log" \
    --seed-file="$dir/seed" >"$dir/out" 2>&1 </dev/null &
munged=$!
# shellcheck disable=SC2016
unshare --net sh -c 'echo ready; exec sleep infinity' </dev/null >/run/other &
other=$!
trap 'kill -CONT $munged; kill $munged $other' EXIT
trap 'exit 1' HUP INT TERM

until [ -s /run/other ] && munge --no-input --output=/dev/null 2>/dev/null; do
    kill -0 "$munged" && kill -0 "$other" || { cat "$dir/out" >&2; exit 1; }
    sleep 0.05
done
ip link set lo up
ip link add near type veth peer name far
ip link set far netns "$other"
ip addr add 10.254.0.1/24 dev near
ip link set near up
nsenter --target "$other" --net sh -ec 'ip link set lo up; ip addr add 10.254.0.2/24 dev far; ip link set far up'
echo "$other $munged"
read -r _ || true
