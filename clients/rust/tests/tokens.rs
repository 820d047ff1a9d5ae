//! Tokens and the function under them, against the server's side of the library.

use std::collections::{BTreeMap, BTreeSet};

use hushbeam::{Blinded, Device, Keystream, PublicKey, Request, plan::Plan};
use voprf::{BlindedElement, Group, Ristretto255, VoprfServer};

// RFC 9497, appendix A.1.2: seed, info, public key, and the outputs of two inputs.
const SEED: [u8; 32] = [0xa3; 32];
const PUBLIC: &str = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e";
const OUTPUTS: [(&[u8], &str); 2] = [
    (
        &[0],
        "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d\
         a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
    ),
    (
        &[0x5a; 17],
        "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60\
         356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
    ),
];

const WINDOW: &str = "abababababababababababababababab";

fn party(info: &[u8]) -> (VoprfServer<Ristretto255>, Vec<u8>) {
    let server = VoprfServer::new_from_seed(&SEED, info).unwrap();
    let public = Ristretto255::serialize_elem(server.get_public_key()).to_vec();
    (server, public)
}

/// What comes back for elements: evaluated, and a proof.
fn answer(server: &VoprfServer<Ristretto255>, elements: &[u8]) -> Vec<u8> {
    let read = |element| BlindedElement::<Ristretto255>::deserialize(element).unwrap();
    let elements: Vec<_> = elements.chunks(32).map(read).collect();
    let prepared: Vec<_> = server.batch_blind_evaluate_prepare(elements.iter()).collect();
    let mut rng = rand_core::OsRng;
    let batch = server.batch_blind_evaluate_finish(&mut rng, elements.iter(), &prepared).unwrap();
    let evaluated = batch.messages.flat_map(|message| message.serialize());
    evaluated.chain(batch.proof.serialize()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn outputs_are_rfc_9497s() {
    let (server, public) = party(b"test key");
    assert_eq!(hex(&public), PUBLIC);
    let inputs = OUTPUTS.map(|(input, _)| input.to_vec()).to_vec();
    let blinded = Blinded::drawn(inputs, &mut Keystream::system().unwrap()).unwrap();
    let outputs = blinded.outputs(&answer(&server, &blinded.elements()), &public).unwrap();
    for (output, (_, wanted)) in outputs.iter().zip(OUTPUTS) {
        assert_eq!(hex(output), wanted);
    }
}

#[test]
fn tokens_are_the_issuers() {
    let (server, public) = party(b"hushbeam issuer");
    let request = Request::drawn(3, &mut Keystream::system().unwrap()).unwrap();
    let tokens = request.tokens(&answer(&server, &request.elements()), &public).unwrap();
    assert_eq!(tokens.len(), 3);
    for token in &tokens {
        let output = server.evaluate(&[b"hushbeam token", &token[..32]].concat()).unwrap();
        assert_eq!(token[32..], output[..32]);
    }
    assert_ne!(tokens[0], tokens[1]);
}

/// Equal nonces in two windows, or roles, would show endpoints that they are of one device.
#[test]
fn a_key_that_is_used_again_shows_no_nonce_twice() {
    let (server, public) = party(b"hushbeam issuer");
    let key: Vec<u8> = (0..32).collect();
    let nonces = |count, window, role| {
        let request = Request::of_key(count, &key, window, role).unwrap();
        let tokens = request.tokens(&answer(&server, &request.elements()), &public).unwrap();
        tokens.iter().map(|token| token[..32].to_vec()).collect::<Vec<_>>()
    };
    let first = nonces(2, WINDOW, "issuer");
    assert_eq!(nonces(2, WINDOW, "issuer"), first); // as after an answer that was lost
    let others =
        [(2, &"cd".repeat(16)[..], "issuer"), (2, WINDOW, "queries"), (3, WINDOW, "issuer")];
    for (count, window, role) in others {
        assert!(nonces(count, window, role).iter().all(|nonce| !first.contains(nonce)));
    }
}

#[test]
fn an_answer_that_is_not_of_the_published_key_is_refused() {
    let (server, public) = party(b"hushbeam issuer");
    let (other, others) = party(b"hushbeam strings");
    let mut source = Keystream::system().unwrap();
    let request = Request::drawn(2, &mut source).unwrap();
    let good = answer(&server, &request.elements());
    let mut forged = good.clone();
    forged[70] ^= 1; // of the proof
    let mut swapped = good.clone();
    swapped[..64].rotate_left(32);
    let fewer = answer(&server, &request.elements()[..32]);
    let bad: [(&[u8], &[u8]); 8] = [
        (&answer(&other, &request.elements()), &public),
        (&good, &others),
        (&good, &[0; 32]), // the identity
        (&good, &public[..31]),
        (&forged, &public),
        (&swapped, &public),
        (&fewer, &public),
        (&good[..63], &public),
    ];
    for (answer, public) in bad {
        let error = request.tokens(answer, public).unwrap_err().to_string();
        assert!(error.starts_with("the answer is not of the published key"), "{error}");
    }
    assert!(request.tokens(&good, &public).is_ok());
    assert!(Request::drawn(0, &mut source).is_err());
    let key: Vec<u8> = (0..32).collect();
    for (key, window, role) in [
        (&[7; 32][..], WINDOW, "issuer"),
        (&key[..31], WINDOW, "issuer"),
        (&key, &WINDOW[1..], "issuer"),
        (&key, WINDOW, "strings"),
    ] {
        assert!(Request::of_key(1, key, window, role).is_err());
    }
    assert!(Request::drawn(1 << 16, &mut source).is_err());
    let error = Blinded::drawn(vec![vec![7; 1 << 16]], &mut source).err().unwrap().to_string();
    assert_eq!(error, "an input has at most 65535 bytes");
}

fn read(name: &str) -> serde_json::Value {
    let path = format!("{}/../typescript/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn unhex(value: &serde_json::Value) -> Vec<u8> {
    let pairs = value.as_str().unwrap().as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

#[test]
fn requests_and_what_comes_of_them_are_the_vectors() {
    let told = read("oblivious.json");
    let open = |case: &serde_json::Value| Keystream::of(&unhex(&case["key"]).try_into().unwrap());
    for case in told["tokens"].as_array().unwrap() {
        let count = case["count"].as_u64().unwrap() as usize;
        let text = |name: &str| case[name].as_str().unwrap();
        let bound = (text("fingerprint"), text("role"));
        let made = Request::of_key(count, &unhex(&case["secret"]), bound.0, bound.1).unwrap();
        assert_eq!(hex(&made.elements()), case["elements"].as_str().unwrap());
        let tokens = made.tokens(&unhex(&case["answer"]), &unhex(&case["public"])).unwrap();
        let wanted: Vec<_> = case["tokens"].as_array().unwrap().iter().map(unhex).collect();
        assert_eq!(tokens.iter().map(|token| token.to_vec()).collect::<Vec<_>>(), wanted);
    }
    let key = PublicKey::of(read("seals.json")["key"].as_str().unwrap()).unwrap();
    let secret = unhex(&told["secret"]);
    let plan = Plan::of_json(&told["plan"].to_string()).unwrap();
    let device = Device::new(plan, &secret, BTreeMap::new()).unwrap();
    for case in told["strings"].as_array().unwrap() {
        let of = |name: &str| case[name].as_u64().unwrap() as usize;
        let texts = case["texts"].as_array().unwrap();
        let texts: Vec<_> = texts.iter().map(|text| text.as_str().unwrap()).collect();
        let (metric, size) = (case["metric"].as_str().unwrap(), (of("slots"), of("most")));
        let made = device.strings_from(metric, &texts, size, &key, &mut open(case)).unwrap();
        assert_eq!(hex(&made.elements()), case["elements"].as_str().unwrap());
        let report = made.report(&unhex(&case["answer"]), &unhex(&case["public"])).unwrap();
        assert_eq!(hex(&report), case["report"].as_str().unwrap());
    }
}

#[test]
fn equal_strings_are_equal_words_and_empty_slots_are_not() {
    let plan = Plan::of_json(&read("reports-counters.json")["plan"].to_string()).unwrap();
    let key = PublicKey::of(read("seals.json")["key"].as_str().unwrap()).unwrap();
    let device = Device::new(plan, b"a secret that stays on a device.", BTreeMap::new()).unwrap();
    let (server, public) = party(b"hushbeam strings");
    // Words of 1 + ceil(10 / 4) have the room of two seals.
    let sealed = |texts: &[&str]| {
        let made = device.strings("hours", texts, (3, 10), &key).unwrap();
        assert_eq!(made.elements().len(), 3 * 32);
        let answer = answer(&server, &made.elements());
        let report = made.report(&answer, &public).unwrap();
        assert_eq!(report, made.report(&answer, &public).unwrap());
        assert!(made.report(&answer, &[0; 32]).is_err());
        assert_eq!(report.len(), 28 + 28 + 3 * 2 * 56);
        report[56..].chunks(2 * 56).map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
    };
    let (one, again) = (sealed(&["soup", "soup"]), sealed(&["soup"]));
    assert_eq!(one.len(), 3);
    assert_eq!(one.intersection(&again).count(), 1);
    assert_eq!(sealed(&["soup", "salad", "a"]).intersection(&one).count(), 1);
    // Cut at the end of a character, within ten bytes; and a string that was cut is another one.
    assert_eq!(sealed(&["üüüüüü"]).intersection(&sealed(&["üüüüüüü"])).count(), 1);
    assert_eq!(sealed(&["üüüüü"]).intersection(&sealed(&["üüüüüü"])).count(), 0);
    assert_eq!(sealed(&["1", "2", "3", "4", "5"]).len(), 3);
    for (slots, most) in [(0, 10), (3, 0), (1170, 1), (1169, 20)] {
        assert!(device.strings("hours", &[], (slots, most), &key).is_err());
    }
    assert!(device.strings("none", &[], (1, 10), &key).is_err());
}
