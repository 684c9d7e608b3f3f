#!/usr/bin/env bash
# The tests under AddressSanitizer (with leak detection) or ThreadSanitizer (with an instrumented standard library): those
# of all crates, and those of tests/tests that run C programs on the library as client, as server and as both. Then a
# fault is planted, which must be reported.
#
#   tests/proof/sanitizer.sh address|thread [clean]
#   tests/proof/sanitizer.sh thread soak [ARGUMENTS]     instead, the part `threads` of `make soak` (tests/soak) under ThreadSanitizer
. "$(dirname "$0")/common.sh"

sanitizer=${1:-}
build_std=()
case $sanitizer in
address)
    need_nightly
    runtime=asan
    # What is too large for memory is asked for on purpose, and answered as malloc does.
    export ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1
    ;;
thread)
    need_nightly rust-src
    runtime=tsan
    build_std=(-Zbuild-std)
    export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1
    # A backtrace of a planned panic takes minutes in an instrumented standard library.
    export RUST_BACKTRACE=0
    ;;
*)
    echo "usage: $0 address|thread [clean]" >&2
    exit 64
    ;;
esac

# An explicit target leaves build scripts and procedural macros as they are.
sanitized=("${build_std[@]}" --target "$proof_triple" --target-dir "$proof_target/$sanitizer")
nightly() {
    RUSTFLAGS="-Zsanitizer=$sanitizer" cargo +nightly "$1" "${sanitized[@]}" "${@:2}"
}

# The harness itself is an ordinary program; library, launcher and C programs are not.
real_peers() {
    PROOF_SANITIZER=$sanitizer \
        PROOF_RUNTIME=$(rustup run nightly rustc --print sysroot)/lib/rustlib/$proof_triple/lib/librustc-nightly_rt.$runtime.a \
        CC=$PWD/tests/proof/cc \
        PMIX_TEST_PATIENCE=10 \
        PMIX_TEST_RELEASE=$proof_target/$sanitizer/$proof_triple/debug \
        cargo test --target-dir "$proof_target/harness-$sanitizer" --no-fail-fast -p pmix-tests "$@"
}

if [ "${2:-}" = soak ]; then
    [ "$sanitizer" = thread ] || exit 64
    nightly build -p pmix-ffi -p pmix-tools
    cargo build --target-dir "$proof_target/harness-$sanitizer" -p pmix-soak
    PROOF_SANITIZER=$sanitizer PMIX_TEST_PATIENCE=10 CC=$PWD/tests/proof/cc \
        PROOF_RUNTIME=$(rustup run nightly rustc --print sysroot)/lib/rustlib/$proof_triple/lib/librustc-nightly_rt.$runtime.a \
        PMIX_TEST_RELEASE=$proof_target/$sanitizer/$proof_triple/debug \
        "$proof_target/harness-$sanitizer/debug/pmix-soak" --out target/soak/tsan run threads "${@:3}"
    exit
fi
# Ordinary C programs cannot be linked with an instrumented library. How much memory a message may take is counted by an
# allocator of the test's own, and needs no second opinion on threads.
skip=(--skip macros_ --skip hosts_are_asked)
[ "$sanitizer" = thread ] && skip+=(--skip malformed:: --skip cost_of_job_info)
# Documentation is compiled without the sanitizer, and cannot be linked with what has it.
nightly test --no-fail-fast --lib --tests -p pmix-dstore -p pmix-client -p pmix-server -p pmix-ffi -- "${skip[@]}"
nightly build -p pmix-ffi -p pmix-tools
# Names are not looked up: the helper process that does it would count as left behind. What the stock library on the
# other side leaks is not ours.
without_leaks() {
    LSAN_OPTIONS=suppressions=$PWD/tests/proof/leaks.supp:print_suppressions=0 ASAN_OPTIONS=$ASAN_OPTIONS:symbolize=0 \
        real_peers --test host -- "$@"
}
case $sanitizer in
address)
    without_leaks --skip builds_of_different
    ASAN_OPTIONS=$ASAN_OPTIONS:symbolize=0 real_peers --test calls -- calls_of_one_process --skip wrong_calls
    # These programs let go of nothing that they are given.
    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 real_peers --test calls -- wrong_calls_of_one_process
    # Memory that is freed stays in quarantine, so that a process is larger after a thousand jobs.
    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 real_peers --test wrong_use --test dying --test cycles -- \
        --skip a_server_outlives_its_jobs
    ;;
thread)
    # 16 threads with all calls, and 16 that call while the process is finalized and initialised again. (client.c waits for
    # callbacks by volatile words, which is a race of its own.)
    real_peers --test wrong_use -- sixteen_threads another_thread_finalizes finalized_too_often
    # Threads that read while values are put again, and segments merged and replaced.
    real_peers --test generations
    ;;
esac
[ "${2:-}" = clean ] && exit

copy=$(planted_copy)
view=dstore/src/segment/read/view.rs
stress=(nightly test -p pmix-dstore --lib segment::tests::stress)
case $sanitizer in
address)
    expect_found "a set of segments that is freed while lookups use it" $view '/sets\.push(set);/d' \
        "AddressSanitizer: heap-use-after-free" "${stress[@]}"
    # The suppressions must not take it in: in a client and in a server, beside the stock library and alone.
    leaks() {
        local case output
        nightly build -p pmix-ffi -p pmix-tools || return 1
        for case in both_ends_ours our_clients_under_a_stock_server stock_clients_under_our_server; do
            ! output=$(without_leaks --exact "$case" 2>&1) || return 0
            grep -q "LeakSanitizer: detected memory leaks" <<<"$output" || { echo "$output" && return 1; }
        done
        echo "leaks in all cases"
        return 1
    }
    expect_found "a block that is lost with each copied text" ffi/src/memory.rs \
        's/^    let memory = unsafe { libc::malloc(bytes.len() + zeros) }/    unsafe { libc::malloc(bytes.len() + zeros) };\n&/' \
        "leaks in all cases" leaks
    ;;
thread)
    expect_found "SET, the store of the pointer relaxed" $view \
        "/SET: pairs with the acquire/,/Release/s/Ordering::Release/Ordering::Relaxed/" \
        "ThreadSanitizer: data race" "${stress[@]}"
    ;;
esac
