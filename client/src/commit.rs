//! What this process put, and what of it the server has.
