#!/usr/bin/env bash
# Runs a shell command on a host of cluster.sh, as ssh does: Open MPI's `plm_rsh_agent`.
#
#   agent.sh HOST COMMAND...
#
# Like ssh it hands over no environment, but for what tests know their processes and temporary files by.
set -euo pipefail

host=$1
shift
pid=$(sed -n "s/.* $host # process //p" /etc/hosts)
if [ -z "$pid" ]; then
    echo "agent.sh: there is no host $host" >&2
    exit 255
fi
cd /
exec env -i "HOME=$HOME" "PATH=$PATH" "TMPDIR=$TMPDIR" "TRACED_BY=${TRACED_BY:-}" \
    nsenter --target "$pid" --mount --net --uts -- sh -c "$*"
