#!/usr/bin/env bash
# Runs a command under a Slurm of one node that lives in a temporary directory and ends with the command.
#
#   one-node.sh [--lib DIR] COMMAND ARGS...
#
# The command finds `srun` and friends configured by SLURM_CONF. With --lib, the daemons see DIR's libpmix.so in the
# place where Slurm's plugin opens Debian's, by a bind mount that only they and the command see.
# Needs root and the packages slurm-wlm and munge; ends only what it started.
set -euo pipefail

if [ "${1:-}" != "--inside" ]; then
    # A private mount namespace for the bind mount, a private network so that two runs do not meet on ports.
    exec unshare --mount --net --propagation private -- "$0" --inside "$@"
fi
shift

lib=
if [ "$1" = "--lib" ]; then
    lib=$(realpath "$2")
    shift 2
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/pmix-slurm.XXXXXX")
chmod 755 "$dir"
host=$(hostname -s)
pids=()
finish() {
    status=$?
    trap - EXIT INT TERM
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        for _ in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.1
        done
        kill -9 "$pid" 2>/dev/null || true
    done
    if [ "$status" -ne 0 ]; then
        tail -n 30 "$dir"/*.log >&2 || true
    fi
    rm -rf "$dir"
    exit "$status"
}
trap finish EXIT INT TERM

ip link set lo up
# Slurm asks the resolver for addresses of configured families, and loopback does not count as configured.
ip link add pmix-slurm type veth peer name pmix-slurm-peer
ip addr add 10.255.255.1/24 dev pmix-slurm
ip link set pmix-slurm up
ip link set pmix-slurm-peer up
if [ -n "$lib" ]; then
    mount --bind "$lib/libpmix.so" "$(realpath /usr/lib/"$(uname -m)"-linux-gnu/pmix2/lib/libpmix.so)"
fi

mkdir -m 755 "$dir/munge"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >"$dir/munge.log" 2>&1 &
pids+=($!)

mkdir -p "$dir/state" "$dir/spool"
cat >"$dir/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=64 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
EOF
chmod 644 "$dir/slurm.conf"
export SLURM_CONF=$dir/slurm.conf

slurmctld -D >"$dir/slurmctld.out.log" 2>&1 &
pids+=($!)
slurmd -D >"$dir/slurmd.out.log" 2>&1 &
pids+=($!)

for _ in $(seq 100); do
    [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
    sleep 0.1
done
if [ "$(sinfo -h -o %T 2>/dev/null)" != idle ]; then
    echo "one-node.sh: Slurm's node did not become idle within 10 s" >&2
    exit 1
fi
"$@"
