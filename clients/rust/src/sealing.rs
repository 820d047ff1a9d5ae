//! Seals to the collector's key: HPKE (RFC 9180) in base mode, with X25519, HKDF-SHA256 and
//! AES-128-GCM. The curve, the hash and the cipher are RustCrypto's and dalek's; the crate `hpke`
//! draws its own ephemeral keys, and those of sealed strings are not drawn.

use alloc::vec::Vec;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use base64ct::{Base64, Encoding};
use hkdf::{Hkdf, HkdfExtract};
use sha2::{Digest, Sha256};
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

use crate::random::Source;
use crate::{Error, Result};

const KEM: &[u8] = b"KEM\x00\x20";
const SUITE: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x01";

// What precedes the 32 bytes of an X25519 key in its SubjectPublicKeyInfo (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 3, 0x21, 0];

/// The collector's public key.
#[derive(Clone, Debug)]
pub struct PublicKey {
    id: [u8; 8],
    raw: x25519_dalek::PublicKey,
}

impl PublicKey {
    /// The key in what `hushbeam parties keys new` wrote as `<id>.public.pem`.
    ///
    /// # Errors
    /// It is no X25519 public key, or one of small order, to which nothing can be sealed.
    pub fn of(pem: &str) -> Result<Self> {
        let none = || Error::new("this is no X25519 public key (-----BEGIN PUBLIC KEY-----)");
        let body = pem
            .split_once("-----BEGIN PUBLIC KEY-----")
            .and_then(|(_, rest)| rest.split_once("-----END PUBLIC KEY-----"))
            .map(|(body, _)| body.split_ascii_whitespace().collect::<alloc::string::String>())
            .ok_or_else(none)?;
        let der = Base64::decode_vec(&body).map_err(|_| none())?;
        let raw = der.strip_prefix(&SPKI).ok_or_else(none)?;
        let raw = x25519_dalek::PublicKey::from(<[u8; 32]>::try_from(raw).map_err(|_| none())?);
        if !StaticSecret::from([1; 32]).diffie_hellman(&raw).was_contributory() {
            return Err(Error::new("the public key is of small order, which is nobody's"));
        }
        let id = Sha256::digest(raw).first_chunk().copied().unwrap_or_default();
        Ok(Self { id, raw })
    }

    /// The key's name: the first 8 bytes of its SHA-256.
    pub fn id(&self) -> &[u8; 8] {
        &self.id
    }

    /// What all messages to this key under one `info` have in common.
    pub fn context(&self, info: &[u8]) -> Context {
        let psk_id = extract(SUITE, &[], b"psk_id_hash", &[]).0;
        let info = extract(SUITE, &[], b"info_hash", info).0;
        Context { key: self.clone(), schedule: [&[0], &psk_id[..], &info].concat() }
    }
}

/// Where messages are sealed to one key under one `info`; nothing of it is secret.
pub struct Context {
    key: PublicKey,
    schedule: Vec<u8>,
}

impl Context {
    /// A message that only the holder of the private key can read, and only with the same `info`:
    /// the encapsulated key (32 bytes), the encrypted message, and its tag (16).
    ///
    /// # Errors
    /// As of [`Context::seal_under`].
    pub fn seal(&self, message: &[u8], source: &mut dyn Source) -> Result<Vec<u8>> {
        let mut ephemeral = Zeroizing::new([0; 32]);
        source.fill(&mut *ephemeral);
        self.seal_under(message, &[], &ephemeral)
    }

    /// The same under an ephemeral private key that is for this message alone.
    ///
    /// # Errors
    /// The message is longer than AES-GCM takes.
    pub fn seal_under(&self, message: &[u8], aad: &[u8], ephemeral: &[u8; 32]) -> Result<Vec<u8>> {
        let ephemeral = StaticSecret::from(*ephemeral);
        let encapsulated = x25519_dalek::PublicKey::from(&ephemeral);
        let exchanged = ephemeral.diffie_hellman(&self.key.raw);
        let (_, prk) = extract(KEM, &[], b"eae_prk", exchanged.as_bytes());
        let shared: Zeroizing<[u8; 32]> = expand(
            KEM,
            &prk,
            b"shared_secret",
            &[encapsulated.as_bytes(), self.key.raw.as_bytes()],
        );
        let (_, secret) = extract(SUITE, &*shared, b"secret", &[]);
        let key: Zeroizing<[u8; 16]> = expand(SUITE, &secret, b"key", &[&self.schedule]);
        let nonce: Zeroizing<[u8; 12]> = expand(SUITE, &secret, b"base_nonce", &[&self.schedule]);
        let cipher = aes_gcm::Aes128Gcm::new((&*key).into());
        let sealed = cipher.encrypt((&*nonce).into(), Payload { msg: message, aad });
        let sealed = sealed.map_err(|_| Error::new("the message is too long to be sealed"))?;
        Ok([encapsulated.as_bytes(), &sealed[..]].concat())
    }
}

/// `LabeledExtract` of the RFC.
fn extract(suite: &[u8], salt: &[u8], label: &[u8], key: &[u8]) -> ([u8; 32], Hkdf<Sha256>) {
    let mut extracting = HkdfExtract::<Sha256>::new(Some(salt));
    for part in [b"HPKE-v1", suite, label, key] {
        extracting.input_ikm(part);
    }
    let (prk, hkdf) = extracting.finalize();
    (prk.into(), hkdf)
}

/// `LabeledExpand` of the RFC.
fn expand<const SIZE: usize>(
    suite: &[u8],
    prk: &Hkdf<Sha256>,
    label: &[u8],
    context: &[&[u8]],
) -> Zeroizing<[u8; SIZE]> {
    let length = (SIZE as u16).to_be_bytes();
    let parts = [&[&length, &b"HPKE-v1"[..], suite, label], context].concat();
    let mut bytes = Zeroizing::new([0; SIZE]);
    prk.expand_multi_info(&parts, &mut *bytes).expect("HKDF gives 255 blocks, and this is one");
    bytes
}
