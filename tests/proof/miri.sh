#!/usr/bin/env bash
# miri over tests of dstore that need neither files nor sockets and end in seconds there, those of the rules and of encoding: no
# undefined behaviour in the model of Rust's own memory.
#
#   tests/proof/miri.sh
. "$(dirname "$0")/common.sh"
need_nightly miri rust-src

# Of the others single tests take minutes there.
MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --target-dir "$proof_target/miri" -p pmix-dstore --lib -- \
    realm_resolution:: codec::tests::encoding:: --skip typed_methods
