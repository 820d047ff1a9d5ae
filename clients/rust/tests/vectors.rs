//! The vectors of the Python client: what any client has to make of known keystreams.

use std::collections::BTreeMap;

use hushbeam::plan::{Channel, PermanentKeys, Plan, Window};
use hushbeam::{
    Device, Keystream, Mark, Permanent, PublicKey, Row, Source, device_draw, device_id, integers,
    perturb, rows_of_json, to_grid,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

fn read(name: &str) -> Value {
    let path = format!("{}/../typescript/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn of<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap().as_bytes();
    let pairs = text.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn key(value: &Value) -> [u8; 32] {
    unhex(value).try_into().unwrap()
}

fn open(value: &Value) -> Keystream {
    Keystream::of(&key(value))
}

fn numbers(value: &Value) -> Vec<u64> {
    of::<Vec<String>>(value).iter().map(|number| number.parse().unwrap()).collect()
}

fn all(value: &Value) -> &Vec<Value> {
    let all = value.as_array().unwrap();
    assert!(!all.is_empty());
    all
}

#[test]
fn integers_below_a_bound() {
    for each in all(&read("channels.json")["integers"]) {
        let bound: u128 = each["bound"].as_str().unwrap().parse().unwrap();
        let wanted = numbers(&each["drawn"]);
        assert_eq!(integers(&mut open(&each["key"]), bound, wanted.len()).unwrap(), wanted);
    }
    for bound in [0, (1 << 64) + 1] {
        assert!(integers(&mut Keystream::of(&[7; 32]), bound, 1).is_err());
    }
}

/// Words that no keystream is likely to make.
struct Given(Vec<u8>);

impl Source for Given {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.drain(..bytes.len()).collect::<Vec<_>>());
    }
}

#[test]
fn a_draw_just_beyond_the_last_is_drawn_again() {
    // 2^32 - 4 is the first number that makes 6 of 6 * floor(2^32 / 6).
    let given = [u32::MAX - 3, u32::MAX - 4].map(u32::to_le_bytes).concat();
    assert_eq!(integers(&mut Given(given), 6, 1).unwrap(), [5]);
}

#[test]
fn numbers_on_grids() {
    let vectors = read("channels.json");
    for each in all(&vectors["grids"]) {
        let values: Vec<f64> = of(&each["values"]);
        let words = hushbeam::words(&mut open(&each["key"]), values.len().div_ceil(2));
        let coins: Vec<u32> =
            words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]).collect();
        let grid = to_grid(&values, of(&each["cells"]), &coins);
        assert_eq!(grid, of::<Vec<u64>>(&each["drawn"]));
    }
    for each in all(&vectors["offsets"]) {
        let (secret, keys) = (key(&each["secret"]), of::<PermanentKeys>(&each["keys"]));
        let values: Vec<f64> = of(&each["values"]);
        let noise = Permanent::of(&secret, &keys, of(&each["place"]));
        let grid = to_grid(&values, of(&each["cells"]), &noise.coins(values.len()).unwrap());
        assert_eq!(grid, of::<Vec<u64>>(&each["drawn"]));
    }
    // Halves are rounded to even.
    let halves = [-1.0 + 2f64.powi(-32), -1.0 + 3.0 * 2f64.powi(-32)];
    assert_eq!(to_grid(&halves, 1, &[u32::MAX, u32::MAX - 1]), [0, 1]);
}

#[test]
fn ids_and_draws_of_devices() {
    for each in all(&read("channels.json")["devices"]) {
        let (name, fingerprint) = (of(&each["window"]), of(&each["fingerprint"]));
        let mark = Mark::of(&Window { name, fingerprint }, of(&each["place"])).unwrap();
        let secret = key(&each["secret"]);
        assert_eq!(device_id(&secret, &mark).to_vec(), unhex(&each["id"]));
        assert_eq!(device_draw(&secret, &mark).to_string(), each["draw"].as_str().unwrap());
    }
}

#[test]
fn messages_of_channels() {
    for each in all(&read("channels.json")["channels"]) {
        let (name, channel) = (&each["name"], of::<Channel>(&each["channel"]));
        let cells: Vec<u64> = of(&each["cells"]);
        let messages = perturb(&channel, &cells, &mut open(&each["key"])).unwrap();
        assert_eq!(messages, numbers(&each["messages"]), "{name}");
        let number = &each["channel"]["number"]["cells"];
        let most = each["channel"]["inputs"].as_u64().unwrap_or_else(|| {
            number
                .as_u64()
                .map_or_else(|| each["channel"]["cells"].as_u64().unwrap() + 1, |n| n + 2)
        });
        for outside in [most, u64::MAX] {
            let error = perturb(&channel, &[0, outside], &mut open(&each["key"])).unwrap_err();
            assert_eq!(error.to_string(), format!("an input lies outside 0 .. {}", most - 1));
        }
    }
}

#[test]
fn seals() {
    let vectors = read("seals.json");
    let public = PublicKey::of(vectors["key"].as_str().unwrap()).unwrap();
    assert_eq!(public.id().to_vec(), unhex(&vectors["key_id"]));
    for each in all(&vectors["boxes"]) {
        let der = unhex(&each["ephemeral"]);
        let ephemeral = der.last_chunk().unwrap();
        let [message, info, aad] = ["message", "info", "aad"].map(|name| unhex(&each[name]));
        let context = public.context(&info);
        let sealed = context.seal_under(&message, &aad, ephemeral).unwrap();
        assert_eq!(sealed, unhex(&each["sealed"]));
        let mut fresh = Keystream::system().unwrap();
        let again = [(); 2].map(|()| context.seal(&message, &mut fresh).unwrap());
        assert_ne!(again[0], again[1]);
    }
}

fn rows(value: &Value) -> Vec<Row> {
    rows_of_json(&value.to_string()).unwrap()
}

#[test]
fn whole_reports() {
    for name in ["fresh", "permanent", "counters"] {
        let vectors = read(&format!("reports-{name}.json"));
        let plan = Plan::of_json(&vectors["plan"].to_string()).unwrap();
        let device = Device::new(plan, &unhex(&vectors["secret"]), BTreeMap::new()).unwrap();
        for each in all(&vectors["cases"]) {
            let (metric, rows) = (each["metric"].as_str().unwrap(), rows(&each["rows"]));
            let at = format!("{name}: {metric} of {rows:?}");
            if each.get("report").is_some() {
                let sent = device.report_from(metric, &rows, &mut || Ok(open(&each["key"])));
                assert_eq!(sent.unwrap().unwrap(), unhex(&each["report"]), "{at}");
            } else {
                let words = device.words_from(metric, &rows, &mut open(&each["key"]));
                assert_eq!(words.unwrap().unwrap(), numbers(&each["words"]), "{at}");
            }
        }
    }
}
