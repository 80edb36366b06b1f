//! Clients, and calls of several operations.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::time::Duration;

use hotring_messages::message::Operation as Asked;
use hotring_messages::{Login, Options as CallerOptions, Outcome as Told, Pace, Shared};

use crate::input::{Operation, Options, text};
use crate::output::{Outcome, Owned};
use crate::queue::Queue;
use crate::status::Status;

/// After this long without an answer a request is sent again. Over sockets nothing is lost but with the connection.
const RETRY: Duration = Duration::from_secs(30);

/// `hotring_client`.
pub struct Client {
    shared: Shared,
    limit: Duration,
}

/// A tag of C, which is only handed through.
struct Tag(*mut c_void);

// SAFETY: this library never looks at what it leads to.
unsafe impl Send for Tag {}

impl Client {
    /// How long a call of these operations may take: a wait has its own limit besides.
    fn limit(&self, operations: &[Asked<'_>]) -> Duration {
        let wait = operations.iter().find_map(Asked::wait_ms).unwrap_or(0);
        self.limit + Duration::from_millis(wait.min(u64::from(u32::MAX)))
    }

    /// Runs operations and waits for the outcome.
    pub fn call(&self, operations: &[Asked<'_>]) -> Result<Told, Status> {
        Ok(self.shared.call(operations, self.limit(operations))?)
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_connect(
    address: *const c_char,
    user: *const c_char,
    password: *const c_char,
    options: *const Options,
    client: *mut *mut Client,
) -> c_int {
    if client.is_null() {
        return Status::BadArgument.told();
    }
    // SAFETY: there is room for it.
    unsafe { client.write(ptr::null_mut()) };
    // SAFETY: as the crate says.
    let (address, user, password) = unsafe { (text(address), text(user), text(password)) };
    // SAFETY: as the crate says, it is NULL or leads to options.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default().or_default();
    let Ok(address) = std::str::from_utf8(address) else { return Status::BadArgument.told() };
    match connect(address, user, password, &options) {
        Ok(shared) => {
            let made = Box::new(Client { shared, limit: options.limit() });
            // SAFETY: there is room for it.
            unsafe { client.write(Box::into_raw(made)) };
            Status::Ok.told()
        }
        Err(error) => Status::NoConnection.told_with(format!("{address}: {error}").as_bytes()),
    }
}

fn connect(address: &str, user: &[u8], password: &[u8], options: &Options) -> io::Result<Shared> {
    let login = Login { user: user.into(), password: password.into() };
    let caller = CallerOptions {
        retry: RETRY,
        datagrams: options.datagrams(),
        queue_max: options.calls_max as usize,
        message_len_max: options.message_len_max as usize,
    };
    let spin = Duration::from_micros(options.spin_us);
    Shared::connect(address, login, caller, Pace { in_flight_max: options.in_flight_max, spin })
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_close(client: *mut Client) {
    if !client.is_null() {
        // SAFETY: `hotring_connect` made it of a box.
        drop(unsafe { Box::from_raw(client) });
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_batch(
    client: *mut Client,
    operations: *const Operation,
    count: usize,
    result: *mut *mut Outcome,
) -> c_int {
    if result.is_null() {
        return Status::BadArgument.told();
    }
    // SAFETY: there is room for it.
    unsafe { result.write(ptr::null_mut()) };
    // SAFETY: as the crate says; the bytes are read before this returns.
    let (client, operations) = match unsafe { call_of(client, operations, count) } {
        Ok(call) => call,
        Err(status) => return status.told(),
    };
    match client.call(&operations) {
        Ok(told) => {
            let owned = Owned::new(told, ptr::null_mut());
            let status = owned.told();
            // SAFETY: there is room for it.
            unsafe { result.write(owned.into_c()) };
            status
        }
        Err(status) => status.told(),
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_submit(
    client: *mut Client,
    queue: *mut Queue,
    operations: *const Operation,
    count: usize,
    tag: *mut c_void,
) -> c_int {
    // SAFETY: as the crate says, it is NULL or a queue.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return Status::BadArgument.told() };
    // SAFETY: as the crate says; the bytes are copied before this returns.
    let (client, operations) = match unsafe { call_of(client, operations, count) } {
        Ok(call) => call,
        Err(status) => return status.told(),
    };
    let (outcomes, tag) = (queue.outcomes(), Tag(tag));
    let done = move |told| {
        let Tag(tag) = { tag };
        outcomes.push(Owned::new(told, tag));
    };
    match client.shared.submit(&operations, client.limit(&operations), done) {
        Ok(()) => Status::Ok.told(),
        Err(unstarted) => Status::from(unstarted).told(),
    }
}

/// What a call is made of.
///
/// # Safety
/// As the crate says; client and bytes stay for `'a`.
unsafe fn call_of<'a>(
    client: *const Client,
    operations: *const Operation,
    count: usize,
) -> Result<(&'a Client, Vec<Asked<'a>>), Status> {
    // SAFETY: the caller's promise.
    let client = unsafe { client.as_ref() }.ok_or(Status::BadArgument)?;
    if count == 0 || count > hotring_messages::message::PARTS_MAX {
        return Err(Status::Misused);
    }
    if operations.is_null() {
        return Err(Status::BadArgument);
    }
    // SAFETY: the caller's promise; it is not NULL, and so few are shorter than any object may be.
    let operations = unsafe { std::slice::from_raw_parts(operations, count) };
    // SAFETY: the caller's promise.
    let read = operations.iter().map(|operation| unsafe { operation.read() });
    let operations: Option<Vec<Asked<'a>>> = read.collect();
    Ok((client, operations.ok_or(Status::BadArgument)?))
}
