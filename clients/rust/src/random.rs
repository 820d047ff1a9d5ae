//! Randomness, and integers drawn from it exactly as the Python client draws them.

use alloc::{format, vec, vec::Vec};

use aes::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Error, Result};

/// Where random bytes come from, one after another.
pub trait Source {
    /// Overwrites `bytes` with the next ones.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// AES-256 in counter mode from block 0, on zeros: private as long as its key is.
pub struct Keystream(ctr::Ctr128BE<aes::Aes256>);

impl Keystream {
    /// The stream of a key: for permanent noise, whose key is secret, and for tests.
    pub fn of(key: &[u8; 32]) -> Self {
        Self(ctr::Ctr128BE::new(key.into(), &[0; 16].into()))
    }

    /// A stream that nobody can predict, of a key from the system's generator: for one report, or
    /// one batch. Who keeps it over a fork draws the same noise in both processes.
    ///
    /// # Errors
    /// The system has no randomness to give.
    #[cfg(feature = "std")]
    pub fn system() -> Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::getrandom(&mut *key)
            .map_err(|_| Error::new("the system's generator gave no random bytes: try again"))?;
        Ok(Self::of(&key))
    }
}

impl Source for Keystream {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
        self.0.apply_keystream(bytes);
    }
}

fn drawn<const WIDTH: usize, T>(
    source: &mut dyn Source,
    size: usize,
    of: impl Fn([u8; WIDTH]) -> T,
) -> Vec<T> {
    let mut bytes = vec![0; WIDTH * size];
    source.fill(&mut bytes);
    let (words, _) = bytes.as_chunks::<WIDTH>();
    words.iter().map(|word| of(*word)).collect()
}

/// Uniform 64-bit words.
pub fn words(source: &mut dyn Source, size: usize) -> Vec<u64> {
    drawn(source, size, u64::from_le_bytes)
}

/// Uniform integers of 16 bits; whole words are drawn.
pub(crate) fn dice16(source: &mut dyn Source, size: usize) -> Vec<u16> {
    let mut dice = drawn(source, 4 * size.div_ceil(4), u16::from_le_bytes);
    dice.truncate(size);
    dice
}

/// Uniform integers of 32 bits; whole words are drawn.
pub(crate) fn dice32(source: &mut dyn Source, size: usize) -> Vec<u32> {
    let mut dice = drawn(source, 2 * size.div_ceil(2), u32::from_le_bytes);
    dice.truncate(size);
    dice
}

/// Exactly uniform integers below a bound of 1 .. 2^64, by rejection: never by a remainder.
///
/// # Errors
/// The bound is out of range.
pub fn integers(source: &mut dyn Source, bound: u128, size: usize) -> Result<Vec<u64>> {
    if !(1..=1 << 64).contains(&bound) {
        return Err(Error::new("the bound must lie in 1 .. 2^64"));
    }
    if bound == 1 << 64 {
        return Ok(words(source, size));
    }
    let (narrow, bound) = (bound <= 1 << 32, bound as u64);
    let step = if narrow { (1 << 32) / bound } else { ((1 << 64) / u128::from(bound)) as u64 };
    let mut draw = |size| {
        let raw = if narrow {
            drawn(source, size, |word| u64::from(u32::from_le_bytes(word)))
        } else {
            words(source, size)
        };
        raw.into_iter().map(|word| word / step)
    };
    let mut result: Vec<u64> = draw(size).collect();
    let mut open: Vec<usize> = (0..size).filter(|&place| result[place] >= bound).collect();
    while !open.is_empty() {
        for (place, again) in open.iter().zip(draw(open.len())) {
            result[*place] = again;
        }
        open.retain(|&place| result[place] >= bound);
    }
    Ok(result)
}

/// An exactly uniform integer below a bound of 1 .. 2^32 (Lemire, ACM TOMACS 2019, Alg. 5).
pub(crate) fn below(source: &mut dyn Source, bound: u32) -> u32 {
    loop {
        let mut word = [0; 4];
        source.fill(&mut word);
        let product = u64::from(u32::from_le_bytes(word)) * u64::from(bound);
        if (product as u32) >= bound.wrapping_neg() % bound {
            return (product >> 32) as u32;
        }
    }
}

/// A copy of a secret that may be one.
pub(crate) fn secret(bytes: &[u8]) -> Result<Zeroizing<[u8; 32]>> {
    let secret = <[u8; 32]>::try_from(bytes).ok().map(Zeroizing::new);
    let secret = secret.filter(|bytes| bytes.iter().any(|byte| *byte != bytes[0]));
    secret.ok_or_else(|| Error::new("the secret must be 32 random bytes, never all the same"))
}

/// HMAC-SHA256 of some parts, one after another.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes any key");
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// Bytes of hexadecimal digits.
///
/// # Errors
/// There are others, or not two for each of `SIZE` bytes.
pub(crate) fn unhex<const SIZE: usize>(what: &str, text: &str) -> Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    let digits = text.as_bytes();
    let pairs = (digits.len() == 2 * SIZE && digits.iter().all(u8::is_ascii_hexdigit))
        .then(|| digits.chunks_exact(2))
        .ok_or_else(|| Error::new(format!("{what} has {SIZE} bytes, as hexadecimal digits")))?;
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let digit = |of: u8| (of as char).to_digit(16).unwrap_or(0) as u8;
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    Ok(bytes)
}
