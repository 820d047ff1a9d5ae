//! Anonymous tokens, and the function under them: whoever has the key learns no input, and whoever
//! asks learns that the published key was used. RFC 9497, ristretto255-SHA512 in the mode VOPRF.

use alloc::{format, vec::Vec};

use rand_core::{CryptoRng, RngCore};
use voprf::{BlindedElement, EvaluationElement, Group, Proof, Ristretto255, VoprfClient};
use zeroize::Zeroizing;

use crate::random::{Keystream, Source, hmac, secret, unhex};
use crate::{Error, Result};

// Bytes.
const ELEMENT: usize = 32;
const PROOF: usize = 64;
const OUTPUT: usize = 64;
const NONCE: usize = 32;
const TOKEN: usize = 64;

/// Inputs on their way to who has the key; the blinds stay here.
pub struct Blinded {
    inputs: Vec<Zeroizing<Vec<u8>>>,
    clients: Vec<VoprfClient<Ristretto255>>,
    elements: Vec<BlindedElement<Ristretto255>>,
}

impl Blinded {
    /// Of 1 .. 65,535 inputs, of at most 65,535 bytes each.
    ///
    /// # Errors
    /// There are none or too many, or one is longer.
    pub fn drawn(inputs: Vec<Vec<u8>>, source: &mut dyn Source) -> Result<Self> {
        let most = usize::from(u16::MAX);
        if !(1..=most).contains(&inputs.len()) {
            return Err(Error::new(format!("1 to {most} inputs are blinded at once")));
        }
        // The library says so when the answer is there.
        if inputs.iter().any(|input| input.len() > most) {
            return Err(Error::new(format!("an input has at most {most} bytes")));
        }
        let mut made = Self { inputs: Vec::new(), clients: Vec::new(), elements: Vec::new() };
        for input in inputs {
            let pair = VoprfClient::blind(&input, &mut Drawing(source))
                .map_err(|_| Error::new("the function takes no such input"))?;
            made.inputs.push(Zeroizing::new(input));
            made.clients.push(pair.state);
            made.elements.push(pair.message);
        }
        Ok(made)
    }

    /// What goes to the key's holder: 32 bytes for each input, which say nothing of it.
    pub fn elements(&self) -> Vec<u8> {
        self.elements.iter().flat_map(BlindedElement::serialize).collect()
    }

    /// 64 bytes for each input.
    ///
    /// `answer`: as many evaluated elements, in their order, and one proof for all of them.
    /// `public`: the published key, of 32 bytes.
    ///
    /// # Errors
    /// The answer is not of that key, or is no answer to these elements: use none of it.
    pub fn outputs(&self, answer: &[u8], public: &[u8]) -> Result<Vec<[u8; OUTPUT]>> {
        self.finalized(answer, public).ok_or_else(|| {
            Error::new(
                "the answer is not of the published key: use none of it; somebody else's key \
                 would tell this device from others",
            )
        })
    }

    fn finalized(&self, answer: &[u8], public: &[u8]) -> Option<Vec<[u8; OUTPUT]>> {
        let evaluated = answer.len().checked_sub(PROOF)?;
        let (evaluated, proof) = answer.split_at(evaluated);
        let (elements, []) = evaluated.as_chunks::<ELEMENT>() else { return None };
        let elements = elements.iter().map(|element| EvaluationElement::deserialize(element).ok());
        let elements: Vec<_> = elements.collect::<Option<_>>()?;
        let proof = Proof::deserialize(proof).ok()?;
        let key = Ristretto255::deserialize_elem(public).ok()?;
        let outputs =
            VoprfClient::batch_finalize(&self.inputs, &self.clients, &elements, &proof, key)
                .ok()?;
        outputs.map(|output| output.ok().map(Into::into)).collect()
    }
}

/// A device's request for tokens of one window.
pub struct Request {
    nonces: Vec<[u8; NONCE]>,
    blinded: Blinded,
}

impl Request {
    /// A request for so many tokens, made again by the same key: 32 random bytes that the device
    /// keeps until the answer is there. An issuer answers the same elements again, and others not.
    /// Whoever has the key knows the tokens.
    ///
    /// `fingerprint`: of the window, as the plan has it; `role`: "issuer" for tokens of reports,
    /// "queries" for those of strings. They are bound in, and so is `count`: equal nonces in two
    /// windows, or roles, would show endpoints that they are of one device.
    ///
    /// # Errors
    /// The key is none, or the fingerprint, or the role; and as of [`Blinded::drawn`].
    pub fn of_key(count: usize, key: &[u8], fingerprint: &str, role: &str) -> Result<Self> {
        let fingerprint: [u8; 16] = unhex("a fingerprint", fingerprint)?;
        if !["issuer", "queries"].contains(&role) {
            return Err(Error::new("a request for tokens has the role issuer or queries"));
        }
        let number = (count as u64).to_le_bytes();
        let parts = [b"hushbeam tokens 1", &fingerprint[..], &number, role.as_bytes()];
        Self::drawn(count, &mut Keystream::of(&hmac(&*secret(key)?, &parts)))
    }

    /// A request for so many tokens.
    ///
    /// # Errors
    /// As of [`Blinded::drawn`].
    pub fn drawn(count: usize, source: &mut dyn Source) -> Result<Self> {
        let mut nonces = Vec::new();
        nonces.resize(count, [0; NONCE]);
        nonces.iter_mut().for_each(|nonce| source.fill(nonce));
        let inputs = nonces.iter().map(|nonce| [b"hushbeam token", &nonce[..]].concat()).collect();
        Ok(Self { blinded: Blinded::drawn(inputs, source)?, nonces })
    }

    /// What goes to the issuer: 32 bytes for each token, which say nothing of it.
    pub fn elements(&self) -> Vec<u8> {
        self.blinded.elements()
    }

    /// The tokens: a nonce, and half of the function's output. Arguments as of
    /// [`Blinded::outputs`].
    ///
    /// # Errors
    /// The answer is not of that key.
    pub fn tokens(&self, answer: &[u8], public: &[u8]) -> Result<Vec<[u8; TOKEN]>> {
        let outputs = self.blinded.outputs(answer, public)?;
        let token = |(nonce, output): (&[u8; NONCE], [u8; OUTPUT])| {
            let mut token = output;
            token.rotate_right(NONCE);
            token[..NONCE].copy_from_slice(nonce);
            token
        };
        Ok(self.nonces.iter().zip(outputs).map(token).collect())
    }
}

/// A source as the libraries want it.
struct Drawing<'a>(&'a mut dyn Source);

impl RngCore for Drawing<'_> {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> core::result::Result<(), rand_core::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl CryptoRng for Drawing<'_> {}
