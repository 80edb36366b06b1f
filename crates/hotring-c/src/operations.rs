//! Calls of one operation.

use std::ffi::{c_int, c_void};

use hotring_messages::message::Operation as Asked;
use hotring_messages::{Given, Outcome as Told};

use crate::client::Client;
use crate::input::bytes;
use crate::output::Value;
use crate::status::Status;

/// Runs the operation that `asked` makes of key and value, gives its answer to `then`, and tells its status.
///
/// # Safety
/// As the crate says.
unsafe fn one<'a>(
    client: *const Client,
    key: (*const c_void, usize),
    value: (*const c_void, usize),
    asked: impl FnOnce(&'a [u8], &'a [u8]) -> Asked<'a>,
    then: impl FnOnce(&Given) -> Status,
) -> c_int {
    // SAFETY: the caller's promise; the bytes are read before this returns.
    let read = unsafe { (client.as_ref(), bytes(key.0, key.1), bytes(value.0, value.1)) };
    let (Some(client), Some(key), Some(value)) = read else { return Status::BadArgument.told() };
    match client.call(&[asked(key, value)]) {
        Err(status) => status.told(),
        Ok(Told::Unknown) => Status::Unknown.told(),
        Ok(Told::NotDone(reason)) => Status::from(reason).told(),
        Ok(Told::Done(given)) => match given.into_iter().next().flatten() {
            None => Status::Damaged.told(),
            Some(given) => match Status::from(given.status) {
                Status::Ok => then(&given).told(),
                status @ (Status::Failed | Status::Unknown) => status.told_with(&given.value),
                status => status.told(),
            },
        },
    }
}

const NONE: (*const c_void, usize) = (std::ptr::null(), 0);

fn done(_: &Given) -> Status {
    Status::Ok
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_get(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    value: *mut Value,
) -> c_int {
    if value.is_null() {
        return Status::BadArgument.told();
    }
    // SAFETY: there is room for it, with nothing in it that would have to be freed.
    unsafe { value.write(Value::EMPTY) };
    let then = |given: &Given| {
        // SAFETY: as above.
        unsafe { value.write(Value::new(given)) };
        Status::Ok
    };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), NONE, |key, _| Asked::Get { key }, then) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_set(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    expiry_ms: u64,
) -> c_int {
    let asked = |key, value| Asked::Set { key, value, expiry_ms };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), (value, value_len), asked, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_update(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> c_int {
    let asked = |key, value| Asked::Update { key, value };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), (value, value_len), asked, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_compare_and_set(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    version: u64,
) -> c_int {
    let asked = |key, value| Asked::CompareAndSet { key, value, version };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), (value, value_len), asked, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_delete(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
) -> c_int {
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), NONE, |key, _| Asked::Delete { key }, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_add(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    by: i64,
    sum: *mut i64,
) -> c_int {
    let then = |given: &Given| {
        let text = std::str::from_utf8(&given.value).ok();
        let Some(number) = text.and_then(|text| text.parse().ok()) else { return Status::Damaged };
        if !sum.is_null() {
            // SAFETY: there is room for it.
            unsafe { sum.write(number) };
        }
        Status::Ok
    };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), NONE, |key, _| Asked::Increment { key, by }, then) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_expire(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    after_ms: u64,
) -> c_int {
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), NONE, |key, _| Asked::Expire { key, after_ms }, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_wait(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    wait_ms: u64,
) -> c_int {
    let asked = |key, _| Asked::WaitForChange { key, limit_ms: wait_ms };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), NONE, asked, done) }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_wait_for(
    client: *mut Client,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    wait_ms: u64,
) -> c_int {
    let asked = |key, value| Asked::WaitForValue { key, value, limit_ms: wait_ms };
    // SAFETY: as the crate says.
    unsafe { one(client, (key, key_len), (value, value_len), asked, done) }
}
