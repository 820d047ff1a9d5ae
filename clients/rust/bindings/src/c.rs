//! Plain functions. Bytes come as a pointer and a length; texts are UTF-8, without a zero.
//!
//! A module of WebAssembly exports the same ones, and imports `hushbeam.random(data, length)`,
//! which fills bytes by the host's generator (`crypto.getRandomValues`).

use std::collections::BTreeMap;
use std::slice;

use hushbeam::plan::Plan;
use hushbeam::{Device, PublicKey, Request, Result, StringRequest, rows_of_json};

/// The answer has what was asked for.
pub const HUSHBEAM_MADE: i32 = 0;
/// There is nothing to report, or other devices are asked: `data` is empty.
pub const HUSHBEAM_NOTHING: i32 = 1;
/// `data` is a text, of one line: what was wrong, and what to do.
pub const HUSHBEAM_REFUSED: i32 = 2;

/// What a function answers. `data` is to be given to `hushbeam_free`, whatever the status.
#[repr(C)]
pub struct HushbeamAnswer {
    /// `HUSHBEAM_MADE`, `HUSHBEAM_NOTHING` or `HUSHBEAM_REFUSED`.
    pub status: i32,
    /// Where the answer's bytes are; nothing can be read there if `length` is 0.
    pub data: *mut u8,
    /// How many they are.
    pub length: usize,
}

/// One user's reports.
pub struct HushbeamDevice(Device);

/// A request for tokens of one window.
pub struct HushbeamRequest(Request);

/// A request for the seals of one user's strings.
pub struct HushbeamStrings(StringRequest);

impl HushbeamAnswer {
    fn of(made: Result<Option<Vec<u8>>>) -> Self {
        let (status, bytes) = match made {
            Ok(Some(bytes)) => (HUSHBEAM_MADE, bytes),
            Ok(None) => (HUSHBEAM_NOTHING, Vec::new()),
            Err(error) => (HUSHBEAM_REFUSED, error.to_string().into_bytes()),
        };
        let bytes = Box::leak(bytes.into_boxed_slice());
        Self { status, data: bytes.as_mut_ptr(), length: bytes.len() }
    }

    /// The object that was made; a null pointer, and the answer, where it was not.
    unsafe fn object<T>(made: Result<(T, Vec<u8>)>, answer: *mut Self) -> *mut T {
        let (object, made) = match made {
            Ok((object, bytes)) => (Box::into_raw(Box::new(object)), Ok(Some(bytes))),
            Err(error) => (std::ptr::null_mut(), Err(error)),
        };
        unsafe { answer.write(Self::of(made)) };
        object
    }
}

unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 { &[] } else { unsafe { slice::from_raw_parts(data, length) } }
}

/// A text; one that is not UTF-8 is refused where it is read, as JSON or a name that is none.
unsafe fn text<'a>(data: *const u8, length: usize) -> &'a str {
    str::from_utf8(unsafe { bytes(data, length) }).unwrap_or("not UTF-8")
}

/// A device, or a null pointer.
///
/// `plan` is the text of `hushbeam check plan.yaml --json --window W`; `secret`, 32 random bytes
/// that the device keeps for ever; `values`, nothing, or a JSON object of lists of texts: those of
/// the columns of which the plan has a hash alone.
///
/// # Safety
/// Each pointer has as many bytes as its length says, and `answer` room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_device_new(
    plan: *const u8,
    plan_length: usize,
    secret: *const u8,
    secret_length: usize,
    values: *const u8,
    values_length: usize,
    answer: *mut HushbeamAnswer,
) -> *mut HushbeamDevice {
    let (plan, secret) = unsafe { (text(plan, plan_length), bytes(secret, secret_length)) };
    let values = unsafe { text(values, values_length) };
    let made = Plan::of_json(plan).and_then(|plan| {
        let values = if values.is_empty() { Ok(BTreeMap::new()) } else { values_of(values) };
        Ok((HushbeamDevice(Device::new(plan, secret, values?)?), Vec::new()))
    });
    unsafe { HushbeamAnswer::object(made, answer) }
}

fn values_of(text: &str) -> Result<BTreeMap<String, Vec<String>>> {
    serde_json::from_str(text)
        .map_err(|_| hushbeam::Error::new("values must be a JSON object of lists of texts"))
}

/// Forgets a device; of a null pointer nothing.
///
/// # Safety
/// `device` is of `hushbeam_device_new`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_device_free(device: *mut HushbeamDevice) {
    if !device.is_null() {
        drop(unsafe { Box::from_raw(device) });
    }
}

/// A file of reports of one user's rows: a JSON list of objects, `[{"hour": 3}]`.
///
/// `key` is the text of the collector's `.public.pem`, to which the reports are sealed; without
/// one (a length of 0) they are plain.
///
/// # Safety
/// `device` is of `hushbeam_device_new`; the rest as there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_report(
    device: *const HushbeamDevice,
    metric: *const u8,
    metric_length: usize,
    rows: *const u8,
    rows_length: usize,
    key: *const u8,
    key_length: usize,
    answer: *mut HushbeamAnswer,
) {
    let HushbeamDevice(device) = unsafe { &*device };
    let (metric, rows) = unsafe { (text(metric, metric_length), text(rows, rows_length)) };
    let key = unsafe { text(key, key_length) };
    let made = rows_of_json(rows).and_then(|rows| match key {
        "" => device.report(metric, &rows),
        pem => device.sealed(metric, &rows, &PublicKey::of(pem)?),
    });
    unsafe { answer.write(HushbeamAnswer::of(made)) };
}

/// A request for 1 .. 65,535 tokens, or a null pointer; the answer has the elements that go to the
/// issuer, 32 bytes each.
///
/// `key` is 32 random bytes. The same key makes the same request again, and an issuer answers a
/// device no other: keep it until the answer is there. `fingerprint` is the window's, as the plan
/// has it; `role`, "issuer" or, for tokens of strings, "queries".
///
/// # Safety
/// Each pointer has as many bytes as its length says, and `answer` room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_request_new(
    count: usize,
    key: *const u8,
    key_length: usize,
    fingerprint: *const u8,
    fingerprint_length: usize,
    role: *const u8,
    role_length: usize,
    answer: *mut HushbeamAnswer,
) -> *mut HushbeamRequest {
    let key = unsafe { bytes(key, key_length) };
    let (window, role) =
        unsafe { (text(fingerprint, fingerprint_length), text(role, role_length)) };
    let made = Request::of_key(count, key, window, role).map(|request| {
        let elements = request.elements();
        (HushbeamRequest(request), elements)
    });
    unsafe { HushbeamAnswer::object(made, answer) }
}

/// The tokens, 64 bytes each, by what the issuer answered: evaluated elements, then a proof.
/// `public_key` is the issuer's of this window, 32 bytes, from the list that was published.
///
/// # Safety
/// `request` is of `hushbeam_request_new`; the rest as of `hushbeam_device_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_tokens(
    request: *const HushbeamRequest,
    issued: *const u8,
    issued_length: usize,
    public_key: *const u8,
    public_key_length: usize,
    answer: *mut HushbeamAnswer,
) {
    let HushbeamRequest(request) = unsafe { &*request };
    let (issued, key) =
        unsafe { (bytes(issued, issued_length), bytes(public_key, public_key_length)) };
    let tokens = request.tokens(issued, key).map(|tokens| Some(tokens.concat()));
    unsafe { answer.write(HushbeamAnswer::of(tokens)) };
}

/// Forgets a request; of a null pointer nothing.
///
/// # Safety
/// `request` is of `hushbeam_request_new`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_request_free(request: *mut HushbeamRequest) {
    if !request.is_null() {
        drop(unsafe { Box::from_raw(request) });
    }
}

/// A request for the seals of a user's strings, or a null pointer; the answer has the elements that
/// go to the party that evaluates them, 32 bytes for each slot.
///
/// `texts` is a JSON list of texts; `slots` the plan's `rows_per_user`, `most` its `max_length`.
///
/// # Safety
/// As of `hushbeam_report`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_strings_new(
    device: *const HushbeamDevice,
    slots: usize,
    most: usize,
    metric: *const u8,
    metric_length: usize,
    texts: *const u8,
    texts_length: usize,
    key: *const u8,
    key_length: usize,
    answer: *mut HushbeamAnswer,
) -> *mut HushbeamStrings {
    let HushbeamDevice(device) = unsafe { &*device };
    let (metric, texts) = unsafe { (text(metric, metric_length), text(texts, texts_length)) };
    let key = unsafe { text(key, key_length) };
    let made = serde_json::from_str::<Vec<String>>(texts)
        .map_err(|_| hushbeam::Error::new("texts must be a JSON list of texts"))
        .and_then(|texts| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let made = device.strings(metric, &texts, (slots, most), &PublicKey::of(key)?)?;
            let elements = made.elements();
            Ok((HushbeamStrings(made), elements))
        });
    unsafe { HushbeamAnswer::object(made, answer) }
}

/// A file with the user's one report of strings, by what the party answered; the rest as of
/// `hushbeam_tokens`.
///
/// # Safety
/// `strings` is of `hushbeam_strings_new`; the rest as of `hushbeam_device_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_strings_report(
    strings: *const HushbeamStrings,
    evaluated: *const u8,
    evaluated_length: usize,
    public_key: *const u8,
    public_key_length: usize,
    answer: *mut HushbeamAnswer,
) {
    let HushbeamStrings(strings) = unsafe { &*strings };
    let (evaluated, key) =
        unsafe { (bytes(evaluated, evaluated_length), bytes(public_key, public_key_length)) };
    unsafe { answer.write(HushbeamAnswer::of(strings.report(evaluated, key).map(Some))) };
}

/// Forgets a request; of a null pointer nothing.
///
/// # Safety
/// `strings` is of `hushbeam_strings_new`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_strings_free(strings: *mut HushbeamStrings) {
    if !strings.is_null() {
        drop(unsafe { Box::from_raw(strings) });
    }
}

/// Room for some bytes, for who cannot pass a pointer to its own: a page, to a module of
/// WebAssembly. `hushbeam_free` gives it back.
#[unsafe(no_mangle)]
pub extern "C" fn hushbeam_allocate(length: usize) -> *mut u8 {
    Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr()
}

/// Gives back the bytes of an answer, or of `hushbeam_allocate`.
///
/// # Safety
/// They are such bytes, of this length, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hushbeam_free(data: *mut u8, length: usize) {
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, length)) });
}

#[cfg(target_family = "wasm")]
mod host {
    #[link(wasm_import_module = "hushbeam")]
    unsafe extern "C" {
        fn random(data: *mut u8, length: usize);
    }

    fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        unsafe { random(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    getrandom::register_custom_getrandom!(fill);
}
