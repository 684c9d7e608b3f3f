#!/usr/bin/env bash
# Runs the tests of realm resolution and of encoding in dstore under miri, which reports undefined behaviour in Rust's memory model.
# These tests need neither files nor sockets, and take seconds there.
#
#   tests/proof/miri.sh
. "$(dirname "$0")/common.sh"
need_nightly miri rust-src

# Single tests of the other modules take minutes under miri.
MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir "$proof_target/miri" -p pmix-dstore --lib -- \
    realm_resolution:: codec::tests::encoding:: --skip typed_methods
