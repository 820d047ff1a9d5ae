//! What each mechanism makes of its inputs.

use alloc::{format, vec::Vec};

use crate::fields::{Field, Forms};
use crate::plan::{
    Channel, Dummies, KAryResponse, LinearHash, ProjectiveGeometry, SlidingWindow, WithUnusable,
};
use crate::random::{Source, dice16, integers, words};
use crate::{Error, Result};

/// As many at a time as the Python client draws for.
const BLOCK: usize = 1 << 15;

/// The messages of some inputs; of each one, but for dummies, where they come user by user.
///
/// # Errors
/// An input lies outside of the channel's; or the channel is one of counters, which are not
/// randomised, unknown, or no possible one.
pub fn perturb(channel: &Channel, cells: &[u64], source: &mut dyn Source) -> Result<Vec<u64>> {
    let most = inputs(channel)?;
    if !cells.iter().all(|&cell| cell < most) {
        return Err(Error::new(format!("an input lies outside 0 .. {}", most - 1))); // never which
    }
    let mut messages = Vec::with_capacity(cells.len());
    if let Channel::Dummies(dummies) = channel {
        among_dummies(dummies, cells, source, &mut messages)?;
        return Ok(messages);
    }
    for block in cells.chunks(BLOCK) {
        match channel {
            Channel::KAryResponse(k_ary) => k_ary_response(k_ary, block, source, &mut messages)?,
            Channel::LinearHash(hash) => linear_hash(hash, block, source, &mut messages)?,
            Channel::ProjectiveGeometry(space) => projective(space, block, source, &mut messages)?,
            Channel::SlidingWindow(window) => sliding(window, block, source, &mut messages)?,
            _ => break,
        }
    }
    if let Channel::WithUnusable(hiding) = channel {
        with_unusable(hiding, cells, source, &mut messages)?;
    }
    Ok(messages)
}

/// How many inputs a mechanism takes.
fn inputs(channel: &Channel) -> Result<u64> {
    match channel {
        Channel::KAryResponse(KAryResponse { inputs, .. })
        | Channel::LinearHash(LinearHash { inputs, .. })
        | Channel::ProjectiveGeometry(ProjectiveGeometry { inputs, .. })
        | Channel::Dummies(Dummies { inputs, .. }) => Ok(*inputs),
        Channel::SlidingWindow(window) => Ok(window.cells + 1),
        Channel::WithUnusable(hiding) => Ok(hiding.number.cells + 2),
        Channel::Counters(_) => Err(Error::new("counters are sealed slot by slot")),
        Channel::Unknown => Err(Error::new("this client does not know the mechanism: update")),
    }
}

fn possible(holds: bool) -> Result<()> {
    holds.then_some(()).ok_or_else(|| Error::new("no possible mechanism: make plan.json anew"))
}

/// What is added to the truth: a word falls into one of q - 1 slots of `miss`, or beyond them.
fn shift(word: u64, miss: u64, order: u64) -> u64 {
    (order - 1).saturating_sub(word / miss)
}

fn k_ary_response(
    &KAryResponse { inputs, order, miss }: &KAryResponse,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    possible(miss > 0 && (2..1 << 53).contains(&order) && inputs <= order)?;
    let drawn = words(source, cells.len());
    messages.extend(cells.iter().zip(drawn).map(|(cell, word)| {
        let code = cell + shift(word, miss, order);
        if code < order { code } else { code - order }
    }));
    Ok(())
}

fn linear_hash(
    &LinearHash { inputs, order, polynomial, digits, miss }: &LinearHash,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    let field = Field::new(order, polynomial)?;
    let forms = Forms::new(field.clone(), digits)?;
    possible(miss > 0 && inputs <= forms.vectors())?;
    let drawn = words(source, cells.len());
    let points = integers(source, forms.points().into(), cells.len())?;
    messages.extend(cells.iter().zip(drawn).zip(points).map(|((&cell, word), point)| {
        point * order + field.add(forms.evaluate(point, cell), shift(word, miss, order))
    }));
    Ok(())
}

fn projective(
    channel: &ProjectiveGeometry,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    let space = Space::new(channel)?;
    // Not all 2^64 words are in use, so they are drawn below the bound, without a bias.
    let bound = space.words(channel.digits as usize);
    let drawn = integers(source, bound, cells.len())?;
    let digits = channel.digits as usize;
    messages.extend(cells.iter().zip(drawn).map(|(&cell, word)| space.report(word, cell, digits)));
    Ok(())
}

/// The projective space, and those of fewer digits in it.
struct Space {
    field: Field,
    on: u64,
    off: u64,
    /// Of 0, 1, ... digits.
    forms: Vec<Forms>,
}

impl Space {
    fn new(
        &ProjectiveGeometry { inputs, order, polynomial, digits, on, off }: &ProjectiveGeometry,
    ) -> Result<Self> {
        let field = Field::new(order, polynomial)?;
        let forms: Result<Vec<_>> = (0..=digits).map(|m| Forms::new(field.clone(), m)).collect();
        let space = Self { field, on, off, forms: forms? };
        let share = u128::from(on) + u128::from(order - 1) * u128::from(off);
        possible(digits > 0 && inputs <= space.points(digits as usize) && off > 0)?;
        possible(share < 1 << 64 && space.words(digits as usize) <= 1 << 64)?;
        Ok(space)
    }

    fn points(&self, digits: usize) -> u64 {
        self.forms[digits].points()
    }

    /// How many words stand for the points of so many digits.
    fn words(&self, digits: usize) -> u128 {
        let near = self.points(digits - 1);
        let far = self.points(digits) - near;
        u128::from(near) * u128::from(self.on) + u128::from(far) * u128::from(self.off)
    }

    /// The point that a word stands for.
    fn report(&self, word: u64, value: u64, digits: usize) -> u64 {
        let forms = &self.forms[digits - 1];
        if value < forms.vectors() {
            return self.test(word, value, forms);
        }
        // A value (v, 0): a point one digit lower with any symbol, or the last one.
        let (rest, symbol) = (word / self.field.order, word % self.field.order);
        if u128::from(rest) >= self.words(digits - 1) {
            return self.points(digits) - 1;
        }
        self.report(rest, value - forms.vectors(), digits - 1) * self.field.order + symbol
    }

    /// The same for a value (c, 1), which each form tests.
    fn test(&self, word: u64, value: u64, forms: &Forms) -> u64 {
        let order = self.field.order;
        let share = self.on + (order - 1) * self.off;
        let (point, left) = (word / share, word % share);
        let symbol = self.field.add(forms.evaluate(point, value), shift(left, self.off, order));
        // The last is the point (0, 1), which has no symbol.
        (point * order + symbol).min(forms.points() * order)
    }
}

fn sliding(
    window: &SlidingWindow,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    let &SlidingWindow { steps, width, outside, inside, .. } = window;
    let each = window.cells as usize + 1;
    possible(outside > 0 && inside > 0 && window.lower.len() == each)?;
    possible(window.chance.len() == each && steps.checked_mul(outside).is_some())?;
    let starts = positions(window, cells, source);
    let slots = slots_of(window, cells.len(), source);
    messages.extend(slots.into_iter().zip(starts).map(|(slot, start)| {
        // The first `steps` slots are the codes outside the window, the others those inside.
        if slot < steps { slot + width * u64::from(slot >= start) } else { start + slot - steps }
    }));
    Ok(())
}

/// Where windows start: a 16-bit coin between two positions, continued where it ties.
fn positions(window: &SlidingWindow, cells: &[u64], source: &mut dyn Source) -> Vec<u64> {
    let dice = dice16(source, cells.len());
    let chances = || cells.iter().map(|&cell| window.chance[cell as usize]);
    let tied = || dice.iter().zip(chances()).map(|(&die, chance)| u64::from(die) == chance >> 48);
    let mut more = words(source, tied().filter(|tied| *tied).count()).into_iter();
    let coins = dice.iter().zip(chances()).zip(tied());
    let after = coins.map(|((&die, chance), tied)| match tied {
        true => more.next().is_some_and(|further| further < chance << 16),
        false => u64::from(die) < chance >> 48,
    });
    cells
        .iter()
        .zip(after)
        .map(|(&cell, after)| window.lower[cell as usize] + u64::from(after))
        .collect()
}

/// Slots of their exact weights: 16 bits decide most, and the bits after them the others.
fn slots_of(window: &SlidingWindow, size: usize, source: &mut dyn Source) -> Vec<u64> {
    let &SlidingWindow { steps, outside, inside, .. } = window;
    let far = steps * outside;
    let slot = |word| if word < far { word / outside } else { steps + (word - far) / inside };
    let dice: Vec<u64> = dice16(source, size).into_iter().map(|die| u64::from(die) << 48).collect();
    let mut slots: Vec<u64> = dice.iter().map(|&die| slot(die)).collect();
    let decided = |place: &usize| slot(dice[*place] | ((1 << 48) - 1)) == slots[*place];
    let open: Vec<usize> = (0..size).filter(|place| !decided(place)).collect();
    for (place, word) in open.iter().zip(words(source, open.len())) {
        slots[*place] = slot(dice[*place] | word >> 16);
    }
    slots
}

fn with_unusable(
    hiding: &WithUnusable,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    let &WithUnusable { ref number, chance, shift, ref threshold, ref alias } = hiding;
    let whole = 1usize.checked_shl(64u32.saturating_sub(shift)).unwrap_or(0);
    possible(shift < 64 && threshold.len() == whole && alias.len() == whole)?;
    let none = number.cells + 1;
    // What is drawn for a number is drawn for everybody, so that nothing shows who has none.
    let given: Vec<u64> = cells.iter().map(|&cell| if cell == none { 0 } else { cell }).collect();
    for block in given.chunks(BLOCK) {
        sliding(number, block, source, messages)?;
    }
    let coins = words(source, cells.len());
    let instead = words(source, cells.len());
    for (place, message) in messages.iter_mut().enumerate() {
        if cells[place] == none {
            let column = instead[place] >> shift;
            let height = instead[place] & ((1 << shift) - 1);
            let stays = height < threshold[column as usize];
            *message = if stays { column } else { alias[column as usize] };
        } else if coins[place] < chance {
            *message = number.steps + number.width;
        }
    }
    Ok(())
}

fn among_dummies(
    &Dummies { inputs, first, ref ends }: &Dummies,
    cells: &[u64],
    source: &mut dyn Source,
    messages: &mut Vec<u64>,
) -> Result<()> {
    let numbers = from_table(ends, cells.len(), source);
    let numbers: Vec<usize> = numbers.into_iter().map(|passed| first as usize + passed).collect();
    let drawn = integers(source, inputs.into(), numbers.iter().sum())?;
    let mut drawn = drawn.into_iter();
    for (cell, number) in cells.iter().zip(numbers) {
        let start = messages.len();
        messages.push(*cell);
        messages.extend(drawn.by_ref().take(number));
        // In ascending order: any other might tell which of them is the true one.
        messages[start..].sort_unstable();
    }
    Ok(())
}

/// How many ends of a law in units of 2^-128 are passed: a word decides nearly every draw.
fn from_table(ends: &[u128], size: usize, source: &mut dyn Source) -> Vec<usize> {
    let drawn = words(source, size);
    let leading = |word: u64| ends.partition_point(|end| (end >> 64) as u64 <= word);
    let mut passed: Vec<usize> = drawn.iter().map(|&word| leading(word)).collect();
    let ties = |&place: &usize| {
        let last = passed[place].checked_sub(1).map(|end| (ends[end] >> 64) as u64);
        last == Some(drawn[place]) || drawn[place] == u64::MAX
    };
    let open: Vec<usize> = (0..size).filter(ties).collect();
    for (place, low) in open.iter().zip(words(source, open.len())) {
        let whole = u128::from(drawn[*place]) << 64 | u128::from(low);
        passed[*place] = ends.partition_point(|&end| end <= whole);
    }
    passed
}
