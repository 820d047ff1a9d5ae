//! Messages by channels of cells from keystreams, `[{channel, key, cells}]` in a file, as JSON:
//! for tests of the Python client against this one.

use hushbeam::{Keystream, perturb, plan::Channel};
use serde_json::Value;

fn main() {
    let path = std::env::args().nth(1).expect("usage: messages request.json");
    let request: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let made = request.iter().map(|each| {
        let channel: Channel = serde_json::from_value(each["channel"].clone()).unwrap();
        let cells: Vec<u64> = serde_json::from_value(each["cells"].clone()).unwrap();
        let digits = each["key"].as_str().unwrap();
        let byte = |place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap();
        let key: [u8; 32] = std::array::from_fn(byte);
        let messages = perturb(&channel, &cells, &mut Keystream::of(&key)).unwrap();
        messages.iter().map(u64::to_string).collect::<Vec<_>>()
    });
    println!("{}", serde_json::to_string(&made.collect::<Vec<_>>()).unwrap());
}
