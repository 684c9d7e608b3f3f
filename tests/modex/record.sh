#!/usr/bin/env bash
# Records what Open MPI publishes and reads, with the stock libpmix in each process.
#
#   tests/modex/record.sh published DIRECTORY [ROOT...]
#   tests/modex/record.sh reads FILE [ROOT...]
#
# Open MPI is this machine's and that of each ROOT, a root directory with another Debian release (tests/openmpi5/root.sh makes one);
# the hosts are namespaces of this machine. Needs root and mpicc.
#
# published: the contributions that the library of each host hands its host process in the first fence, of jobs of 4 ranks on 2 hosts,
# 16 on 4, 64 on 4 and 4 on 4, over tcp, ofi and ucx where these components are there. DIRECTORY gets a file
# RELEASE-COMPONENT-RANKSxHOSTS.txt for each job that succeeds: a line for each host, in hexadecimal.
#
# reads: which keys the ranks of a job get from MPI_Init to MPI_Finalize, with one allreduce, over tcp, for each way in which Open MPI
# exchanges them. FILE gets a line for each kind of Get (tests/modex/README.md).
set -euo pipefail

project=$(realpath "$(dirname "$0")/../..")
what=$1
out=$(realpath "$2")
shift 2
# Below /tmp, which is the roots' as well.
work=$(mktemp -d /tmp/modex.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/tmp"
gcc -O1 -Wall -shared -fPIC -I"$project/ffi/include" "$project/tests/modex/record.c" -o "$work/bin/record.so" -ldl
gcc -O1 -Wall -shared -fPIC -I"$project/ffi/include" "$project/tests/programs/gets.c" -o "$work/bin/gets.so" -ldl
mpicc -O1 "$project/tests/programs/mpi.c" -o "$work/bin/mpi"
mpicc -O1 "$project/tests/programs/wireup.c" -o "$work/bin/wireup"

# job RELEASE RANKS HOSTS "PROGRAM" COMMAND...: the command is followed by the script that makes hosts. `settings` are Open MPI's,
# `watch` is what every process of the job has in its environment.
job() {
    local release=$1 ranks=$2 hosts=$3 program=$4 each daemon i list
    shift 4
    each=$((ranks / hosts))
    list=login:$each
    for ((i = 0; i + 1 < hosts; i++)); do list+=,n$i:$each; done
    rm -rf "$work/seen"
    mkdir "$work/seen"
    case $release in
    4.*) daemon="env ${watch[*]} orted" ;;
    *) daemon="env ${watch[*]} prted" ;;
    esac
    local own=(env "${watch[@]}" "${settings[@]}"
        "PRTE_MCA_prte_launch_agent=$daemon" "OMPI_MCA_orte_launch_agent=$daemon"
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1)
    # shellcheck disable=SC2086
    TMPDIR=$work/tmp timeout "${limit:-300}" "$@" --hosts $((hosts - 1)) "${own[@]}" mpirun --oversubscribe --map-by slot \
        --host "$list" "$work"/bin/$program >"$work/log" 2>&1
}

# What a failed job says first.
failed() {
    echo "record.sh: $1 fails: $(grep -av '^hello\|^wired' "$work/log" | head -3 | tr '\n' ' ')" >&2
}

# published RELEASE COMMAND...: each component and layout.
published() {
    local release=$1 component layout ranks hosts
    shift
    # Release 7.0 compresses contributions, by zstd where it is built with that.
    watch=("LD_PRELOAD=$work/bin/record.so" "RECORD_DIR=$work/seen" PMIX_MCA_pcompress_base_limit=1000000000)
    for component in tcp ofi ucx; do
        settings_of "$component"
        for layout in '4 2' '4 4' '16 4' '64 4'; do
            read -r ranks hosts <<<"$layout"
            if ! job "$release" "$ranks" "$hosts" 'mpi hello' "$@"; then
                failed "$release over $component on $hosts hosts"
                continue
            fi
            # The number before the first dot counts a host's fences, those without data among them.
            for file in "$work"/seen/*; do
                [[ ${file##*/} = 0.* ]] && xxd -p -c 1000000 "$file"
            done >"$out/$release-$component-${ranks}x$hosts.txt"
            echo "$release $component $ranks ranks $hosts hosts: $(cat "$work"/seen/0.* | wc -c) bytes" >&2
        done
    done
}

settings_of() {
    case $1 in
    tcp) settings=(OMPI_MCA_pml=ob1 OMPI_MCA_btl=^ofi,openib,uct) ;;
    ofi) settings=(OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=tcp OMPI_MCA_opal_common_ofi_provider_include=tcp
        OMPI_MCA_mtl_ofi_provider_include=tcp) ;;
    ucx) settings=(OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
        OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any UCX_TLS=tcp,self,sm) ;;
    esac
}

# reads RELEASE COMMAND...: each layout and way to exchange, `pmix_base_async_modex` and `pmix_base_collect_data`.
reads() {
    local release=$1 layout ranks hosts way async collect try
    shift
    watch=("LD_PRELOAD=$work/bin/gets.so" "GETS_LOG=$work/seen/log")
    for layout in '4 2' '16 4' '64 4'; do
        for way in '0 1' '1 1' '0 0' '1 0'; do
            read -r ranks hosts <<<"$layout"
            read -r async collect <<<"$way"
            settings_of tcp
            settings+=("OMPI_MCA_pmix_base_async_modex=$async" "OMPI_MCA_pmix_base_collect_data=$collect")
            # With asynchronous modex stock servers lose jobs.
            for try in 1 2 3; do
                if limit=$((10 + ranks)) job "$release" "$ranks" "$hosts" wireup "$@"; then
                    "$project/tests/modex/reads.py" "$ranks" "$hosts" \
                        "$release"$'\t'"${ranks}x$hosts"$'\t'"$async"$'\t'"$collect" "$work"/seen/log.* >>"$out"
                    echo "$release $ranks ranks $hosts hosts, async_modex $async, collect_data $collect: try $try" >&2
                    continue 2
                fi
            done
            failed "$release on $hosts hosts, async_modex $async, collect_data $collect"
        done
    done
}

# The release of the Open MPI that the command reaches.
release_of() {
    "$@" mpirun --version | sed -n 's/.*Open MPI[^0-9]*//p' | head -n 1
}

case $what in
published) ;;
reads) printf 'release\tranks x hosts\tasync_modex\tcollect_data\tof\tkey\tdirectives\taskers\tGets of each\tprocesses asked by each\tfound\n' >"$out" ;;
*)
    echo "record.sh: published or reads" >&2
    exit 2
    ;;
esac
"$what" "$(release_of env)" "$project/tests/openmpi/cluster.sh"
for root in "$@"; do
    enter=("$project/tests/openmpi5/enter.sh" "$root" "$project" /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so "$work/bin")
    "$what" "$(release_of "${enter[@]}")" "${enter[@]}" env -u OMPI_MCA_btl /mnt/project/tests/openmpi/cluster.sh
done
