//! hushbeam's client for other languages: plain functions for C and WebAssembly (feature `c`), and
//! Kotlin and Swift (feature `uniffi`).
#![warn(missing_docs)]

#[cfg(feature = "c")]
pub mod c;
#[cfg(feature = "uniffi")]
mod mobile;

#[cfg(feature = "uniffi")]
uniffi::setup_scaffolding!("hushbeam");
