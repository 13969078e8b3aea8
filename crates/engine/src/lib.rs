//! Placeholder, replaced as the crate grows.
#![cfg_attr(not(test), no_std)]
