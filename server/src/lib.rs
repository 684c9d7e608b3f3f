//! The server side of the PMIx library.
