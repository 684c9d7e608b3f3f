#!/bin/bash
# Writes start.ld anew: the functions that a rank of benches/programs/wire.c runs, as valgrind sees them. After `make build`; wants valgrind.
#
#   ffi/start.sh [DIRECTORY of libpmix.so.2]
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
release=$(realpath "${1:-target/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for program in host wire; do
    cc -O2 -w -Iffi/include "benches/programs/$program.c" -o "$work/$program" -L"$release" -lpmix -lpthread
done
printf '#!/bin/sh\nexec valgrind -q --tool=callgrind --demangle=no --callgrind-out-file=%s %s\n' \
    "'$work/calls.%p'" "'$work/wire' --peers" > "$work/rank"
chmod +x "$work/rank"
LD_LIBRARY_PATH=$release "$work/host" --clients 2 "$work/rank" > /dev/null

# Without what the compiler makes of its own and the crates' versions.
patterns() {
    sed -E "s/'[0-9]+$//; s/17h[0-9a-f]{16}E.*/17h*/; s/Cs[0-9A-Za-z]+_/Cs*_/g"
}
grep -hE '^c?fn=\([0-9]+\) ' "$work"/calls.* | cut -d' ' -f2 | grep -E '^(_ZN|_R|PMIx_)' | patterns | sort -u > "$work/run"
nm -S --radix=d "$release/libpmix.so" | awk '$3 ~ /[tT]/ { print $2 + 0, $4 }' | patterns |
    awk '{ len[$2] += $1 } END { for (name in len) print name, len[name] }' | sort > "$work/all"

# What many types share under one name comes with all of them, and lies last.
{
    sed '/^  {$/q' ffi/start.ld
    join "$work/run" "$work/all" | sort -k 2,2n -k 1,1 | cut -d' ' -f1 | sed 's/.*/    *(.text.& .text.unlikely.&)/'
    printf '  }\n}\nINSERT BEFORE .text;\n'
} > "$work/start.ld"
mv "$work/start.ld" ffi/start.ld
