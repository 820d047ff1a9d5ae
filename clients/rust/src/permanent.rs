//! Noise that is drawn once and for all: a keyed function of the user's secret and the value.

use alloc::{vec, vec::Vec};

use crate::channels::perturb;
use crate::plan::{Channel, PermanentKeys};
use crate::random::{Keystream, hmac, unhex, words};
use crate::{Error, Result};

/// The permanent noise of a metric and a secret.
pub struct Permanent<'a> {
    secret: &'a [u8; 32],
    keys: &'a PermanentKeys,
    place: u16,
}

impl<'a> Permanent<'a> {
    /// `place`: of the metric in the plan.
    pub fn of(secret: &'a [u8; 32], keys: &'a PermanentKeys, place: u16) -> Self {
        Self { secret, keys, place }
    }

    /// The messages of an input: the same today and next year.
    ///
    /// # Errors
    /// As of [`perturb`], or the plan's keys are none.
    pub fn messages(&self, channel: &Channel, cell: u64) -> Result<Vec<u64>> {
        let law = unhex::<16>("the key of a law", &self.keys.law)?;
        let mut stream = self.stream(b"hushbeam memoised message 2", &law, &cell.to_le_bytes())?;
        perturb(channel, &[cell], &mut stream)
    }

    /// One offset for all numbers of a user, in the place of a coin for each.
    ///
    /// # Errors
    /// The metric rounds no numbers, or the plan's keys are none.
    pub fn coins(&self, size: usize) -> Result<Vec<u32>> {
        let rounding = self.keys.rounding.as_ref();
        let rounding = rounding.ok_or_else(|| Error::new("this metric rounds no numbers"))?;
        let rounding = unhex::<16>("the key of rounding", rounding)?;
        let mut stream = self.stream(b"hushbeam memoised offset 2", &rounding, &[])?;
        Ok(vec![words(&mut stream, 1)[0] as u32; size])
    }

    fn stream(&self, purpose: &[u8], law: &[u8], input: &[u8]) -> Result<Keystream> {
        let fingerprint = unhex::<16>("a fingerprint", &self.keys.fingerprint)?;
        let parts = [purpose, &fingerprint, &self.place.to_le_bytes(), law, input];
        Ok(Keystream::of(&hmac(self.secret, &parts)))
    }
}
