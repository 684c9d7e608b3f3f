#!/bin/bash
# Writes ffi/start.ld: the order of the functions that a rank of benches/programs/wire.c runs. Run it after `make build`; needs valgrind.
#
#   ffi/start.sh [--check] [DIRECTORY of libpmix.so.2]
#
# With --check it writes nothing. It fails if more than a tenth of these functions are not in ffi/start.ld, since their names have changed.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
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

# Names become patterns, without the parts that change with each compilation: hashes, and the numbers that the compiler appends.
patterns() {
    sed -E "s/'[0-9]+$//; s/^(_R.*)\.[0-9]+$/\1*/; s/17h[0-9a-f]{16}E.*/17h*/; s/Cs[0-9A-Za-z]+_/Cs*_/g"
}
grep -hE '^c?fn=\([0-9]+\) ' "$work"/calls.* | cut -d' ' -f2 | grep -E '^(_ZN|_R|PMIx_)' | patterns | sort -u > "$work/run"
nm -S --radix=d "$release/libpmix.so.2" | awk '$3 ~ /[tT]/ { print $2 + 0, $4 }' | patterns |
    awk '{ len[$2] += $1 } END { for (name in len) print name, len[name] }' | sort > "$work/all"
# A pattern of generic code may stand for many functions: such a pattern comes last.
join "$work/run" "$work/all" | sort -k 2,2n -k 1,1 | cut -d' ' -f1 > "$work/order"

if [ -n "$check" ]; then
    sed -n 's/^    \*(\.text\.\([^ ]*\) .*/\1/p' ffi/start.ld | sort > "$work/listed"
    sort "$work/order" | comm -23 - "$work/listed" > "$work/missing"
    missing=$(wc -l < "$work/missing") all=$(wc -l < "$work/order")
    if [ "$all" -lt 100 ] || [ $((missing * 10)) -gt "$all" ]; then
        echo "ffi/start.ld lacks $missing of the $all functions that a rank runs; ffi/start.sh writes it" >&2
        sed 's/^/  /' "$work/missing" >&2
        exit 1
    fi
    exit 0
fi
{
    sed '/^  {$/q' ffi/start.ld
    sed 's/.*/    *(.text.& .text.unlikely.&)/' "$work/order"
    printf '  }\n}\nINSERT BEFORE .text;\n'
} > "$work/start.ld"
mv "$work/start.ld" ffi/start.ld
