//! From the values of rows to the inputs of mechanisms.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use sha2::{Digest, Sha256};

use crate::plan::{self, Encoder};
use crate::random::unhex;
use crate::rows::{Row, Value};
use crate::{Error, Result};

/// The places of a domain's values; none for what is missing, or outside.
pub(crate) struct Domain<'a> {
    declared: u64,
    other: bool,
    low: i128,
    places: Option<BTreeMap<&'a str, u64>>,
}

impl<'a> Domain<'a> {
    /// `listed`: the values, where a plan tells their hash alone.
    pub fn of(
        domain: &'a plan::Domain,
        column: &str,
        listed: Option<&'a Vec<String>>,
    ) -> Result<Self> {
        let at = |what| Err(Error::new(format!("column {column}: {what}")));
        let &plan::Domain { declared, other, ref low, ref values, ref sha256 } = domain;
        let (mut least, mut places) = (0, None);
        if let Some(low) = low {
            match low.parse() {
                Ok(number) => least = number,
                Err(_) => return at("the plan's range starts at no integer: make plan.json anew"),
            }
        } else {
            let Some(listed) = values.as_ref().or(listed) else {
                return at("the plan has only a hash of its values: give the list");
            };
            if values.is_none() && !hashed(listed, declared, sha256.as_deref()) {
                return at("these are not the declared values, in their order");
            }
            places =
                Some((0..).zip(listed).map(|(place, value)| (value.as_str(), place)).collect());
        }
        Ok(Self { declared, other, low: least, places })
    }

    pub fn size(&self) -> u64 {
        self.declared + u64::from(self.other)
    }

    pub fn place(&self, value: &Value) -> Option<u64> {
        if *value == Value::Missing {
            return None;
        }
        let place = match &self.places {
            Some(places) => places.get(value.text()?.as_str()).copied(),
            None => self.within(value),
        };
        place.or(self.other.then_some(self.declared))
    }

    fn within(&self, value: &Value) -> Option<u64> {
        let whole = match value {
            Value::Whole(whole) => i128::from(*whole),
            // Beyond 2^64 a number lies outside of any range, and the cast stays outside, too.
            Value::Number(number) => Some(*number as i128).filter(|&w| w as f64 == *number)?,
            Value::Text(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
                Some(text).filter(|_| decimal && digits.len() <= 20)?.parse().ok()?
            }
            _ => return None,
        };
        u64::try_from(whole.checked_sub(self.low)?).ok().filter(|place| *place < self.declared)
    }
}

fn hashed(values: &[String], declared: u64, sha256: Option<&str>) -> bool {
    let mut hash = Sha256::new();
    for value in values {
        hash.update(value);
        hash.update("\n");
    }
    let wanted = sha256.and_then(|text| unhex::<32>("a hash", text).ok());
    values.len() as u64 == declared && wanted == Some(hash.finalize().into())
}

/// Numbers in [-1, 1] to grid points 0 .. cells, rounded by coins that keep their mean.
///
/// `coins`: as many uniform integers of 32 bits.
pub fn to_grid(values: &[f64], cells: u32, coins: &[u32]) -> Vec<u64> {
    let parts = f64::from(cells) * (1u64 << 31) as f64; // a cell has 2^32, of 2 / cells
    let rounded = values.iter().map(|value| to_even((value + 1.0) * parts));
    rounded.zip(coins).map(|(fine, &coin)| (fine + u64::from(coin)) >> 32).collect()
}

fn to_even(number: f64) -> u64 {
    let below = number as u64;
    let rest = number - below as f64;
    below + u64::from(rest > 0.5 || (rest == 0.5 && below % 2 == 1))
}

/// The inputs of rows; rows that cannot be used and have no input are left out.
pub(crate) fn values(
    unusable: Option<u64>,
    domain: &Domain,
    rows: &[Row],
    column: &str,
) -> Vec<u64> {
    rows.iter().filter_map(|row| domain.place(&row[column]).or(unusable)).collect()
}

/// The same of numbers; `coins` draws as many as there are.
pub(crate) fn numbers(
    encoder: &Encoder,
    rows: &[Row],
    coins: &mut dyn FnMut(usize) -> Result<Vec<u32>>,
) -> Result<Vec<u64>> {
    let &Encoder::Numbers { ref column, low, high, cells, unusable, fill } = encoder else {
        return Err(Error::new("the encoder is not one of numbers"));
    };
    check_bounds(low, high)?;
    let given: Vec<_> = rows.iter().map(|row| row[column].number().or(fill)).collect();
    // Clipped before anything is drawn: what is sent is the same for all beyond a bound.
    let scaled: Vec<f64> = given
        .iter()
        .flatten()
        .map(|number| (number.clamp(low, high) - low) / (high - low) * 2.0 - 1.0)
        .collect();
    let mut inputs = to_grid(&scaled, cells, &coins(scaled.len())?).into_iter();
    Ok(given
        .iter()
        .filter_map(|number| if number.is_some() { inputs.next() } else { unusable })
        .collect())
}

/// The bin of each row, `bins` where it has no number.
pub(crate) fn bins(rows: &[Row], column: &str, low: f64, high: f64, bins: u64) -> Result<Vec<u64>> {
    check_bounds(low, high)?;
    let half = high / 2.0 - low / 2.0;
    let bin = |row: &Row| {
        let Some(number) = row[column].number() else { return bins };
        let inside = number.clamp(low, high);
        // By the edges themselves: a product may round a number over the edge that it lies on.
        let edge = |bin: &u64| low + 2.0 * half * *bin as f64 / bins as f64;
        (1..bins).take_while(|bin| inside >= edge(bin)).count() as u64
    };
    Ok(rows.iter().map(bin).collect())
}

/// Groups of rows, the last of rows that lack a value; and the number of each, NaN for none.
pub(crate) fn groups(
    columns: &[plan::Column],
    domains: &[Domain],
    number: Option<(&str, bool)>,
    rows: &[Row],
) -> (Vec<u64>, Option<Vec<f64>>) {
    let declared = domains.iter().map(Domain::size).product();
    let group = |row: &Row| {
        let mut places = columns.iter().zip(domains);
        places.try_fold(0, |group, (each, domain)| {
            Some(group * domain.size() + domain.place(&row[&each.column])?)
        })
    };
    let groups = rows.iter().map(|row| group(row).unwrap_or(declared)).collect();
    let numbers = number.map(|(column, whole)| {
        let number =
            |row: &Row| row[column].number().filter(|number| !whole || number % 1.0 == 0.0);
        rows.iter().map(|row| number(row).unwrap_or(f64::NAN)).collect()
    });
    (groups, numbers)
}

/// `clamp` panics where bounds are none.
pub(crate) fn check_bounds(low: f64, high: f64) -> Result<()> {
    let holds = low.is_finite() && high.is_finite() && low <= high;
    holds.then_some(()).ok_or_else(|| Error::new("the plan's bounds are none: make plan.json anew"))
}
