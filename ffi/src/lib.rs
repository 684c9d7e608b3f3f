//! `libpmix.so.2`: the C interface of the PMIx library.
