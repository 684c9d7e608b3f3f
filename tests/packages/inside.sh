#!/usr/bin/env bash
# The steps of tests/packages/run.sh, inside the root directory.
#
#   inside.sh PACKAGE
set -euo pipefail
package=$1
export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 \
    PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 RING_LIBRARY=all
triplet=$(gcc -print-multiarch)
home=/usr/lib/$triplet/pmix-dstore

fail() {
    echo "FAIL: $1" >&2
    exit 1
}

step() {
    printf '\n== %s\n' "$1"
}

# said TEXT PATTERN WHAT
said() {
    grep -qE -- "$2" <<<"$1" || fail "$3: $1"
}

# What dpkg, the loader and the file system know, but for logs, caches and what apt has fetched.
state() {
    dpkg-query -W -f '${binary:Package} ${Version} ${db:Status-Status}\n'
    dpkg-divert --list
    ldconfig -p
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /mnt -o -path /tmp -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /etc/ld.so.cache \) -prune -o -type f -printf '%p %m %u:%g ' -exec sha256sum {} \; \
        -o -printf '%p %y %m %u:%g %l\n' | LC_ALL=C sort
    find /var/lib/dpkg/info | LC_ALL=C sort
}

# job WHOSE: 4 ranks under mpirun, each of which says which library it has mapped. WHOSE is ours or stock.
job() {
    local out
    out=$(timeout 120 mpirun --oversubscribe -np 4 /mnt/ring 2>&1) || fail "mpirun: $out"
    out=$(grep -oE 'server that offers [^ ]+|libraries .*' <<<"$out" | sort -r | uniq -c | sed 's/^ *//')
    sed 's/^4 server that/mpirun -np 4: the 4 ranks have a server that/; s/^4 libraries/    and have mapped/' <<<"$out"
    case $1 in
    ours)
        said "$out" "^4 libraries .*$home/lib/libpmix.so.2( |$)" "not all ranks have this library"
        said "$out" "^4 server that offers pmix-dstore" "the server is not this library's"
        ;;
    stock)
        said "$out" "^4 libraries /usr/lib/$triplet/pmix2/lib/libpmix\.so\.2\.[0-9.]*$" "not all ranks have the stock library"
        ! grep -q 'offers pmix-dstore' <<<"$out" || fail "the server is this library's"
        ;;
    esac
}

# The server's side: the library that a rank's mpirun has mapped, told by the rank's shell.
server() {
    local out
    # shellcheck disable=SC2016 # the rank's shell expands it
    out=$(timeout 120 mpirun -np 1 sh -c 'grep -oE "/[^ ]*libpmix[^ ]*" /proc/$PPID/maps | sort -u; echo end' 2>&1) || fail "mpirun: $out"
    out=$(grep -v '^end$' <<<"$out" | paste -sd ' ')
    echo "mpirun itself has $out"
    case $1 in
    ours) said "$out" "$home/lib/libpmix.so.2" "mpirun has not this library" ;;
    stock) ! grep -q pmix-dstore <<<"$out" || fail "mpirun has this library" ;;
    esac
}

# The switch, killed before its command COUNT: fails once it has fewer commands.
killed() {
    local name=/mnt/killed
    mkdir -p "$name"
    cat >"$name/command" <<'KILLED'
#!/bin/sh
count=$(($(cat /mnt/count) - 1))
echo "$count" >/mnt/count
[ "$count" -gt 0 ] || kill -KILL 0
exec "/usr/bin/${0##*/}" "$@"
KILLED
    chmod +x "$name/command"
    for command in dpkg-divert mv cp ln rm; do
        ln -sf command "$name/$command"
    done
    echo "$2" >/mnt/count
    # A group of its own, which is killed whole.
    ! PATH=$name:$PATH setsid --wait pmix-dstore-switch "$1" >/dev/null 2>&1
}

# The switch, killed before each of its commands in turn: slurmstepd's path always leads to a library, and the next call sets all right.
interrupted() {
    local count=1 path
    while killed "$1" "$count"; do
        for path in "/usr/lib/$triplet/pmix2/lib"/libpmix.so{,.2}; do
            [ -e "$path" ] || fail "killed before command $count of $1: $path leads to nothing"
        done
        pmix-dstore-switch "$1" >/dev/null || fail "$1, after one that was killed before command $count"
        path=$(pmix-dstore-switch status)
        said "$path" "^slurmstepd: $2" "$1, after one that was killed before command $count"
        [ "$(grep -c "$2" <<<"$path")" -eq "$(wc -l <<<"$path")" ] || fail "$1, after one that was killed before command $count: $path"
        pmix-dstore-switch "$3" >/dev/null
        count=$((count + 1))
    done
    [ "$count" -gt 5 ] || fail "$1 was killed only $((count - 1)) times"
    echo "$1 was killed at $((count - 1)) places"
}

. /etc/os-release
echo "$PRETTY_NAME, $(dpkg-query -W -f '${Package} ${Version}\n' 'libpmix2*' openmpi-bin | grep ' .' | paste -sd ' ')"
if dpkg -s libpmix2-dstore >/dev/null 2>&1; then
    echo "removing the package that an earlier run has left"
    apt-get remove -y libpmix2-dstore >/dev/null 2>&1
fi
mpicc -O1 -Wall /mnt/ring.c -o /mnt/ring
state >/mnt/before
job stock
server stock

step "apt-get install $(basename "$package"): nothing changes for programs"
apt-get install -y --no-install-recommends "$package" >/mnt/apt 2>&1 || fail "apt-get install: $(cat /mnt/apt)"
dpkg -s libpmix2-dstore | grep -E '^(Version|Depends):'
[ -z "$(dpkg --verify libpmix2-dstore)" ] || fail "dpkg --verify"
pmix-dstore-switch status
said "$(pmix-dstore-switch status)" '^programs: the stock library' "the switch is on by itself"
job stock

step "one job by LD_LIBRARY_PATH"
out=$(timeout 120 mpirun --oversubscribe -np 4 env "LD_LIBRARY_PATH=$home/lib" /mnt/ring 2>&1) || fail "ranks by LD_LIBRARY_PATH: $out"
[ "$(grep -c "libraries $home/lib/libpmix.so.2$" <<<"$out")" -eq 4 ] || fail "ranks by LD_LIBRARY_PATH: $out"
echo "mpirun -np 4 env LD_LIBRARY_PATH=$home/lib: the 4 ranks have mapped $home/lib/libpmix.so.2 alone"

step "pmixrun"
out=$(timeout 120 pmixrun -n 4 --report /mnt/ring 2>&1) || fail "pmixrun: $out"
said "$out" '4 of 4 in shared memory' "pmixrun --report"
grep -E 'in shared memory' <<<"$out"

step "headers by pkg-config"
# shellcheck disable=SC2046 # words
gcc /mnt/macros.c -o /mnt/macros $(PKG_CONFIG_PATH=$home/lib/pkgconfig pkg-config --cflags --libs pmix)
said "$(/mnt/macros)" pmix-dstore "a program that was compiled with this library"
/mnt/macros | head -n 1

step "pmix-dstore-switch on"
pmix-dstore-switch on
pmixctl info | sed -n '/^A program/,/^$/p'
said "$(pmixctl info)" "^ *first +ldconfig +$home/.* this library" "pmixctl info"
job ours
server ours
ldconfig
job ours

step "an upgrade of the package, and of the stock one, keeps the choice"
dpkg -i "$package" >/mnt/apt 2>&1 || fail "dpkg -i: $(cat /mnt/apt)"
stock=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libpmix2*' | sed -n 's/^installed \(libpmix2\(t64\)\?\)$/\1/p')
apt-get install -y --reinstall "$stock" >/mnt/apt 2>&1 || fail "apt-get install --reinstall $stock: $(cat /mnt/apt)"
pmix-dstore-switch status
said "$(pmix-dstore-switch status)" '^programs: this library' "after upgrades"
[ "$(pmix-dstore-switch status | grep -c '^slurmstepd: this library')" -ge 1 ] || fail "slurmstepd's path after upgrades"
job ours

step "pmix-dstore-switch off, and on again"
pmix-dstore-switch off
job stock
pmix-dstore-switch on programs >/dev/null
job ours
pmix-dstore-switch on >/dev/null

step "the switch is killed at each of its commands"
pmix-dstore-switch off >/dev/null
interrupted on "this library" off
pmix-dstore-switch on >/dev/null
interrupted off "the stock library" on
pmix-dstore-switch on >/dev/null
job ours

step "apt-get remove, while it is switched on"
apt-get remove -y libpmix2-dstore >/mnt/apt 2>&1 || fail "apt-get remove: $(cat /mnt/apt)"
! grep -iE 'warning|not empty' /mnt/apt || fail "apt-get remove complains"
job stock
server stock
rm -f /var/lib/dpkg/diversions-old
state >/mnt/after
diff /mnt/before /mnt/after >/mnt/difference || fail "the system is not as it was: $(cat /mnt/difference)"
echo "packages, diversions, the loader's cache and $(grep -c '^/' /mnt/after) files are as before"
