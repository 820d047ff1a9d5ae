//! The bytes of reports, and the ids under which they travel: `docs/appendix/wire.md`.

use alloc::{string::String, vec::Vec};

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};

use crate::plan::Window;
use crate::random::{hmac, unhex};
use crate::sealing::{Context, PublicKey};
use crate::{Error, Result};

pub(crate) const PLAIN: u16 = 0;
pub(crate) const SEALED: u16 = 1;
pub(crate) const SLOTS: u16 = 5;

/// Bytes of a sealed word.
pub(crate) const SEAL: usize = 56;

const VERSION: u16 = 2;
const MAGIC: [u8; 8] = *b"\x89HUSHB\r\n";

/// A report's id.
pub(crate) type Id = [u8; 16];

/// What all reports of a metric and a window have in common.
#[derive(Clone, Debug)]
pub struct Mark {
    fingerprint: [u8; 16],
    window: String,
    place: u16,
}

impl Mark {
    /// `place`: of the metric in the plan.
    ///
    /// # Errors
    /// The window's fingerprint has not 16 bytes.
    pub fn of(window: &Window, place: u16) -> Result<Self> {
        let fingerprint = unhex("a fingerprint", &window.fingerprint)?;
        Ok(Self { fingerprint, window: window.name.clone(), place })
    }

    pub(crate) fn place(&self) -> u16 {
        self.place
    }

    /// What a seal holds only with.
    pub(crate) fn info(&self, what: &str, level: &[u8], key: &PublicKey) -> Vec<u8> {
        let (version, place) = (VERSION.to_le_bytes(), self.place.to_le_bytes());
        [what.as_bytes(), &version, &place, level, key.id(), &self.fingerprint].concat()
    }

    /// What messages sealed to a key are bound to; in a slot, to its level too.
    pub(crate) fn context(&self, level: Option<u16>, key: &PublicKey) -> Context {
        let info = match level {
            None => self.info("hushbeam report", &[], key),
            Some(level) => self.info("hushbeam slot", &level.to_le_bytes(), key),
        };
        key.context(&info)
    }
}

/// A file of reports as it grows.
pub(crate) struct File {
    place: u16,
    bytes: Vec<u8>,
}

impl File {
    pub fn new(mark: &Mark, form: u16, room: usize) -> Self {
        let mut bytes = Vec::with_capacity(28 + room);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(form.to_le_bytes());
        bytes.extend(mark.fingerprint);
        Self { place: mark.place, bytes }
    }

    /// A report of an id: a message, or a key's id and seals.
    pub fn push(&mut self, id: &Id, parts: &[&[u8]]) -> Result<()> {
        let size = 18 + parts.iter().map(|part| part.len()).sum::<usize>();
        let size = u16::try_from(size).map_err(|_| Error::new("a report has too many slots"))?;
        self.bytes.extend(size.to_le_bytes());
        self.bytes.extend(self.place.to_le_bytes());
        self.bytes.extend(id);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A file of plain reports, one of each id and message.
///
/// # Errors
/// There are fewer ids than messages.
pub fn plain_file(mark: &Mark, ids: &[[u8; 16]], messages: &[u64]) -> Result<Vec<u8>> {
    if ids.len() != messages.len() {
        return Err(Error::new("each message has an id, and each id a message"));
    }
    let mut file = File::new(mark, PLAIN, 28 * ids.len());
    for (id, message) in ids.iter().zip(messages) {
        file.push(id, &[&message.to_le_bytes()])?;
    }
    Ok(file.bytes())
}

/// The id of the one user whose secret it is: by it the shuffler keeps one report of each.
pub fn device_id(secret: &[u8; 32], mark: &Mark) -> [u8; 16] {
    let place = mark.place.to_le_bytes();
    let window = mark.window.as_bytes();
    let key = hmac(secret, &[b"hushbeam id of a device 1", &mark.fingerprint, &place, window]);
    let mut id = [0; 16].into(); // the digest of the one user
    Aes128::new(key[..16].into()).encrypt_block(&mut id);
    id.into()
}

/// A word, the same for all metrics, by which a device is asked for one of several.
pub fn device_draw(secret: &[u8; 32], mark: &Mark) -> u64 {
    let parts: [&[u8]; 3] =
        [b"hushbeam draw of a metric 1", &mark.fingerprint, mark.window.as_bytes()];
    let [a, b, c, d, e, f, g, h, ..] = *hmac(secret, &parts);
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
