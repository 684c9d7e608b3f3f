#!/usr/bin/env bash
# record.sh LIBRARY OUT: a small job on two servers of the library in the directory LIBRARY, and the directory of the first server's
# namespace, with all in it, copied to OUT (docs/segment-format.md, 1). dstore/tests/data/directory-v* were made so:
#
#   tests/golden/record.sh target/debug dstore/tests/data/directory-v3
#   tests/golden/record.sh "$(.ci/former 0f446fb5)" dstore/tests/data/directory-v2
#   former=$(.ci/former 127fcce1); HOST_SOURCE=$former/../source/tests/programs tests/golden/record.sh $former dstore/tests/data/directory-v1
#
# The library of that commit does not have all calls of today's host: HOST_SOURCE names the directory of its own.
#
# The files are as they were but for the socket, which is left out, and the page, of which the zeros behind its last entry are left out:
# tests fill it up to its 65,536 bytes.
set -euo pipefail

library=$(realpath "$1")
out=$(realpath -m "$2")
programs=$(dirname "$(realpath "$0")")/../programs
host=$(realpath "${HOST_SOURCE:-$programs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in "$host/host" "$programs/golden"; do
    cc -O1 -Wall -Wextra -Werror $(pkg-config --cflags pmix) "$source.c" -o "$work/${source##*/}" $(pkg-config --libs pmix) -lpthread -ldl -lm
done
# As `libpmix.so.2`, in a directory of its own: cargo names the library otherwise.
mkdir "$work/lib"
ln -s "$(realpath "$library"/libpmix.so)" "$work/lib/libpmix.so.2"
# In a directory whose name the values have, too.
rm -rf /tmp/pmix-dstore-golden
mkdir -m 755 /tmp/pmix-dstore-golden
trap 'rm -rf "$work" /tmp/pmix-dstore-golden' EXIT
cd /
for name in ${!PMIX_@} ${!OMPI_@} ${!SLURM_@}; do unset "$name"; done
LD_LIBRARY_PATH=$work/lib PATH=$work:$PATH HOST_DIRECTORY=/tmp/pmix-dstore-golden host -s 2 -n 2 --map cyclic --nspace golden \
    --env PMIX_DSTORE_RECORD=1 --env PMIX_DSTORE_STATS=1 golden "cp -R \$DIRECTORY/. $work/copy" 2>"$work/log" || { cat "$work/log"; exit 1; }
rm -f "$work/copy/s/sock"
perl -0777 -pi -e 's/\0+\z//' "$work/copy/s/page-0"
rm -rf "$out"
mkdir -p "$out"
cp -R "$work/copy/." "$out"
chmod -R u+w "$out"
find "$out" -type f -exec ls -l {} +
