#!/usr/bin/env bash
# Which lines of the server's engine the simulation (tests/simulate) runs, in percent, by file. Arguments: steps (a million) and first seed (1).
# COVERAGE_LINES=FILE writes the lines that it does not run, each with its file and number. Ends with status 1 below COVERAGE_LEAST (90) percent.
. "$(dirname "$0")/common.sh"

steps=${1:-1000000} seed=${2:-1}
target=$proof_target/coverage
bin=$(rustc --print sysroot)/lib/rustlib/$proof_triple/bin
[ -x "$bin/llvm-cov" ] || {
    echo "$0: llvm-cov is missing: rustup component add llvm-tools" >&2
    exit 1
}
# Build scripts and macros are instrumented, too, and write what they run, by default into the directory in which they are run.
LLVM_PROFILE_FILE=$target/build.profraw CARGO_TARGET_DIR=$target RUSTFLAGS="-C instrument-coverage" cargo build --profile simulate -p pmix-simulate
simulation=$target/simulate/pmix-simulate
rm -f "$target"/run.profraw
LLVM_PROFILE_FILE=$target/run.profraw "$simulation" "$steps" "$seed"
"$bin/llvm-profdata" merge -sparse -o "$target/run.profdata" "$target/run.profraw"
"$bin/llvm-cov" export -format=lcov -instr-profile "$target/run.profdata" "$simulation" >"$target/run.lcov"
python3 tests/proof/coverage.py "$target/run.lcov" server/src/engine "${COVERAGE_LEAST:-90}" "${COVERAGE_LINES:-/dev/null}"
