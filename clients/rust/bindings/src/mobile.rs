//! What Kotlin and Swift see; `uniffi-bindgen` generates both from the library.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hushbeam::PublicKey;
use hushbeam::plan::Plan;

/// What was wrong, where, and what to do, in one line.
#[derive(Debug, uniffi::Error)]
#[uniffi(flat_error)]
pub enum HushbeamException {
    /// The client refuses what it was given.
    Refused(hushbeam::Error),
}

impl fmt::Display for HushbeamException {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Refused(error) = self;
        error.fmt(to)
    }
}

impl std::error::Error for HushbeamException {}

impl From<hushbeam::Error> for HushbeamException {
    fn from(error: hushbeam::Error) -> Self {
        Self::Refused(error)
    }
}

type Result<T> = std::result::Result<T, HushbeamException>;

/// A value of a column.
#[derive(uniffi::Enum)]
pub enum Value {
    /// What is missing; it is reported like any other.
    Missing,
    /// Yes or no.
    Flag {
        /// Which.
        flag: bool,
    },
    /// A whole number.
    Whole {
        /// Which.
        whole: i64,
    },
    /// A number.
    Number {
        /// Which.
        number: f64,
    },
    /// A text.
    Text {
        /// Which.
        text: String,
    },
}

fn row(row: HashMap<String, Value>) -> hushbeam::Row {
    let value = |value| match value {
        Value::Missing => hushbeam::Value::Missing,
        Value::Flag { flag } => hushbeam::Value::Flag(flag),
        Value::Whole { whole } => hushbeam::Value::Whole(whole),
        Value::Number { number } => hushbeam::Value::Number(number),
        Value::Text { text } => hushbeam::Value::Text(text),
    };
    row.into_iter().map(|(column, each)| (column, value(each))).collect()
}

/// One user's reports.
#[derive(uniffi::Object)]
pub struct Device(hushbeam::Device);

#[uniffi::export]
impl Device {
    /// `plan`: the text of `hushbeam check plan.yaml --json --window W`.
    /// `secret`: 32 random bytes that this device keeps for ever.
    /// `values`: those of columns of which the plan has a hash alone.
    #[uniffi::constructor]
    pub fn new(
        plan: String,
        secret: Vec<u8>,
        values: HashMap<String, Vec<String>>,
    ) -> Result<Arc<Self>> {
        let values = values.into_iter().collect();
        Ok(Arc::new(Self(hushbeam::Device::new(Plan::of_json(&plan)?, &secret, values)?)))
    }

    /// A file of plain reports; none if there is nothing to report, or others are asked.
    pub fn report(
        &self,
        metric: String,
        rows: Vec<HashMap<String, Value>>,
    ) -> Result<Option<Vec<u8>>> {
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        Ok(self.0.report(&metric, &rows)?)
    }

    /// The same for the collector's eyes alone; `key`: the text of its `.public.pem`.
    pub fn sealed(
        &self,
        metric: String,
        rows: Vec<HashMap<String, Value>>,
        key: String,
    ) -> Result<Option<Vec<u8>>> {
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        Ok(self.0.sealed(&metric, &rows, &PublicKey::of(&key)?)?)
    }

    /// A request for the seals of strings; `slots`: the plan's `rows_per_user`, `most`: its
    /// `max_length`.
    pub fn strings(
        &self,
        metric: String,
        texts: Vec<String>,
        slots: u32,
        most: u32,
        key: String,
    ) -> Result<Arc<StringRequest>> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let layout = (slots as usize, most as usize);
        let made = self.0.strings(&metric, &texts, layout, &PublicKey::of(&key)?)?;
        Ok(Arc::new(StringRequest(made)))
    }
}

/// A request for the seals of one user's strings.
#[derive(uniffi::Object)]
pub struct StringRequest(hushbeam::StringRequest);

#[uniffi::export]
impl StringRequest {
    /// What goes to the party that evaluates strings.
    pub fn elements(&self) -> Vec<u8> {
        self.0.elements()
    }

    /// A file with the user's one report, by what the party answered and its published key.
    pub fn report(&self, answer: Vec<u8>, public_key: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.0.report(&answer, &public_key)?)
    }
}

/// A request for tokens of one window.
#[derive(uniffi::Object)]
pub struct Request(hushbeam::Request);

#[uniffi::export]
impl Request {
    /// For 1 .. 65,535 tokens. `key` is 32 random bytes: the same key makes the same request again,
    /// and an issuer answers a device no other. Keep it until the answer is there. `fingerprint` is
    /// the window's, as the plan has it; `role`, "issuer" or, for tokens of strings, "queries".
    #[uniffi::constructor]
    pub fn new(count: u32, key: Vec<u8>, fingerprint: String, role: String) -> Result<Arc<Self>> {
        let made = hushbeam::Request::of_key(count as usize, &key, &fingerprint, &role)?;
        Ok(Arc::new(Self(made)))
    }

    /// What goes to the issuer.
    pub fn elements(&self) -> Vec<u8> {
        self.0.elements()
    }

    /// The tokens, by what the issuer answered and its published key of this window.
    pub fn tokens(&self, answer: Vec<u8>, public_key: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let tokens = self.0.tokens(&answer, &public_key)?;
        Ok(tokens.iter().map(|token| token.to_vec()).collect())
    }
}
