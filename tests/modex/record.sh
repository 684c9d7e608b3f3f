#!/usr/bin/env bash
# Records what Open MPI publishes: the contributions that the stock libpmix of each host hands its host process in the first fence.
#
#   tests/modex/record.sh DIRECTORY [ROOT...]
#
# Open MPI is this machine's and that of each ROOT, a root directory with another Debian release (tests/openmpi5/root.sh makes one).
# Jobs are of 4 ranks on 2 hosts, 16 on 4, 64 on 4 and 4 on 4, over tcp, ofi and ucx where these components are there; the hosts are
# namespaces of this machine. DIRECTORY gets a file RELEASE-COMPONENT-RANKSxHOSTS.txt for each job that succeeds: a line for each
# host, in hexadecimal. Needs root and mpicc.
set -euo pipefail

project=$(realpath "$(dirname "$0")/../..")
out=$(realpath "$1")
shift
# Below /tmp, which is the roots' as well.
work=$(mktemp -d /tmp/modex.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tmp"
gcc -O1 -Wall -shared -fPIC -I"$project/ffi/include" "$project/tests/modex/record.c" -o "$work/bin/record.so" -ldl
mpicc -O1 "$project/tests/programs/mpi.c" -o "$work/bin/mpi"

# record RELEASE COMPONENT RANKS HOSTS COMMAND...: the command is followed by the script that makes hosts; `settings` are Open MPI's.
record() {
    local release=$1 component=$2 ranks=$3 hosts=$4 each daemon i list
    shift 4
    each=$((ranks / hosts))
    list=login:$each
    for ((i = 0; i + 1 < hosts; i++)); do list+=,n$i:$each; done
    rm -rf "$work/seen"
    mkdir "$work/seen"
    # Release 7.0 compresses contributions, by zstd where it is built with that.
    local recorder=("LD_PRELOAD=$work/bin/record.so" "RECORD_DIR=$work/seen" PMIX_MCA_pcompress_base_limit=1000000000)
    case $release in
    4.*) daemon="env ${recorder[*]} orted" ;;
    *) daemon="env ${recorder[*]} prted" ;;
    esac
    local own=(env "${recorder[@]}" "${settings[@]}"
        "PRTE_MCA_prte_launch_agent=$daemon" "OMPI_MCA_orte_launch_agent=$daemon"
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1)
    if ! TMPDIR=$work/tmp timeout 300 "$@" --hosts $((hosts - 1)) "${own[@]}" mpirun --oversubscribe --map-by slot \
        --host "$list" "$work/bin/mpi" hello >"$work/log" 2>&1; then
        echo "record.sh: $release over $component on $hosts hosts fails: $(grep -v '^hello' "$work/log" | head -3 | tr '\n' ' ')" >&2
        return
    fi
    # The number before the first dot counts a host's fences, those without data among them.
    for file in "$work"/seen/*; do
        [[ ${file##*/} = 0.* ]] && xxd -p -c 1000000 "$file"
    done >"$out/$release-$component-${ranks}x$hosts.txt"
    echo "$release $component $ranks ranks $hosts hosts: $(cat "$work"/seen/0.* | wc -c) bytes" >&2
}

# all RELEASE COMMAND...: each component and layout.
all() {
    local release=$1 component layout
    shift
    for component in tcp ofi ucx; do
        case $component in
        tcp) settings=(OMPI_MCA_pml=ob1 OMPI_MCA_btl=^ofi,openib,uct) ;;
        ofi) settings=(OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=tcp OMPI_MCA_opal_common_ofi_provider_include=tcp
            OMPI_MCA_mtl_ofi_provider_include=tcp) ;;
        ucx) settings=(OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
            OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any UCX_TLS=tcp,self,sm) ;;
        esac
        for layout in '4 2' '4 4' '16 4' '64 4'; do
            # shellcheck disable=SC2086
            record "$release" "$component" $layout "$@"
        done
    done
}

# The release of the Open MPI that the command reaches.
release_of() {
    "$@" mpirun --version | sed -n 's/.*Open MPI[^0-9]*//p' | head -n 1
}

all "$(release_of env)" "$project/tests/openmpi/cluster.sh"
for root in "$@"; do
    enter=("$project/tests/openmpi5/enter.sh" "$root" "$project" /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so "$work/bin")
    all "$(release_of "${enter[@]}")" "${enter[@]}" env -u OMPI_MCA_btl /mnt/project/tests/openmpi/cluster.sh
done
