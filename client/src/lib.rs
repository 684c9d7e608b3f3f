//! The client side of the PMIx library.
