//! Reports a second and core before they are sealed, and microseconds for a seal:
//! `cargo bench -p hushbeam`. Each run is shorter than a time slice, and the least of many counts,
//! so that other processes do not.

use std::time::Instant;

use hushbeam::plan::{Channel, Window};
use hushbeam::{Keystream, Mark, PublicKey, Source, perturb, plain_file};

const USERS: usize = 1 << 15;

/// The least time of 200 runs.
fn least(mut run: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..200).map(timed).fold(f64::INFINITY, f64::min)
}

fn main() {
    let read = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../typescript/vectors/");
        std::fs::read_to_string(format!("{folder}{name}"))
            .expect("the vectors stand beside this client")
    };
    let vectors: serde_json::Value = serde_json::from_str(&read("channels.json")).unwrap();
    let window = Window { name: "all".into(), fingerprint: "00".repeat(16) };
    let mark = Mark::of(&window, 0).unwrap();
    println!("million reports a second, from a mechanism's inputs to the bytes of a file");
    for each in vectors["channels"].as_array().unwrap() {
        let channel: Channel = serde_json::from_value(each["channel"].clone()).unwrap();
        let cells: Vec<u64> = serde_json::from_value(each["cells"].clone()).unwrap();
        if matches!(channel, Channel::Dummies(_)) || cells.len() > 150 {
            continue; // which send several, and ties
        }
        let cells: Vec<u64> = cells.into_iter().cycle().take(USERS).collect();
        let seconds = least(|| {
            let mut source = Keystream::system().unwrap();
            let messages = perturb(&channel, &cells, &mut source).unwrap();
            let mut ids = vec![[0; 16]; USERS];
            source.fill(ids.as_flattened_mut());
            assert_eq!(plain_file(&mark, &ids, &messages).unwrap().len(), 28 + 28 * USERS);
        });
        println!("{:8.1}  {}", USERS as f64 / seconds / 1e6, each["name"].as_str().unwrap());
    }
    let seals: serde_json::Value = serde_json::from_str(&read("seals.json")).unwrap();
    let key = PublicKey::of(seals["key"].as_str().unwrap()).unwrap();
    let (context, mut source) = (key.context(b"a window"), Keystream::system().unwrap());
    let seconds = least(|| {
        for message in 0..20_u64 {
            context.seal(&message.to_le_bytes(), &mut source).unwrap();
        }
    });
    println!("microseconds a seal\n{:8.1}", seconds / 20.0 * 1e6);
}
