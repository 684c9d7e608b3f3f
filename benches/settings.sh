#!/usr/bin/env bash
# Whole jobs of Open MPI under the four ways in which it exchanges its keys, in turns. Hosts are namespaces of this machine.
#
#   tests/openmpi/cluster.sh --hosts HOSTS-1 benches/settings.sh PROGRAM RANKS HOSTS ROUNDS LIBRARY
#
# PROGRAM is tests/programs/wireup.c, compiled by mpicc, and LIBRARY a directory with libpmix.so.2, for daemons and ranks, or `stock`.
# Neither may be below $TMPDIR, which each host has for itself.
# Prints a line for each job: `pmix_base_async_modex`, `pmix_base_collect_data`, and milliseconds from mpirun's start until the last rank
# has left MPI_Init and until mpirun has ended, or `failed`. Of Open MPI 4; those of 5 and 6 take other variables for their daemons.
set -euo pipefail

program=$1 ranks=$2 hosts=$3 rounds=$4 library=$5
each=$((ranks / hosts))
list=login:$each
for ((i = 0; i + 1 < hosts; i++)); do list+=,n$i:$each; done
path=()
[ "$library" = stock ] || path=(LD_LIBRARY_PATH="$library")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1
export OMPI_MCA_btl=^ofi,openib,uct OMPI_MCA_orte_launch_agent="env ${path[*]} orted"
ways=('0 1' '1 1' '0 0' '1 0')
for ((round = 0; round < rounds; round++)); do
    for ((turn = 0; turn < 4; turn++)); do
        read -r async collect <<<"${ways[(round + turn) % 4]}"
        begun=$(date +%s%N)
        if said=$(env "${path[@]}" OMPI_MCA_pmix_base_async_modex="$async" OMPI_MCA_pmix_base_collect_data="$collect" timeout 20 \
            mpirun --oversubscribe --map-by slot --host "$list" env "${path[@]}" "$program" 2>&1); then
            ended=$(date +%s%N)
            last=$(sed -n 's/^wired up at \([0-9]*\).*/\1/p' <<<"$said" | sort -n | tail -n 1)
            echo "$async $collect $(((last - begun) / 1000000)) $(((ended - begun) / 1000000))"
        else
            echo "$async $collect failed"
        fi
    done
done
