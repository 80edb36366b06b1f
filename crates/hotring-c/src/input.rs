//! What C gives: options, texts, bytes, operations.

use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;

use hotring_messages::message;

/// `hotring_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Options {
    /// How long a call may take in milliseconds.
    pub limit_ms: u64,
    /// How long the client looks for answers before it sleeps, in microseconds.
    pub spin_us: u64,
    /// Requests in flight.
    pub in_flight_max: u32,
    /// Calls that have not ended.
    pub calls_max: u32,
    /// Bytes of the longest message.
    pub message_len_max: u32,
    /// Microseconds after which an answer that may be a datagram is asked for again; 0 for no datagrams.
    pub datagram_us: u32,
}

/// `hotring_operation`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Operation {
    /// `HOTRING_GET` and so on.
    pub code: u64,
    /// The key.
    pub key: *const c_void,
    /// Its length in bytes.
    pub key_len: usize,
    /// The value; NULL if the code has none.
    pub value: *const c_void,
    /// Its length in bytes.
    pub value_len: usize,
    /// The number; 0 if the code has none.
    pub number: u64,
}

impl Options {
    /// Each 0 replaced by its default.
    pub fn or_default(self) -> Options {
        let or = |given: u32, default| if given == 0 { default } else { given };
        Options {
            limit_ms: if self.limit_ms == 0 { 5_000 } else { self.limit_ms },
            in_flight_max: or(self.in_flight_max, 32),
            calls_max: or(self.calls_max, 65_536),
            message_len_max: or(self.message_len_max, 65_536),
            ..self
        }
    }

    /// How long an answer is awaited that may be a datagram, if any may.
    pub fn datagrams(&self) -> Option<Duration> {
        let time = Duration::from_micros(u64::from(self.datagram_us));
        (!time.is_zero()).then_some(time)
    }

    /// How long a call may take.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

impl Operation {
    /// The operation, whose bytes are still those of C. None if its code is none, or if it has what its code has not.
    ///
    /// # Safety
    /// As the crate says; the bytes stay for `'a`.
    pub unsafe fn read<'a>(&self) -> Option<message::Operation<'a>> {
        // SAFETY: the caller's promise.
        let (key, value) =
            unsafe { (bytes(self.key, self.key_len)?, bytes(self.value, self.value_len)?) };
        message::Operation::of(u8::try_from(self.code).ok()?, key, value, self.number)
    }
}

/// Bytes of C. NULL is right for none; None if it stands for some.
///
/// # Safety
/// As the crate says; the bytes stay for `'a`.
pub unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise; it is not NULL, and no object is longer than isize::MAX.
    (!data.is_null() && len <= isize::MAX as usize)
        .then(|| unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// A text of C; empty for NULL.
///
/// # Safety
/// As the crate says; the bytes stay for `'a`.
pub unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}
