//! A device: from its own rows to the bytes that it sends, by what `check --json` says alone.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use zeroize::Zeroizing;

use crate::channels::perturb;
use crate::counters::{slot_levels, slot_words};
use crate::encoders::{self, Domain};
use crate::permanent::Permanent;
use crate::plan::{Channel, Client, Encoder, FORMAT, Metric, Plan};
use crate::random::{self, Keystream, Source, dice32, integers};
use crate::report::{self, File, Id, Mark, device_draw, device_id};
use crate::rows::{self, Row};
use crate::sealing::PublicKey;
use crate::strings::StringRequest;
use crate::{Error, Result};

/// Opens a source of randomness; one of the system's key, but in tests.
pub(crate) type Open<'a> = &'a mut dyn FnMut() -> Result<Keystream>;

/// One user's reports.
pub struct Device {
    plan: Plan,
    secret: Zeroizing<[u8; 32]>,
    values: BTreeMap<String, Vec<String>>,
}

impl Device {
    /// `secret`: 32 random bytes that this device keeps for ever; its reports are named under them.
    /// `values`: those of columns of which the plan tells a hash alone.
    ///
    /// # Errors
    /// The plan names no window or is of another format, or the secret is none.
    pub fn new(plan: Plan, secret: &[u8], values: BTreeMap<String, Vec<String>>) -> Result<Self> {
        if plan.format != FORMAT {
            return Err(Error::new(format!("the plan is of format {}: update", plan.format)));
        }
        if plan.window.is_none() {
            return Err(Error::new("the plan names no window: check --json --window"));
        }
        Ok(Self { plan, secret: random::secret(secret)?, values })
    }

    /// A file of plain reports; none if there is nothing to report, or others are asked.
    ///
    /// # Errors
    /// The plan has no such metric or its reports have to be sealed, or rows do not fit it.
    #[cfg(feature = "std")]
    pub fn report(&self, metric: &str, rows: &[Row]) -> Result<Option<Vec<u8>>> {
        self.report_from(metric, rows, &mut Keystream::system)
    }

    /// The same for the collector's eyes alone.
    ///
    /// # Errors
    /// The plan has no such metric, the shuffler has to read its reports, or rows do not fit it.
    #[cfg(feature = "std")]
    pub fn sealed(&self, metric: &str, rows: &[Row], key: &PublicKey) -> Result<Option<Vec<u8>>> {
        self.sealed_from(metric, rows, key, &mut Keystream::system)
    }

    /// [`Device::report`] with randomness from the caller: each stream that is opened must have a
    /// key of its own, which nobody can predict.
    ///
    /// # Errors
    /// As of [`Device::report`].
    pub fn report_from(&self, metric: &str, rows: &[Row], open: Open) -> Result<Option<Vec<u8>>> {
        let (client, mark) = self.metric(metric, rows)?;
        if client.form != report::PLAIN {
            let what = format!("metric {metric}: nothing hides its reports but seals: seal them");
            return Err(Error::new(what));
        }
        let Some((messages, ids)) = self.messages(client, &mark, rows, open)? else {
            return Ok(None);
        };
        report::plain_file(&mark, &ids, &messages).map(Some)
    }

    /// [`Device::sealed`] with randomness from the caller, as of [`Device::report_from`].
    ///
    /// # Errors
    /// As of [`Device::sealed`].
    pub fn sealed_from(
        &self,
        metric: &str,
        rows: &[Row],
        key: &PublicKey,
        open: Open,
    ) -> Result<Option<Vec<u8>>> {
        let (client, mark) = self.metric(metric, rows)?;
        if client.form == report::SLOTS {
            return self.slots(client, &mark, rows, key, open);
        }
        if !client.sealable {
            let what = format!("metric {metric}: the shuffler has to read its reports' groups");
            return Err(Error::new(what));
        }
        let Some((messages, ids)) = self.messages(client, &mark, rows, open)? else {
            return Ok(None);
        };
        let (mut file, mut ephemeral) = (File::new(&mark, report::SEALED, 0), open()?);
        let context = mark.context(None, key);
        for (id, message) in ids.iter().zip(messages) {
            let seal = context.seal(&message.to_le_bytes(), &mut ephemeral)?;
            file.push(id, &[key.id(), &seal])?;
        }
        Ok(Some(file.bytes()))
    }

    /// A request for the seals of a user's strings, of a metric that counts them by a threshold.
    /// The plan's JSON does not describe those, so `slots` (the plan's `rows_per_user`) and `most`
    /// (its `max_length`, in bytes) are the caller's to know. Of more strings some are drawn.
    ///
    /// # Errors
    /// The plan has no such metric, or its reports would be too large.
    #[cfg(feature = "std")]
    pub fn strings(
        &self,
        metric: &str,
        texts: &[&str],
        (slots, most): (usize, usize),
        key: &PublicKey,
    ) -> Result<StringRequest> {
        self.strings_from(metric, texts, (slots, most), key, &mut Keystream::system()?)
    }

    /// [`Device::strings`] with randomness from the caller, as of [`Device::report_from`].
    ///
    /// # Errors
    /// As of [`Device::strings`].
    pub fn strings_from(
        &self,
        metric: &str,
        texts: &[&str],
        (slots, most): (usize, usize),
        key: &PublicKey,
        source: &mut dyn Source,
    ) -> Result<StringRequest> {
        let (_, mark) = self.place(metric)?;
        let id = self.id(&mark, source);
        StringRequest::drawn(mark, id, texts, (slots, most), key, source)
    }

    /// A metric of the plan.
    fn place(&self, name: &str) -> Result<(&Metric, Mark)> {
        let metric = self.plan.metrics.iter().find(|metric| metric.name == name);
        let (Some(metric), Some(window)) = (metric, &self.plan.window) else {
            return Err(Error::new(format!("the plan has no metric {name}")));
        };
        Ok((metric, Mark::of(window, metric.place)?))
    }

    /// A metric of the plan that this client knows, and that the rows fit.
    fn metric(&self, name: &str, rows: &[Row]) -> Result<(&Client, Mark)> {
        let (Metric { client, .. }, mark) = self.place(name)?;
        let known = client.as_ref().filter(|client| !matches!(client.channel, Channel::Unknown));
        let client = known.ok_or_else(|| {
            Error::new(format!("metric {name}: this client does not know its mechanism"))
        })?;
        rows::check(name, &client.encoder, rows)?;
        Ok((client, mark))
    }

    /// Whether this device answers the metric, where each answers one of several.
    fn answers(&self, client: &Client, mark: &Mark) -> Result<bool> {
        let Some(draws) = &client.draws else { return Ok(true) };
        if !self.plan.one_report {
            return Err(Error::new("rows that answer one metric of several: not here"));
        }
        Ok((draws.first..=draws.last).contains(&device_draw(&self.secret, mark)))
    }

    fn messages(
        &self,
        client: &Client,
        mark: &Mark,
        rows: &[Row],
        open: Open,
    ) -> Result<Option<(Vec<u64>, Vec<Id>)>> {
        if !self.answers(client, mark)? {
            return Ok(None);
        }
        let permanent = client.permanent.as_ref();
        let permanent = permanent.map(|keys| Permanent::of(&self.secret, keys, mark.place()));
        let mut source = open()?;
        let mut cells = match &permanent {
            Some(noise) => self.cells(client, rows, &mut |size| noise.coins(size))?,
            None => {
                let mut coins = open()?;
                self.cells(client, rows, &mut |size| Ok(dice32(&mut coins, size)))?
            }
        };
        if cells.is_empty() {
            return Ok(None);
        }
        if self.plan.one_report {
            let chosen = integers(&mut source, cells.len() as u128, 1)?[0];
            cells = [cells[chosen as usize]].into();
        }
        let messages = match &permanent {
            Some(noise) => noise.messages(&client.channel, cells[0])?,
            None => perturb(&client.channel, &cells, &mut source)?,
        };
        let ids = messages.iter().map(|_| self.id(mark, &mut source)).collect();
        Ok(Some((messages, ids)))
    }

    /// The user's id, or a random one where rows are nobody's.
    fn id(&self, mark: &Mark, source: &mut dyn Source) -> Id {
        if self.plan.one_report {
            return device_id(&self.secret, mark);
        }
        let mut id = [0; 16];
        source.fill(&mut id);
        id
    }

    fn cells(
        &self,
        client: &Client,
        rows: &[Row],
        coins: &mut dyn FnMut(usize) -> Result<Vec<u32>>,
    ) -> Result<Vec<u64>> {
        match &client.encoder {
            Encoder::Values { column, domain, unusable } => {
                let domain = Domain::of(domain, column, self.values.get(column))?;
                Ok(encoders::values(*unusable, &domain, rows, column))
            }
            encoder @ Encoder::Numbers { .. } => encoders::numbers(encoder, rows, coins),
            Encoder::Bins { column, low, high, bins } => {
                encoders::bins(rows, column, *low, *high, *bins)
            }
            _ => Err(Error::new("counters are sealed slot by slot")),
        }
    }

    /// One report of all rows of the user; or of each row one, where rows are nobody's.
    fn slots(
        &self,
        client: &Client,
        mark: &Mark,
        rows: &[Row],
        key: &PublicKey,
        open: Open,
    ) -> Result<Option<Vec<u8>>> {
        if !self.answers(client, mark)? {
            return Ok(None);
        }
        let Channel::Counters(counters) = &client.channel else {
            return Err(Error::new("this client seals slots of counters alone"));
        };
        let context: Vec<_> =
            (0..).zip(&counters.levels).map(|(level, _)| mark.context(Some(level), key)).collect();
        let (mut file, mut sent) = (File::new(mark, report::SLOTS, 0), false);
        let units = if self.plan.one_report { rows.len() } else { 1 };
        for unit in rows.chunks(units.max(1)) {
            let mut source = open()?;
            let Some(words) = self.slot_words(client, unit, &mut source)? else { continue };
            let id = self.id(mark, &mut source);
            let mut boxes = Vec::new();
            for (level, word) in slot_levels(counters).zip(words) {
                let context = &context[usize::from(level)];
                boxes.extend(context.seal(&word.to_le_bytes(), &mut source)?);
            }
            file.push(&id, &[key.id(), &boxes])?;
            sent = true;
        }
        Ok(sent.then(|| file.bytes()))
    }

    fn slot_words(
        &self,
        client: &Client,
        unit: &[Row],
        source: &mut Keystream,
    ) -> Result<Option<Vec<u64>>> {
        let Channel::Counters(counters) = &client.channel else { return Ok(None) };
        let (groups, numbers) = match &client.encoder {
            Encoder::Groups { columns, number, whole } => {
                let domains = columns.iter().map(|each| {
                    Domain::of(&each.domain, &each.column, self.values.get(&each.column))
                });
                let domains = domains.collect::<Result<Vec<_>>>()?;
                let number = number.as_deref().map(|column| (column, *whole));
                encoders::groups(columns, &domains, number, unit)
            }
            _ => (self.cells(client, unit, &mut |size| Ok(dice32(source, size)))?, None),
        };
        slot_words(counters, &groups, numbers.as_deref(), source)
    }

    /// The words of a unit's slots before they are sealed: for tests.
    ///
    /// # Errors
    /// As of [`Device::sealed`].
    #[doc(hidden)]
    pub fn words_from(
        &self,
        metric: &str,
        unit: &[Row],
        source: &mut Keystream,
    ) -> Result<Option<Vec<u64>>> {
        let (client, _) = self.metric(metric, unit)?;
        self.slot_words(client, unit, source)
    }
}
