# Hosts that are namespaces of this machine: sourced, with the script's own arguments, by scripts that run something there.
#
# The script goes on in namespaces of its own, as the host `login`; the others are n0, n1 ... Each host has its own name,
# network address and /dev/shm. Processes are numbered over all hosts, and end with the script. /etc/hosts lists the hosts
# that are up, each with the number of a process that is there.
# Needs root and the package iproute2.

if [ "${1:-}" != --inside ]; then
    # Of mounts for what is bound, of the network so that two runs do not meet on ports, of processes so that whatever was
    # started ends with us.
    exec unshare --mount --net --uts --pid --fork --kill-child --mount-proc --propagation private -- \
        "$0" --inside "$@"
fi
shift

# The processes to be ended, the last one first.
pids=()

end_processes() {
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
        # Collected here, or else the shell reports it.
        wait "$pid" 2>/dev/null || true
    done
}

# Makes this the host `login`, at the bridge that all hosts hang on; FILE becomes /etc/hosts.
be_login() {
    local file=$1
    hostname login
    mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm
    ip link set lo up
    ip link add bridge type bridge
    ip addr add 10.255.0.1/16 dev bridge
    ip link set bridge up
    printf '%s\n' "127.0.0.1 localhost" "10.255.0.1 login # process $$" >"$file"
    # What debootstrap makes has no such file.
    [ -e /etc/hosts ] || : >/etc/hosts
    mount --bind "$file" /etc/hosts
}

# What a host begins with, in its namespaces. It is up when its network is.
be_host() {
    local name=$1 address=$2 directory
    hostname "$name"
    for directory in /dev/shm $3; do
        mount -t tmpfs -o size=1g,mode=1777 tmpfs "$directory"
    done
    ip link set lo up
    for _ in $(seq 2000); do
        ip link show eth0 >/dev/null 2>&1 && break
        sleep 0.05
    done
    ip addr add "$address/16" dev eth0
    ip link set eth0 up
    echo "$address $name # process $$" >>/etc/hosts
    shift 3
    exec "$@"
}
export -f be_host

# Starts COUNT hosts, each with a process of its own that COMMAND becomes and that the host ends with. They have each of
# DIRECTORIES (a word list) for themselves, besides /dev/shm. Returns when all are up.
start_hosts() {
    local count=$1 directories=$2 i
    shift 2
    for ((i = 0; i < count; i++)); do
        unshare --mount --net --uts --propagation private -- \
            bash -euc 'be_host "$@"' host "n$i" "10.255.1.$i" "$directories" "$@" &
        pids+=($!)
        # The other end belongs to the host as soon as that has a network of its own.
        until [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
            sleep 0.01
        done
        ip link add "veth$i" type veth peer name eth0 netns "$!"
        ip link set "veth$i" master bridge up
    done
    for _ in $(seq 2000); do
        [ "$(grep -c "^10.255.1." /etc/hosts)" -lt "$count" ] || return 0
        sleep 0.05
    done
    echo "hosts.sh: not all hosts came up within 100 s" >&2
    return 1
}
