#!/usr/bin/env bash
# Runs a command under a Slurm that lives in a temporary directory and ends with the command.
#
#   cluster.sh [--nodes N] [--lib DIR] [--mpi-conf LINE] COMMAND ARGS...
#
# The nodes n0, n1 ... are namespaces of this machine: each has its own host name, network address and /dev/shm. The
# command finds `srun` and friends configured by SLURM_CONF, and the daemons' files and logs in the directory of that
# file (`slurmd.n0.log`, `slurmd.n0.pid`, `spool.n0`, `tmp.n0`). With --lib, the daemons see DIR's libpmix.so in the place where
# Slurm's plugin opens Debian's, by a bind mount that only they and the command see; steps that start later open what
# the link `opened/libpmix.so` in that directory leads to, or on one node what `opened.n0/libpmix.so` does (`opened.n1/` ...).
# Debian's libraries are found in `stock`. With --mpi-conf, Slurm has an mpi.conf with this line.
# A slurmd that ends is started again, as soon as there is no file `slurmd.n0.down` (`slurmd.n1.down` ...).
# There are two users beside those of the machine, `one` and `two`.
# Needs root and the packages slurm-wlm and munge; ends only what it started.
set -euo pipefail

# shellcheck source=tests/cluster/hosts.sh
. "$(dirname "$0")/../cluster/hosts.sh"

lib=
mpi_conf=
nodes=1
while :; do
    case "${1:-}" in
    --lib) lib=$(realpath "$2") ;;
    --mpi-conf) mpi_conf=$2 ;;
    --nodes) nodes=$2 ;;
    *) break ;;
    esac
    shift 2
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/pmix-slurm.XXXXXX")
chmod 755 "$dir"
finish() {
    status=$?
    trap - EXIT INT TERM
    end_processes
    if [ "$status" -ne 0 ]; then
        tail -n 30 "$dir"/*.log >&2 || true
    fi
    rm -rf "$dir"
    exit "$status"
}
trap finish EXIT INT TERM

be_login "$dir/hosts"
# The numbers are those of USERS in tests/src/cluster.rs.
for file in passwd group; do
    cp "/etc/$file" "$dir/$file"
    mount --bind "$dir/$file" "/etc/$file"
done
printf '%s\n' one:x:60001:60001::/: two:x:60002:60002::/: >>/etc/passwd
printf '%s\n' one:x:60001: two:x:60002: >>/etc/group
stock=/usr/lib/$(uname -m)-linux-gnu/pmix2/lib
# Copied, not mounted: the directory is removed in the end with everything that is seen below it.
mkdir "$dir/stock" "$dir/opened"
cp -a "$stock"/libpmix.so* "$stock/pmix" "$dir/stock"
ln -s "$dir"/stock/* "$dir/opened"
if [ -n "$lib" ]; then
    ln -sfn "$lib/libpmix.so" "$dir/opened/libpmix.so"
fi
# The plugin of Slurm 22.05 opens libpmix.so there, that of 24.11 libpmix.so.2.
ln -sfn libpmix.so "$dir/opened/libpmix.so.2"
for ((i = 0; i < nodes; i++)); do
    mkdir "$dir/opened.n$i"
    ln -s "$dir"/opened/* "$dir/opened.n$i"
    ln -sfn libpmix.so "$dir/opened.n$i/libpmix.so.2"
done
mount --bind "$dir/opened" "$stock"

mkdir -m 755 "$dir/munge"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >"$dir/munge.log" 2>&1 &
pids+=($!)

mkdir -p "$dir/state"
cat >"$dir/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=login(10.255.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
TmpFS=$dir/tmp.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
SlurmdDebug=debug
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
CONF
for ((i = 0; i < nodes; i++)); do
    echo "NodeName=n$i NodeAddr=10.255.1.$i CPUs=64 RealMemory=1000 State=UNKNOWN"
done >>"$dir/slurm.conf"
echo "PartitionName=all Nodes=n[0-$((nodes - 1))] Default=YES MaxTime=INFINITE State=UP" >>"$dir/slurm.conf"
chmod 644 "$dir/slurm.conf"
if [ -n "$mpi_conf" ]; then
    printf '%s\n' "$mpi_conf" >"$dir/mpi.conf"
fi
export SLURM_CONF=$dir/slurm.conf

slurmctld -D >"$dir/slurmctld.out.log" 2>&1 &
pids+=($!)
for ((i = 0; i < nodes; i++)); do
    mkdir -p "$dir/spool.n$i"
    mkdir -m 1777 "$dir/tmp.n$i"
done
# What a node ends with: its namespaces outlive a slurmd that is killed. Shells report such a death, which is no news here.
keep_slurmd() {
    local files slurmd=
    files=$1/slurmd.$(hostname)
    exec 2>/dev/null
    trap 'kill "$slurmd"; wait "$slurmd"; exit' TERM
    while :; do
        slurmd -D -N "$(hostname)" >>"$files.out.log" 2>&1 &
        slurmd=$!
        wait "$slurmd"
        until sleep 0.05 && [ ! -e "$files.down" ]; do :; done
    done
}
export -f keep_slurmd
# shellcheck disable=SC2016
start_hosts "$nodes" "" bash -euc 'mount --bind "$0/opened.$(hostname)" "$1"; set +eu; keep_slurmd "$0"' "$dir" "$stock"

idle() { [ "$(sinfo -h -N -o %T 2>/dev/null | grep -cx idle)" -eq "$nodes" ]; }
for _ in $(seq 1000); do
    idle && break
    sleep 0.1
done
if ! idle; then
    echo "cluster.sh: Slurm's nodes did not become idle within 100 s" >&2
    exit 1
fi
"$@"
