//! What `hushbeam check --json` says to clients: `docs/client.schema.json` has the schema.
#![allow(missing_docs)] // the names are the schema's

use alloc::{format, string::String, vec::Vec};
use core::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{Error, Result};

/// The format that this client reads.
pub const FORMAT: u64 = 1;

fn decimal<'de, T: FromStr, D: Deserializer<'de>>(from: D) -> core::result::Result<T, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom("no decimal integer of this width"))
}

fn decimals<'de, T: FromStr, D: Deserializer<'de>>(
    from: D,
) -> core::result::Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(|_| D::Error::custom("no decimal integers of this width")))
        .collect()
}

#[derive(Clone, Debug, Deserialize)]
pub struct KAryResponse {
    pub inputs: u64,
    pub order: u64,
    #[serde(deserialize_with = "decimal")]
    pub miss: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct LinearHash {
    pub inputs: u64,
    pub order: u64,
    pub polynomial: Option<u64>,
    pub digits: u32,
    #[serde(deserialize_with = "decimal")]
    pub miss: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ProjectiveGeometry {
    pub inputs: u64,
    pub order: u64,
    pub polynomial: Option<u64>,
    pub digits: u32,
    #[serde(deserialize_with = "decimal")]
    pub on: u64,
    #[serde(deserialize_with = "decimal")]
    pub off: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct SlidingWindow {
    pub cells: u64,
    pub steps: u64,
    pub width: u64,
    #[serde(deserialize_with = "decimal")]
    pub outside: u64,
    #[serde(deserialize_with = "decimal")]
    pub inside: u64,
    pub lower: Vec<u64>,
    #[serde(deserialize_with = "decimals")]
    pub chance: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct WithUnusable {
    pub number: SlidingWindow,
    #[serde(deserialize_with = "decimal")]
    pub chance: u64,
    pub shift: u32,
    #[serde(deserialize_with = "decimals")]
    pub threshold: Vec<u64>,
    pub alias: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Dummies {
    pub inputs: u64,
    pub first: u64,
    #[serde(deserialize_with = "decimals")]
    pub ends: Vec<u128>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Level {
    pub slots: usize,
    pub counters: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct NumberUnits {
    pub low: f64,
    pub high: f64,
    pub origin: f64,
    pub bound: f64,
    pub units: u32,
    pub sign: f64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Digits {
    Whole,
    Signed,
    Lifted,
    Ends,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Deserialize)]
pub struct GroupTotals {
    pub groups: u64,
    pub most_groups: usize,
    pub most: u64,
    pub digits: Digits,
    pub least: i64,
    pub weights: Vec<u64>,
    pub numbers: Option<NumberUnits>,
    pub averaged: bool,
    pub present: bool,
    pub beside: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "raises", rename_all = "lowercase")]
pub enum Unit {
    Totals(GroupTotals),
    Path { bins: u64, sizes: Vec<u64> },
}

#[derive(Clone, Debug, Deserialize)]
pub struct Counters {
    pub levels: Vec<Level>,
    pub unit: Unit,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "channel")]
pub enum Channel {
    #[serde(rename = "k-ary response")]
    KAryResponse(KAryResponse),
    #[serde(rename = "linear hash")]
    LinearHash(LinearHash),
    #[serde(rename = "projective geometry")]
    ProjectiveGeometry(ProjectiveGeometry),
    #[serde(rename = "sliding window")]
    SlidingWindow(SlidingWindow),
    #[serde(rename = "with unusable")]
    WithUnusable(WithUnusable),
    #[serde(rename = "dummies")]
    Dummies(Dummies),
    #[serde(rename = "counters")]
    Counters(Counters),
    /// A newer client may know it.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Domain {
    pub declared: u64,
    pub other: bool,
    pub low: Option<String>,
    pub values: Option<Vec<String>>,
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Column {
    pub column: String,
    pub domain: Domain,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "encoder", rename_all = "lowercase")]
pub enum Encoder {
    Values {
        column: String,
        domain: Domain,
        unusable: Option<u64>,
    },
    Numbers {
        column: String,
        low: f64,
        high: f64,
        cells: u32,
        unusable: Option<u64>,
        fill: Option<f64>,
    },
    Bins {
        column: String,
        low: f64,
        high: f64,
        bins: u64,
    },
    Groups {
        columns: Vec<Column>,
        number: Option<String>,
        whole: bool,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Draws {
    #[serde(deserialize_with = "decimal")]
    pub first: u64,
    #[serde(deserialize_with = "decimal")]
    pub last: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PermanentKeys {
    pub fingerprint: String,
    pub law: String,
    pub rounding: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Client {
    pub form: u16,
    pub sealable: bool,
    pub encoder: Encoder,
    pub channel: Channel,
    pub draws: Option<Draws>,
    pub permanent: Option<PermanentKeys>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Metric {
    pub place: u16,
    pub name: String,
    pub client: Option<Client>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Window {
    pub name: String,
    pub fingerprint: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    pub format: u64,
    pub one_report: bool,
    pub window: Option<Window>,
    pub metrics: Vec<Metric>,
}

impl Plan {
    /// The plan in the text of `hushbeam check plan.yaml --json --window W`.
    ///
    /// # Errors
    /// It is no plan of the format that this client reads.
    pub fn of_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        // Of a later format the rest may read otherwise, so the number is read first.
        let Format { format } = parsed(text)?;
        if format != FORMAT {
            let what =
                format!("the plan is of format {format}, this client reads {FORMAT}: update");
            return Err(Error::new(what));
        }
        parsed(text)
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(format!("no plan.json (`hushbeam check --json` prints one): {error}"))
    })
}
