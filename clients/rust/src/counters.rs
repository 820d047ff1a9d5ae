//! The report of a unit to noisy counters: a word for each slot, none of them randomised.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use crate::encoders::{check_bounds, to_grid};
use crate::plan::{Counters, Digits, GroupTotals, NumberUnits, Unit};
use crate::random::{Source, below, dice32, words};
use crate::{Error, Result};

/// Of one level, slot by slot: the place of a counter there, or none.
type Places = Vec<Option<u64>>;

/// The words of one unit's report, slot by slot; none without rows.
///
/// `groups`, and where the plan adds up numbers `numbers`, are as many: those of its rows.
///
/// # Errors
/// The rows do not fit the counters, or this client does not know what they count.
pub fn slot_words(
    counters: &Counters,
    groups: &[u64],
    numbers: Option<&[f64]>,
    source: &mut dyn Source,
) -> Result<Option<Vec<u64>>> {
    if groups.is_empty() {
        return Ok(None);
    }
    let sets = match &counters.unit {
        Unit::Path { bins, sizes } => path(*bins, sizes, groups, source)?,
        Unit::Totals(unit) => totals(unit, groups, numbers, source)?,
    };
    in_slots(counters, &sets).map(Some)
}

/// The level of each slot.
pub(crate) fn slot_levels(counters: &Counters) -> impl Iterator<Item = u16> {
    (0..).zip(&counters.levels).flat_map(|(level, each)| core::iter::repeat_n(level, each.slots))
}

/// Places in levels to codes: of all counters, level by level, and then a null for each level.
fn in_slots(Counters { levels, .. }: &Counters, sets: &[Places]) -> Result<Vec<u64>> {
    let misfit = || Error::new("these rows do not fit the counters of the plan"); // never which
    let mut null: u64 = levels.iter().map(|level| level.counters).sum();
    let (mut start, mut codes) = (0, Vec::new());
    if sets.len() != levels.len() {
        return Err(misfit());
    }
    for (level, places) in levels.iter().zip(sets) {
        let mut raised: Vec<u64> = places.iter().flatten().copied().collect();
        raised.sort_unstable();
        let twice = raised.windows(2).any(|pair| pair[0] == pair[1]);
        let beyond = raised.last().is_some_and(|last| *last >= level.counters);
        if places.len() != level.slots || twice || beyond {
            return Err(misfit());
        }
        codes.extend(places.iter().map(|place| place.map_or(null, |place| start + place)));
        (start, null) = (start + level.counters, null + 1);
    }
    Ok(codes)
}

fn path(bins: u64, sizes: &[u64], cells: &[u64], source: &mut dyn Source) -> Result<Vec<Places>> {
    let drawn = words(source, cells.len());
    let least = cells.iter().zip(drawn).min_by_key(|(_, word)| *word);
    let cell = least.map(|(cell, _)| *cell).filter(|cell| *cell != bins);
    let place = |size: &u64| cell.and_then(|cell| cell.checked_div(*size));
    let levels = sizes.iter().map(|size| vec![place(size)]);
    Ok(levels.chain([vec![if cell.is_none() { Some(0) } else { None }]]).collect())
}

/// What rows of a group add up to; of no group, an empty place.
#[derive(Clone, Default)]
struct Total {
    group: Option<u64>,
    amount: f64,
    rows: u32,
}

fn totals(
    unit: &GroupTotals,
    groups: &[u64],
    numbers: Option<&[f64]>,
    source: &mut dyn Source,
) -> Result<Vec<Places>> {
    let mut summed = BTreeMap::<u64, Total>::new();
    for (row, &group) in groups.iter().enumerate() {
        let amount = numbers.map_or(1.0, |numbers| numbers[row]);
        if amount.is_nan() {
            continue;
        }
        let total = summed.entry(group).or_default();
        total.group = Some(group);
        total.amount += amount;
        total.rows += 1;
    }
    let mut totals: Vec<Total> = summed.into_values().collect();
    let mut limited = totals.len() > unit.most_groups;
    if limited {
        // Of more groups than a unit may have some: the first steps of a shuffle of Fisher and Yates.
        for step in 0..unit.most_groups {
            let others = u32::try_from(totals.len() - step);
            let others = others.map_err(|_| Error::new("a unit has more than 2^32 groups"))?;
            totals.swap(step, step + below(source, others) as usize);
        }
    }
    totals.resize(unit.most_groups, Total::default());
    match &unit.numbers {
        None => {
            let most = unit.most as f64;
            limited |= unit.most > 1 && totals.iter().any(|total| total.amount > most);
            totals.iter_mut().for_each(|total| total.amount = total.amount.min(most));
        }
        Some(units) => {
            if unit.averaged {
                totals.iter_mut().for_each(|total| total.amount /= f64::from(total.rows.max(1)));
            }
            limited |= in_units(units, &mut totals, source)?;
        }
    }
    let mut nans = numbers.unwrap_or_default().iter().map(|number| number.is_nan());
    // An average leaves out what is no number: it is missing where nothing is left.
    let unusable = if unit.averaged { nans.all(|nan| nan) } else { nans.any(|nan| nan) };
    let mut sets = digits_of(unit, &totals)?;
    if unit.present {
        sets.push(vec![Some(0)]);
    }
    if !unit.beside.is_empty() {
        let flags = unit.beside.iter().map(|name| match name.as_str() {
            "limited" => limited,
            "unusable" => unusable && numbers.is_some_and(|numbers| !numbers.is_empty()),
            _ => false,
        });
        sets.push((0..).zip(flags).map(|(place, flag)| flag.then_some(place)).collect());
    }
    Ok(sets)
}

/// Clips amounts and rounds them to units by a coin; whether one was clipped.
fn in_units(
    &NumberUnits { low, high, origin, bound, units, sign }: &NumberUnits,
    totals: &mut [Total],
    source: &mut dyn Source,
) -> Result<bool> {
    check_bounds(low, high)?;
    if !(bound > 0.0 && bound.is_finite()) {
        return Err(Error::new("the plan's bound is not above 0: make plan.json anew"));
    }
    let mut beyond = false;
    let away: Vec<f64> = totals
        .iter()
        .map(|total| {
            let inside = total.group.map_or(origin, |_| total.amount.clamp(low, high));
            beyond |= total.group.is_some() && inside != total.amount;
            // Differences may round past the bound by a hair.
            (sign * (inside - origin)).clamp(-bound, bound) / bound
        })
        .collect();
    let cells = to_grid(&away, units.saturating_mul(2), &dice32(source, away.len()));
    for (total, cell) in totals.iter_mut().zip(cells) {
        total.amount = cell as f64 - f64::from(units);
    }
    Ok(beyond)
}

/// The counters that tell of totals, digit by digit.
fn digits_of(unit: &GroupTotals, totals: &[Total]) -> Result<Vec<Places>> {
    let &GroupTotals { most, digits, groups, least, ref weights, .. } = unit;
    if digits == Digits::Unknown || most > u64::from(u32::MAX) {
        return Err(Error::new("this client does not know what these counters count: update"));
    }
    let whole = (most + 1).ilog2() as usize; // digits of the weights 1, 2, 4, ...
    let rest = weights.get(whole).copied().unwrap_or(0);
    let mut sets = vec![Places::new(); weights.len()];
    for &Total { group, amount, .. } in totals {
        let (amount, below) = (amount as i64, amount < 0.0);
        let lifted = if below && digits == Digits::Lifted { amount - least } else { amount };
        let mut left = lifted.unsigned_abs();
        let more = left >= 1 << whole;
        if more {
            left = left.wrapping_sub(rest);
        }
        let set = group.map(|g| if below && digits == Digits::Signed { g + groups } else { g });
        let unset = group.filter(|_| digits == Digits::Ends).map(|g| g + groups);
        for (digit, places) in sets.iter_mut().enumerate() {
            let bit = if digit < whole { left >> digit & 1 == 1 } else { more };
            places.push(if bit { set } else { unset });
        }
    }
    if digits == Digits::Lifted {
        let negative = |total: &Total| total.group.filter(|_| total.amount < 0.0);
        sets.push(totals.iter().map(negative).collect());
    }
    Ok(sets)
}
