#!/usr/bin/env bash
# The steps of tests/aarch64/build.sh inside the root directory.
set -euo pipefail
cd /mnt/project
target=aarch64-unknown-linux-gnu
# rustup's pinned release is not the one of Debian.
export CARGO_HOME=/mnt/cargo CARGO_TARGET_DIR=/mnt/target CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc

fail() {
    echo "FAIL: $1" >&2
    exit 1
}

rustc --version
aarch64-linux-gnu-gcc --version | head -n 1
cargo rustc --offline --locked --target "$target" -p pmix-ffi --lib --crate-type cdylib
cargo build --offline --locked --target "$target" -p pmix-tools
built=$CARGO_TARGET_DIR/$target/debug
for file in libpmix.so pmixrun pmixctl; do
    header=$(aarch64-linux-gnu-readelf -h "$built/$file")
    grep -q 'Machine: *AArch64' <<<"$header" || fail "$file: $header"
    echo "$file: AArch64, $(stat -c %s "$built/$file") bytes, needs $(aarch64-linux-gnu-readelf -d "$built/$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | paste -sd ' ')"
done
aarch64-linux-gnu-readelf -d "$built/libpmix.so" | grep -q 'SONAME.*\[libpmix.so.2\]' || fail "the name of the library"
# As many public names as the table of functions has.
exported=$(aarch64-linux-gnu-nm -D --defined-only "$built/libpmix.so" | grep -c ' T PMIx_')
stated=$(awk -F '\t' '$1 ~ /^PMIx_/ { print $1 }' ffi/abi/functions.tsv | sort -u | wc -l)
[ "$exported" -eq "$stated" ] || fail "the library exports $exported functions PMIx_*, the table has $stated"
echo "libpmix.so exports the $exported functions of ffi/abi/functions.tsv"
# A C program that is compiled with the headers and linked with the library.
ln -sfn libpmix.so "$built/libpmix.so.2"
aarch64-linux-gnu-gcc -std=c99 -Wall -Wextra -Werror -I ffi/include ffi/tests/macros.c -o "$built/macros" -L "$built" -lpmix
# The root has the libraries of the other processor: the emulator needs no directory with them.
qemu-aarch64 -E LD_LIBRARY_PATH="$built" "$built/macros" | head -n 1
qemu-aarch64 "$built/pmixctl" info | head -n 1
qemu-aarch64 "$built/pmixrun" --version
