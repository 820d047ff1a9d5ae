//! Reports of local and shuffle differential privacy, made where the values are.
//!
//! A [`Device`] takes a plan, as `hushbeam check --json` prints it, and rows of one user to the
//! bytes of a report: randomised, named under the device's secret and sealed to the collector's
//! key. From the same keystream it makes the same bytes as the clients in Python and TypeScript.
//! `docs/appendix/wire.md` in hushbeam's repository has every law, and why it is so.
//!
//! Without the feature `std` the crate needs `alloc` alone, and whoever calls it brings a
//! [`Source`] of randomness.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod channels;
mod counters;
mod device;
mod encoders;
mod fields;
mod permanent;
pub mod plan;
mod random;
mod report;
mod rows;
mod sealing;
mod strings;
mod tokens;

use alloc::string::String;
use core::fmt;

pub use channels::perturb;
pub use counters::slot_words;
pub use device::Device;
pub use encoders::to_grid;
pub use permanent::Permanent;
pub use random::{Keystream, Source, integers, words};
pub use report::{Mark, device_draw, device_id, plain_file};
pub use rows::{Row, Value, rows_of_json};
pub use sealing::{Context, PublicKey};
pub use strings::StringRequest;
pub use tokens::{Blinded, Request};

/// What was wrong, where, and what to do, in one line; never a value of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// `what`: one line, without a value of a user.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl core::error::Error for Error {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What is made, or why it was not.
pub type Result<T> = core::result::Result<T, Error>;
