#!/usr/bin/env bash
# Makes the facade through which a process gets this library and the stock one, in this order.
#
#   ffi/facade.sh FILE
#
# PRRTE's daemons call functions of the stock library that no PMIx header declares, and get them from it; all public functions are to be
# this library's. The facade has the name that they load, exports nothing and needs two libraries, which are links in its directory:
# libpmix-dstore.so leads to this library, libpmix-stock.so to the system's (`pmixctl prrte --link` makes it). The loader looks a name up
# in the order in which libraries are needed.
set -euo pipefail

file=${1:?usage: $0 FILE}
stand_ins=$(mktemp -d)
trap 'rm -rf "$stand_ins"' EXIT
# Linked with empty ones, as the real ones need not be there yet, and both call themselves libpmix.so.2.
# shellcheck disable=SC2086 # CC may be a command with arguments, such as `ccache gcc`
empty() { ${CC:-cc} -shared -nostdlib -x c /dev/null "$@"; }
for name in dstore stock; do
    empty -Wl,-soname,"libpmix-$name.so" -o "$stand_ins/libpmix-$name.so"
done
# An old-style run path (RPATH) precedes LD_LIBRARY_PATH: the three files of one directory belong together. The libraries that the
# stock one needs are searched there as well, which has no others.
# shellcheck disable=SC2016 # the loader expands $ORIGIN
empty -Wl,-soname,libpmix.so.2 -Wl,--disable-new-dtags -Wl,-rpath,'$ORIGIN' -Wl,--no-as-needed \
    -L"$stand_ins" -lpmix-dstore -lpmix-stock -o "$file"
