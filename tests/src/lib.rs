//! Tests of the PMIx library against real peers: helpers they share.
