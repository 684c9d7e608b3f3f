#!/usr/bin/env bash
# Runs a command where Open MPI's mpirun finds several hosts.
#
#   cluster.sh [--hosts N] [--lacks HOST DIRECTORY] COMMAND ARGS...
#
# The command runs on the host `login`; there are N more, n0, n1 ..., namespaces of this machine. Each has a name, a network
# address, a /dev/shm and, under the path $TMPDIR, a directory for temporary files of its own; the other files are shared.
# mpirun (of Open MPI 4, or PRRTE's) starts its daemons there by agent.sh, when told which hosts to use (`--host login:2,n0:2`).
# With --lacks the directory is empty on that host, which is not `login`. When the command has ended, what its jobs have left
# on any host is named on stderr, in lines that begin with `cluster.sh: left`.
# Needs root and the packages openmpi-bin and iproute2; ends only what it started.
set -euo pipefail

# shellcheck source=tests/cluster/hosts.sh
. "$(dirname "$0")/../cluster/hosts.sh"

hosts=1 lacking='' lacked=''
while [[ "${1:-}" = --* ]]; do
    case $1 in
    --hosts)
        hosts=$2
        shift 2
        ;;
    --lacks)
        lacking=$2 lacked=$3
        shift 3
        ;;
    *)
        echo "cluster.sh: unknown option $1" >&2
        exit 2
        ;;
    esac
done
export TMPDIR=${TMPDIR:-/tmp}
dir=$(mktemp -d "$TMPDIR/hosts.XXXXXX")

# The processes but for this one, the hosts' own, and those that are gone but for their parent's notice.
left_processes() {
    local entry pid words
    for entry in /proc/[0-9]*; do
        pid=${entry#/proc/}
        case " 1 $BASHPID ${pids[*]} " in *" $pid "*) continue ;; esac
        words=$({ tr '\0' ' ' <"$entry/cmdline"; } 2>/dev/null) || continue
        [ -z "$words" ] || echo "cluster.sh: left: process $pid: $words"
    done
}
# The files in the directories that each host has for itself; those in TMPDIR of `login` outlive us.
left_files() {
    local i root
    find /dev/shm -mindepth 1 -printf 'cluster.sh: left: %p on login\n'
    for i in "${!pids[@]}"; do
        root=/proc/${pids[i]}/root
        find "$root/dev/shm" "$root$TMPDIR" -mindepth 1 -printf "cluster.sh: left: %p on n$i\n" | sed "s|$root||"
    done
}
finish() {
    status=$?
    trap - EXIT INT TERM
    # What is ending just now may take its time, and removes its files before it is gone.
    for _ in $(seq 300); do
        [ -n "$(left_processes)" ] || break
        sleep 0.1
    done
    { left_processes; left_files; } >&2
    end_processes
    rm -rf "$dir"
    exit "$status"
}
trap finish EXIT INT TERM

be_login "$dir/hosts"
start_hosts "$hosts" "$TMPDIR" sleep infinity
if [ -n "$lacking" ]; then
    nsenter --target "${pids[${lacking#n}]}" --mount -- mount -t tmpfs none "$lacked"
fi
OMPI_MCA_plm_rsh_agent=$(realpath "$(dirname "$0")/agent.sh")
# PRRTE's name for it, in Open MPI 5 and 6.
PRTE_MCA_plm_ssh_agent=$OMPI_MCA_plm_rsh_agent
export OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
# tests/openmpi5/enter.sh names the loopback interface, for jobs on one host.
[ -z "${OMPI_MCA_btl_tcp_if_include:-}" ] || export OMPI_MCA_btl_tcp_if_include=10.255.0.0/16
"$@"
