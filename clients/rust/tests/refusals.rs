//! Plans, rows, secrets and keys that are refused; and no message tells a value.

use std::collections::BTreeMap;

use hushbeam::plan::Plan;
use hushbeam::{Device, Keystream, PublicKey, Row, Value, rows_of_json};
use serde_json::{Value as Json, json};

const CANARY: &str = "canary 7171"; // a value, which no message may tell
const SECRET: [u8; 32] = *b"a secret that stays on a device.";

fn read(name: &str) -> Json {
    let path = format!("{}/../typescript/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn fresh() -> Json {
    read("reports-fresh.json")["plan"].clone()
}

fn device(plan: &Json) -> hushbeam::Result<Device> {
    Device::new(Plan::of_json(&plan.to_string())?, &SECRET, BTreeMap::new())
}

fn metric<'a>(plan: &'a mut Json, name: &str) -> &'a mut Json {
    let metrics = plan["metrics"].as_array_mut().unwrap();
    metrics.iter_mut().find(|metric| metric["name"] == name).unwrap()
}

/// What a device says of rows in JSON.
fn said(plan: &Json, metric: &str, rows: &Json) -> String {
    let rows = rows_of_json(&rows.to_string());
    let sent = device(plan).and_then(|device| device.report(metric, &rows?));
    let said = sent.expect_err("it was not refused").to_string();
    assert!(!said.contains("canary") && !said.contains("7171") && !said.contains('\n'), "{said}");
    said
}

#[test]
fn rows_that_do_not_fit() {
    let page = "metric olh, column \"page\": ";
    let fare = "metric mean, column \"fare\": takes a number, or null";
    let other = "metric olh has no column";
    let list = "rows must be a JSON list of objects";
    for (metric, rows, wanted) in [
        ("olh", json!([{"pgae": CANARY}]), format!("{other} \"pgae\": its columns are page")),
        ("olh", json!([{"page": "page 1", "fare": 7171}]), format!("{other} \"fare\"")),
        ("olh", json!([{"page": null, "a\nb": CANARY}]), format!("{other} \"a\\nb\"")),
        ("olh", json!([{"page": null}, {}]), format!("{page}a row lacks it: null says")),
        ("olh", json!([{"page": [CANARY]}]), list.into()),
        ("olh", json!({"page": CANARY}), list.into()),
        ("olh", json!([CANARY]), list.into()),
        ("olh", json!(CANARY), list.into()),
        ("mean", json!([{"fare": "7171"}]), fare.into()),
        ("mean", json!([{"fare": true}]), fare.into()),
        ("none", json!([]), "the plan has no metric none".into()),
    ] {
        let said = said(&fresh(), metric, &rows);
        assert!(said.starts_with(&wanted), "{said} is not {wanted}");
    }
    let rows = [Row::from([("page".into(), Value::Number(f64::NAN))])];
    let error = device(&fresh()).unwrap().report("olh", &rows).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{page}takes a text, a finite number")), "{error}");
}

#[test]
fn values_that_are_alike() {
    let plan = fresh();
    let sent = |metric: &str, value: Value| {
        let column = if metric == "grr" { "hour" } else { "fare" };
        let rows = [Row::from([(column.into(), value)])];
        let open = &mut || Ok(Keystream::of(&[3; 32]));
        device(&plan).unwrap().report_from(metric, &rows, open).unwrap()
    };
    assert_eq!(sent("mean", Value::Number(-0.0)), sent("mean", Value::Whole(0)));
    assert_eq!(sent("mean", Value::Number(f64::NAN)), sent("mean", Value::Missing));
    assert_eq!(sent("mean", Value::Number(f64::INFINITY)), sent("mean", Value::Missing));
    for same in [Value::Number(3.0), Value::Text("3".into()), Value::Text("03".into())] {
        assert_eq!(sent("grr", Value::Whole(3)), sent("grr", same));
    }
    for outside in [
        Value::Flag(true),
        Value::Number(3.5),
        Value::Number(1e300),
        Value::Number(-i128::MAX as f64),
        Value::Whole(i64::MIN),
        Value::Text("three".into()),
        Value::Text("+3".into()),
        Value::Text("-".into()),
    ] {
        assert_eq!(sent("grr", Value::Missing), sent("grr", outside));
    }
}

#[test]
fn values_of_a_list_are_texts() {
    let mut plan = fresh();
    let listed = json!(["true", "0.5", "1e+21", "1.5e-7", "100000000000000000000", "0", "-7"]);
    let client = &mut metric(&mut plan, "olh")["client"];
    client["encoder"]["domain"] =
        json!({"declared": 7, "other": false, "low": null, "values": listed, "sha256": null});
    let sent = |value: Value| {
        let open = &mut || Ok(Keystream::of(&[3; 32]));
        let rows = [Row::from([("page".into(), value)])];
        device(&plan).unwrap().report_from("olh", &rows, open).unwrap()
    };
    let missing = sent(Value::Missing);
    for (value, text) in [
        (Value::Flag(true), "true"),
        (Value::Number(0.5), "0.5"),
        (Value::Number(1e21), "1e+21"),
        (Value::Number(1.5e-7), "1.5e-7"),
        (Value::Number(1e20), "100000000000000000000"),
        (Value::Number(-0.0), "0"),
        (Value::Number(-7.0), "-7"),
        (Value::Whole(-7), "-7"),
    ] {
        let wanted = sent(Value::Text(text.into()));
        assert_ne!(wanted, missing);
        assert_eq!(sent(value), wanted, "{text}");
    }
}

#[test]
fn plans_that_are_refused() {
    let (plan, rows) = (fresh(), json!([{"page": "page 7"}]));
    let altered = |change: &dyn Fn(&mut Json)| {
        let mut copy = plan.clone();
        change(&mut copy);
        said(&copy, "olh", &rows)
    };
    let client = |key: &'static str, value: Json| {
        move |plan: &mut Json| metric(plan, "olh")["client"][key] = value.clone()
    };
    let channel = |key: &'static str, value: Json| {
        move |plan: &mut Json| metric(plan, "olh")["client"]["channel"][key] = value.clone()
    };
    let possible = "no possible mechanism";
    for (wanted, change) in [
        (
            "the plan is of format 2",
            &(|plan: &mut Json| plan["format"] = json!(2)) as &dyn Fn(&mut Json),
        ),
        ("the plan names no window", &|plan| plan["window"] = Json::Null),
        ("a fingerprint has 16 bytes", &|plan| plan["window"]["fingerprint"] = json!("00")),
        ("no plan.json", &|plan| *plan = json!({"format": 1})),
        ("no plan.json", &|plan| *plan = json!([])),
        ("metric olh: this client does not know", &|plan| {
            metric(plan, "olh")["client"] = Json::Null
        }),
        ("metric olh: this client does not know", &channel("channel", json!("x"))),
        ("this client does not know the encoder", &client("encoder", json!({"encoder": "x"}))),
        ("metric olh: nothing hides its reports", &client("form", json!(5))),
        (possible, &channel("miss", json!("0"))),
        (possible, &channel("inputs", json!(626))),
        ("the plan has no field", &channel("order", json!(0))),
        ("the plan has no field", &channel("polynomial", json!(19))),
        ("the plan's hash has too many digits", &channel("digits", json!(64))),
    ] {
        let said = altered(change);
        assert!(said.starts_with(wanted), "{said} is not {wanted}");
    }
}

#[test]
fn a_list_that_the_plan_has_only_a_hash_of() {
    let mut plan = fresh();
    let values: Vec<String> = serde_json::from_value(
        metric(&mut plan, "olh")["client"]["encoder"]["domain"]["values"].take(),
    )
    .unwrap();
    let rows = rows_of_json(r#"[{"page": "page 7"}]"#).unwrap();
    let sent = |values: Option<Vec<String>>| {
        let listed = values.map(|values| ("page".to_owned(), values)).into_iter().collect();
        let plan = Plan::of_json(&plan.to_string()).unwrap();
        let open = &mut || Ok(Keystream::of(&[3; 32]));
        Device::new(plan, &SECRET, listed).unwrap().report_from("olh", &rows, open)
    };
    let said = |values| sent(values).unwrap_err().to_string();
    assert_eq!(said(None), "column page: the plan has only a hash of its values: give the list");
    let reversed = values.iter().rev().cloned().collect();
    let wanted = "column page: these are not the declared values, in their order";
    assert_eq!(said(Some(reversed)), wanted);
    assert_eq!(sent(Some(values)).unwrap().unwrap().len(), 56);
}

#[test]
fn only_devices_that_are_asked_answer() {
    let mut plan = fresh();
    let window = hushbeam::plan::Window {
        name: plan["window"]["name"].as_str().unwrap().into(),
        fingerprint: plan["window"]["fingerprint"].as_str().unwrap().into(),
    };
    let draw = hushbeam::device_draw(&SECRET, &hushbeam::Mark::of(&window, 0).unwrap());
    for (first, last, answers) in
        [(0, draw, true), (draw, draw, true), (draw + 1, u64::MAX, false), (0, draw - 1, false)]
    {
        let draws = json!({"first": first.to_string(), "last": last.to_string()});
        metric(&mut plan, "olh")["client"]["draws"] = draws;
        let rows = rows_of_json(r#"[{"page": "page 7"}]"#).unwrap();
        assert_eq!(device(&plan).unwrap().report("olh", &rows).unwrap().is_some(), answers);
    }
}

#[test]
fn secrets_and_keys_that_are_none() {
    let plan = || Plan::of_json(&fresh().to_string()).unwrap();
    for secret in [&[0; 32][..], &[7; 32], &SECRET[..31], &[SECRET, SECRET].concat()] {
        let error = Device::new(plan(), secret, BTreeMap::new()).err().unwrap().to_string();
        assert_eq!(error, "the secret must be 32 random bytes, never all the same");
    }
    let pem = read("seals.json")["key"].as_str().unwrap().to_owned();
    let small =
        pem.replace(pem.lines().nth(1).unwrap(), &format!("MCowBQYDK2VuAyEA{}=", "A".repeat(43)));
    for (text, wanted) in [
        (pem.replace("MCowBQYDK2VuAyEA", "MCowBQYDK2VwAyEA"), "this is no X25519 public key"),
        (pem.replace('q', "!"), "this is no X25519 public key"),
        (pem.replace("PUBLIC", "PRIVATE"), "this is no X25519 public key"),
        ("-----BEGIN PUBLIC KEY-----\n\n-----END PUBLIC KEY-----".into(), "this is no X25519"),
        (small, "the public key is of small order"),
    ] {
        let error = PublicKey::of(&text).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn counters_are_sealed_and_nothing_else_is_plain() {
    let counters = read("reports-counters.json")["plan"].clone();
    let rows = rows_of_json(r#"[{"hour": 3, "fare": 12.5}]"#).unwrap();
    let device = device(&counters).unwrap();
    let error = device.report("apart", &rows).unwrap_err().to_string();
    assert_eq!(error, "metric apart: nothing hides its reports but seals: seal them");
    let key = PublicKey::of(read("seals.json")["key"].as_str().unwrap()).unwrap();
    let sealed = device.sealed("apart", &rows, &key).unwrap().unwrap();
    let levels = counters["metrics"][2]["client"]["channel"]["levels"].as_array().unwrap();
    let slots: u64 = levels.iter().map(|level| level["slots"].as_u64().unwrap()).sum();
    assert_eq!(sealed.len() as u64, 28 + 28 + 56 * slots);
    assert_ne!(sealed, device.sealed("apart", &rows, &key).unwrap().unwrap());
    assert_eq!(device.sealed("apart", &[], &key).unwrap(), None);
}
