# What the scripts of this directory share; sourced, from anywhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# make sets it in the source archive, and cargo would take it in place of the scripts' RUSTFLAGS.
unset CARGO_ENCODED_RUSTFLAGS

proof_target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/proof
proof_triple=$(rustc -vV | sed -n 's/^host: //p')

# need COMMAND PACKAGE: ends with a clear line where a command is missing.
need() {
    command -v "$1" >/dev/null || {
        echo "$0: $1 is missing; Debian's package $2 has it" >&2
        exit 1
    }
}

# need_nightly COMPONENT...: the sanitizers and miri are parts of the nightly toolchain.
need_nightly() {
    rustup run nightly rustc --version >/dev/null 2>&1 || {
        echo "$0: the nightly toolchain is missing: rustup toolchain install nightly" >&2
        exit 1
    }
    local component
    for component in "$@"; do
        rustup component list --toolchain nightly --installed | grep -q "^$component" || {
            echo "$0: $component is missing: rustup component add --toolchain nightly $component" >&2
            exit 1
        }
    done
}

# planted_copy [SUFFIX]: a copy of the project for faults to be planted in, one for each script and suffix, as two may run at once; prints its
# directory.
planted_copy() {
    local copy=$proof_target/planted-$(basename "$0" .sh)${1:-}
    rm -rf "$copy"
    mkdir -p "$copy"
    tar --exclude=./target --exclude=./.git --exclude="./$(realpath --relative-to=. "$proof_target")" \
        --exclude=./tests/fuzz/{target,corpus,artifacts} -cf - . | tar -C "$copy" -xf -
    echo "$copy"
}

# plant FILE OLD NEW: puts a text in the place of another in a file of the copy that the variable `copy` names. The old one must be there once.
plant() {
    OLD=$2 NEW=$3 python3 - "$copy/$1" <<'PLANT'
import os, sys
text = open(sys.argv[1]).read()
times = text.count(os.environ["OLD"])
if times != 1:
    sys.exit(f"{sys.argv[1]}: this text, in whose place a fault is planted, is there {times} times: {os.environ['OLD']}")
open(sys.argv[1], "w").write(text.replace(os.environ["OLD"], os.environ["NEW"]))
PLANT
}

# expect_found NAME FILE SED PATTERN COMMAND...: plants a fault in a file of the copy that the variable `copy` names;
# the command, run there, must fail and say what PATTERN matches. The file is put back.
expect_found() {
    local name=$1 file=$2 edit=$3 pattern=$4 output
    shift 4
    sed -i "$edit" "$copy/$file"
    if cmp -s "$file" "$copy/$file"; then
        echo "$name: there is no place to plant it in $file any more" >&2
        exit 1
    fi
    if output=$(cd "$copy" && "$@" 2>&1); then
        echo "$name: planted and not found" >&2
        exit 1
    elif ! grep -Eq "$pattern" <<<"$output"; then
        echo "$output" | tail -n 40 >&2
        echo "$name: failed otherwise than by what should find it" >&2
        exit 1
    fi
    echo "planted: $name: found ($(grep -Eom1 "$pattern" <<<"$output"))"
    cp "$file" "$copy/$file"
}
