//! Chains of handlers.
