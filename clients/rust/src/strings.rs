//! Strings sealed so that equal ones are equal words: a shuffler counts what it cannot read.
//!
//! The ephemeral key of a seal is not drawn: a party of its own evaluates it from the string, the
//! plan and the window, without seeing them. Empty slots are sealed under fresh keys.

use alloc::{collections::BTreeSet, format, vec::Vec};

use zeroize::Zeroizing;

use crate::random::{Source, below};
use crate::report::{File, Id, Mark, SEAL, SLOTS};
use crate::sealing::{Context, PublicKey};
use crate::tokens::Blinded;
use crate::{Error, Result};

const NULL: u32 = u32::MAX; // the first word of an empty slot, which no string has
const CUT: u32 = 1 << 31;
const ADDED: usize = 48; // what a seal has before and after its message

/// A device's strings of one metric and window, on their way to the party that evaluates them.
pub struct StringRequest {
    mark: Mark,
    id: Id,
    key: PublicKey,
    context: Context,
    slots: Vec<Slot>,
    blinded: Blinded,
}

struct Slot {
    padded: Zeroizing<Vec<u8>>,
    /// The ephemeral key of an empty one.
    ephemeral: Option<Zeroizing<[u8; 32]>>,
}

impl StringRequest {
    pub(crate) fn drawn(
        mark: Mark,
        id: Id,
        texts: &[&str],
        (slots, most): (usize, usize),
        key: &PublicKey,
        source: &mut dyn Source,
    ) -> Result<Self> {
        let room = room(slots, most)?;
        let texts: BTreeSet<&str> = texts.iter().copied().collect();
        let mut texts: Vec<Option<&str>> = texts.into_iter().map(Some).collect();
        texts.resize(texts.len().max(slots), None);
        // Of more strings than slots some are drawn; and no place says which slots are empty.
        for step in 0..slots {
            let others = u32::try_from(texts.len() - step);
            let others = others.map_err(|_| Error::new("a device has more than 2^32 strings"))?;
            texts.swap(step, step + below(source, others) as usize);
        }
        let bound = mark.info("hushbeam string", &[], key);
        let slots: Vec<_> = texts[..slots]
            .iter()
            .map(|text| {
                let ephemeral = text.is_none().then(|| {
                    let mut ephemeral = Zeroizing::new([0; 32]);
                    source.fill(&mut *ephemeral);
                    ephemeral
                });
                Slot { padded: Zeroizing::new(padded(*text, most, room)), ephemeral }
            })
            .collect();
        // Asked for all slots, or it would be seen how many strings a device has.
        let inputs = slots.iter().map(|slot| [&bound[..], &slot.padded].concat()).collect();
        let blinded = Blinded::drawn(inputs, source)?;
        let context = key.context(&bound);
        Ok(Self { mark, id, key: key.clone(), context, slots, blinded })
    }

    /// What goes to the party: 32 bytes for each slot, which say nothing of it.
    pub fn elements(&self) -> Vec<u8> {
        self.blinded.elements()
    }

    /// A file with the device's one report: the same bytes each time.
    ///
    /// `answer`: as many evaluated elements, and a proof. `public`: the party's published key of
    /// this window, of 32 bytes.
    ///
    /// # Errors
    /// The answer is not of that key.
    pub fn report(&self, answer: &[u8], public: &[u8]) -> Result<Vec<u8>> {
        let outputs = self.blinded.outputs(answer, public)?;
        let mut boxes = Vec::new();
        for (slot, output) in self.slots.iter().zip(outputs) {
            let output = Zeroizing::new(output);
            let own = output.first_chunk().unwrap_or(&[0; 32]);
            let ephemeral = slot.ephemeral.as_ref().map_or(own, |drawn| drawn);
            boxes.extend(self.context.seal_under(&slot.padded, &[], ephemeral)?);
        }
        let mut file = File::new(&self.mark, SLOTS, 0);
        file.push(&self.id, &[self.key.id(), &boxes])?;
        Ok(file.bytes())
    }
}

/// Bytes of a padded string: all strings of a metric take the room of as many seals.
fn room(slots: usize, most: usize) -> Result<usize> {
    if !((1..=1169).contains(&slots) && (1..1 << 16).contains(&most)) {
        let what = "a report has 1 to 1169 strings, of 1 to 65535 bytes: see the plan";
        return Err(Error::new(what));
    }
    let words = 1 + most.div_ceil(4);
    let seals = (4 * words + ADDED).div_ceil(SEAL);
    if slots * seals > 1169 {
        let what = format!("{slots} strings of {most} bytes are too many for one report");
        return Err(Error::new(what));
    }
    Ok(seals * SEAL - ADDED)
}

/// How long a string is, and whether it was cut; then its bytes, and zeros.
fn padded(text: Option<&str>, most: usize, room: usize) -> Vec<u8> {
    let (first, bytes) = match text {
        None => (NULL, ""),
        Some(text) => {
            let kept = &text[..text.floor_char_boundary(most)];
            (kept.len() as u32 | if kept.len() < text.len() { CUT } else { 0 }, kept)
        }
    };
    let mut padded = [&first.to_le_bytes(), bytes.as_bytes()].concat();
    padded.resize(room, 0);
    padded
}
