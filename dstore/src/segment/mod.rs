//! Published data as files that every process of a node maps.
