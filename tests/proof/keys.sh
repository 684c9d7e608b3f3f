#!/usr/bin/env bash
# Takes each key of docs/coverage.md out of the library, and demands that the tests of its row fail.
#
# The library is built once, from a copy of the sources with a plant in it: in the process where LOST_KEY names a key, or in the ranks where
# LOST_KEY_OF_RANKS does, that key has another name, wherever it comes from: the code that handles it, hosts, peers, programs. Each test of the row
# runs so, with the key lost in the server's process and, where it passes, in the ranks. Rows that say "taken;" have nothing that could
# be taken out, nor have those that are refused with their function.
#
# As many rows are run at once as there are processors.
#
#   tests/proof/keys.sh [ATTRIBUTE ...]      all, or these
#   tests/proof/keys.sh --check              only whether the plant still fits the sources
. "$(dirname "$0")/common.sh"

target=$proof_target/keys
copy=$(planted_copy)

# The plant.
python3 - "$copy" <<'PLANT'
import sys
def replace(path, old, new):
    path = sys.argv[1] + "/" + path
    text = open(path).read()
    assert text.count(old) == 1, f"{path}: {old}"
    open(path, "w").write(text.replace(old, new))
names = "dstore/src/model/names.rs"
replace(names, "        check(bytes, KEY_LEN_MAX)?;\n        Ok(Key(Cow::Owned(",
    "        let bytes = if is_lost(bytes) { b\"lost\" } else { bytes };\n"
    "        check(bytes, KEY_LEN_MAX)?;\n        Ok(Key(Cow::Owned(")
replace(names, "        match check(name.as_bytes(), KEY_LEN_MAX) {",
    "        let name = if is_lost(name.as_bytes()) { \"lost\" } else { name };\n        match check(name.as_bytes(), KEY_LEN_MAX) {")
open(sys.argv[1] + "/" + names, "a").write("""
/// Whether this key is the one that is lost in this process.
pub fn is_lost(key: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    static LOST: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
    let lost = LOST.get_or_init(|| {
        let is_rank = std::env::var_os("PMIX_RANK").is_some();
        let name = if is_rank { "LOST_KEY_OF_RANKS" } else { "LOST_KEY" };
        std::env::var_os(name)
    });
    lost.as_ref().is_some_and(|lost| lost.as_bytes() == key)
}
""")
replace("dstore/src/model/mod.rs", "pub use names::{", "pub use names::{is_lost, ")
# The directives of a Get: those of Rust callers, and those of C.
replace("client/src/get_options.rs", "self.key.as_bytes() == &name[..N - 1]",
    "self.key.as_bytes() == &name[..N - 1] && !pmix_dstore::model::is_lost(&name[..N - 1])")
replace("ffi/src/api/get.rs", "self.key_bytes().starts_with(name)",
    "self.key_bytes().starts_with(name) && !pmix_dstore::model::is_lost(&name[..N - 1])")
# Read out of the caller's structures.
replace("ffi/src/convert/topology.rs", "name.eq(key.bytes()) &&",
    "name.eq(key.bytes()) && !pmix_dstore::model::is_lost(key.as_bytes()) &&")
# Keys of queries are texts.
replace("server/src/engine/query.rs", "let key = key.to_str().map_err(|_| Status::ERR_NOT_FOUND)?;",
    "let key = key.to_str().ok().filter(|key| !pmix_dstore::model::is_lost(key.as_bytes())).ok_or(Status::ERR_NOT_FOUND)?;")
replace("tools/src/run/table.rs", "key.to_str().ok().and_then(|key| table.value(key))",
    "key.to_str().ok().filter(|key| !pmix_dstore::model::is_lost(key.as_bytes())).and_then(|key| table.value(key))")
# Read where the host has it.
replace("ffi/src/convert/registration.rs", "DataType::DATA_ARRAY.0 && has_key(info, proc_data)",
    "DataType::DATA_ARRAY.0 && has_key(info, proc_data) && !pmix_dstore::model::is_lost(b\"pmix.pdata\")")
PLANT
[ "${1:-}" != --check ] || exit 0

build() {
    (cd "$copy" && CARGO_TARGET_DIR=$target cargo "$@" 2>&1) || exit 1
}
build build -p pmix-ffi -p pmix-tools
# The tests of rows that name no file are in coverage.rs.
mapfile -t programs < <((echo tests/tests/coverage.rs && grep -o 'tests/tests/[a-z_]*\.rs' docs/coverage.md) | sort -u)
programs=("${programs[@]##*/}")
tests=$(build test --no-run --lib -p pmix-client -p pmix-server &&
    build test --no-run -p pmix-tests $(printf -- '--test %s ' "${programs[@]%.rs}"))
ln -sfn libpmix.so "$target/debug/libpmix.so.2"

program_of() { # of a test's file
    local program
    case $1 in
        tests/tests/*) program=$(basename "$1" .rs) ;;
        *) program=pmix_${1%%/*} ;;
    esac
    grep -o "[^ (]*/deps/$program-[0-9a-f]*" <<<"$tests"
}
# The path of a unit test in its crate: server/src/engine/tests.rs is engine::tests, server/src/engine/tests/queries.rs is
# engine::tests::queries, server/src/config.rs is config::tests, as client/src/config_tests.rs would be.
name_of() {
    local module=${1#*/src/}
    module=${module%.rs}
    case $1 in
        tests/tests/*) echo "$2" ;;
        */tests.rs | */tests/*.rs) echo "${module//\//::}::$2" ;;
        *_tests.rs) module=${module%_tests} && echo "${module//\//::}::tests::$2" ;;
        *) echo "${module//\//::}::tests::$2" ;;
    esac
}
said=$target/said
# A test may wait for ever for what is lost: then it has failed after so many seconds.
patience=120 waits="it waits for ever"
run() { # VARIABLE KEY FILE TEST: whether the test passes; what it says is in $said
    local program
    program=$(program_of "$3")
    [ "${program#/}" != "$program" ] || program=$copy/$program
    (cd "$copy/tests" && env "$1=$2" PMIX_TEST_RELEASE="$target/debug" RUST_BACKTRACE=0 \
        timeout "$patience" "$program" --exact "$(name_of "$3" "$4")" || { [ $? != 124 ] || echo "$waits"; }) \
        >"$said" 2>&1 && grep -q "^test result: ok. 1 passed" "$said"
}
# Prints file and name of each test of a row.
tests_of() {
    local test all
    IFS=',' read -ra all <<<"$(tr -d '`' <<<"$1")"
    for test in "${all[@]}"; do
        test=$(sed 's/^ *//; s/ *$//' <<<"$test")
        case $test in
            *": "*) echo "${test%%: *} ${test##*: }" ;;
            *) echo "tests/tests/coverage.rs $test" ;;
        esac
    done
}
# Prints which tests of a row do not fail without its key.
try_row() { # ATTRIBUTE KEY TESTS
    local file name
    while read -r file name; do
        if run LOST_KEY "$2" "$file" "$name" && run LOST_KEY_OF_RANKS "$2" "$file" "$name"; then
            echo "$1: $name passes without it"
        elif ! grep -Eq "test result: FAILED. 0 passed; 1 failed|^$waits\$" "$said"; then
            echo "$1: $name did not run"
        fi
    done < <(tests_of "$3")
}

rows=() kept=0
while IFS='|' read -r _ attribute key _ _ what row_tests _; do
    attribute=$(tr -d '` ' <<<"$attribute") key=$(tr -d '` ' <<<"$key")
    [ $# = 0 ] || [[ " $* " == *" $attribute "* ]] || continue
    case $what in
        " taken;"* | " refused with the function"* | *"nobody is told it by this key"*) kept=$((kept + 1)) ;;
        *) rows+=("$attribute|$key|$row_tests") ;;
    esac
done < <(grep '^| `PMIX_' docs/coverage.md)

# With all keys the tests pass. Otherwise it would be no wonder that they fail.
while read -r file name; do
    run LOST_KEY "" "$file" "$name" || {
        echo "$file: $name does not pass with all keys, or there is no test of this name" >&2
        cat "$said" >&2
        exit 1
    }
done < <(for row in "${rows[@]}"; do tests_of "${row##*|}"; done | sort -u)

workers=$(nproc) pids=()
for ((worker = 0; worker < workers; worker++)); do
    said=$target/said.$worker
    for ((row = worker; row < ${#rows[@]}; row += workers)); do
        IFS='|' read -r attribute key row_tests <<<"${rows[row]}"
        try_row "$attribute" "$key" "$row_tests"
    done >"$target/passed.$worker" &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid"
done
cat "$target"/passed.* | sort
failed=$(cat "$target"/passed.* | wc -l)
rm "$target"/passed.*
echo "${#rows[@]} rows, each test of which was run without its key: $failed did not fail; $kept rows have nothing to lose"
[ "$failed" = 0 ]
