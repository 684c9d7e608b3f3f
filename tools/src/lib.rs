//! Command-line tools of the PMIx library.
