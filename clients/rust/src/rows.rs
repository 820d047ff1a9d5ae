//! Rows as a metric takes them: what does not fit is refused before anything is drawn.

use alloc::{collections::BTreeMap, format, string::String, string::ToString, vec::Vec};

use serde::Deserialize;

use crate::plan::{Domain, Encoder};
use crate::{Error, Result};

/// A value of a column.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Value {
    /// What is missing; it is reported like any other.
    Missing,
    /// Yes or no: `true` and `false` among a domain's values.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A number; one that is not finite counts as missing where numbers are, else it is refused.
    Number(f64),
    /// A text.
    Text(String),
}

/// A row of whatever is collected: all columns that a metric names, and no others.
pub type Row = BTreeMap<String, Value>;

impl Value {
    /// A finite number, or none for anything else.
    pub(crate) fn number(&self) -> Option<f64> {
        match *self {
            Self::Whole(whole) => Some(whole as f64),
            Self::Number(number) => Some(number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// How a domain's list of values writes it.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Missing => None,
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Whole(whole) => Some(whole.to_string()),
            Self::Number(0.0) => Some("0".into()), // -0 too
            Self::Number(number) => Some(decimals(*number)),
            Self::Text(text) => Some(text.clone()),
        }
    }
}

/// A number as JavaScript writes it: the fewest digits that tell it, and exponents far from 1.
fn decimals(number: f64) -> String {
    if (1e-6..1e21).contains(&number.abs()) {
        return number.to_string();
    }
    let short = format!("{number:e}");
    if short.contains("e-") { short } else { short.replace('e', "e+") }
}

/// Rows in JSON, a list of objects: `[{"hour": 3}]`.
///
/// # Errors
/// It is no such list; the message quotes nothing of it.
pub fn rows_of_json(text: &str) -> Result<Vec<Row>> {
    serde_json::from_str(text).map_err(|_| {
        Error::new(
            "rows must be a JSON list of objects whose values are texts, numbers, flags or null",
        )
    })
}

/// Holds rows against the columns of an encoder. A misspelt column, or a text in the place of a
/// number, would else be reported as missing, and nobody could tell it from noise.
pub(crate) fn check(metric: &str, encoder: &Encoder, rows: &[Row]) -> Result<()> {
    let columns = columns(encoder)?;
    for row in rows {
        if let Some(other) = row.keys().find(|name| columns.iter().all(|(own, _)| own != name)) {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            let names = if names.is_empty() { "none".into() } else { names.join(", ") };
            let what = format!("metric {metric} has no column {other:?}: its columns are {names}");
            return Err(Error::new(what));
        }
        for (column, domain) in &columns {
            let at = format!("metric {metric}, column {column:?}");
            let Some(value) = row.get(*column) else {
                return Err(Error::new(format!("{at}: a row lacks it: null says \"missing\"")));
            };
            // Not a number among numbers is a missing one.
            let (fits, wanted) = match (value, domain) {
                (Value::Number(number), Some(_)) => {
                    (number.is_finite(), "a text, a finite number or a flag")
                }
                (Value::Text(_) | Value::Flag(_), None) => (false, "a number"),
                _ => (true, ""),
            };
            if !fits {
                let what = format!("{at}: takes {wanted}, or null for what is missing");
                return Err(Error::new(what));
            }
        }
    }
    Ok(())
}

/// The columns that an encoder reads, each with its domain, or none where it holds numbers.
fn columns(encoder: &Encoder) -> Result<Vec<(&str, Option<&Domain>)>> {
    match encoder {
        Encoder::Values { column, domain, .. } => Ok([(column.as_str(), Some(domain))].into()),
        Encoder::Numbers { column, .. } | Encoder::Bins { column, .. } => {
            Ok([(column.as_str(), None)].into())
        }
        Encoder::Groups { columns, number, .. } => {
            let groups = columns.iter().map(|each| (each.column.as_str(), Some(&each.domain)));
            let number = number.iter().map(|name| (name.as_str(), None));
            Ok(groups.chain(number).collect())
        }
        Encoder::Unknown => Err(Error::new("this client does not know the encoder: update")),
    }
}
