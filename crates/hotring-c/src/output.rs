//! What C gets: values and results, which it frees.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use hotring_messages::{Given, Outcome as Told};

use crate::status::Status;

/// `hotring_value`.
#[derive(Debug)]
#[repr(C)]
pub struct Value {
    /// The bytes, with a zero byte behind them; NULL for none.
    pub data: *mut c_char,
    /// How many, without the zero byte.
    pub len: usize,
    /// The key's version.
    pub version: u64,
}

/// `hotring_answer`.
#[derive(Debug)]
#[repr(C)]
pub struct Answer {
    /// How the operation has ended.
    pub status: i64,
    /// The key's version afterwards.
    pub version: u64,
    /// The value, the sum, or a text, with a zero byte behind it.
    pub data: *const c_char,
    /// How many bytes, without the zero byte.
    pub len: usize,
}

/// `hotring_result`.
#[derive(Debug)]
#[repr(C)]
pub struct Outcome {
    /// How the call has ended.
    pub status: i64,
    /// What the caller gave for it.
    pub tag: *mut c_void,
    /// Number of answers.
    pub count: usize,
    /// The answers.
    pub answers: *const Answer,
}

/// A result with what its pointers lead to. The first field is the one that C sees.
#[repr(C)]
pub struct Owned {
    outcome: Outcome,
    /// The answers, whose bytes are those of `bytes`. Both are here to be freed.
    answers: Box<[Answer]>,
    bytes: Vec<u8>,
}

// SAFETY: its pointers lead to its own memory, and the tag is only handed through.
unsafe impl Send for Owned {}

impl Value {
    /// None.
    pub const EMPTY: Value = Value { data: ptr::null_mut(), len: 0, version: 0 };

    /// A value that `hotring_value_free` frees.
    pub fn new(given: &Given) -> Value {
        let bytes = [&given.value[..], &[0]].concat().into_boxed_slice();
        let data = Box::into_raw(bytes).cast::<c_char>();
        Value { data, len: given.value.len(), version: given.version }
    }
}

impl Owned {
    /// The result of a call.
    pub fn new(told: Told, tag: *mut c_void) -> Owned {
        let (status, given) = match told {
            Told::Done(given) => (Status::Ok, given),
            Told::NotDone(reason) => (reason.into(), Vec::new()),
            Told::Unknown => (Status::Unknown, Vec::new()),
        };
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for value in given.iter().map(|one| one.as_ref().map_or(&[][..], |one| &one.value)) {
            starts.push(bytes.len());
            bytes.extend_from_slice(value);
            bytes.push(0);
        }
        let answers: Box<[Answer]> = given
            .iter()
            .zip(starts)
            .map(|(one, start)| {
                let data = bytes[start..].as_ptr().cast();
                match one {
                    Some(Given { status, version, value }) => {
                        let status = Status::from(*status) as i64;
                        Answer { status, version: *version, data, len: value.len() }
                    }
                    None => Answer { status: Status::Damaged as i64, version: 0, data, len: 0 },
                }
            })
            .collect();
        let (status, count) = (status as i64, answers.len());
        // Neither box nor vector moves its content when it is moved.
        let outcome = Outcome { status, tag, count, answers: answers.as_ptr() };
        Owned { outcome, answers, bytes }
    }

    /// What C gets, to be freed by `hotring_result_free`.
    pub fn into_c(self) -> *mut Outcome {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The status as C's functions return it, with its text.
    pub fn told(&self) -> c_int {
        let all = [
            Status::Ok,
            Status::Unknown,
            Status::Late,
            Status::Denied,
            Status::TooLong,
            Status::Misused,
        ];
        let status = all.into_iter().find(|status| *status as i64 == self.outcome.status);
        status.expect("new gives no other one").told()
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_result_free(result: *mut Outcome) {
    if !result.is_null() {
        // SAFETY: it is the first field of an `Owned` whose box `into_c` gave away.
        drop(unsafe { Box::from_raw(result.cast::<Owned>()) });
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_value_free(value: *mut Value) {
    // SAFETY: as the crate says, it is NULL or a value.
    let Some(value) = (unsafe { value.as_mut() }) else { return };
    let Value { data, len, .. } = std::mem::replace(value, Value::EMPTY);
    if !data.is_null() {
        // SAFETY: `Value::new` made it of a box of `len` bytes and a zero byte.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data.cast::<u8>(), len + 1)) });
    }
}

#[cfg(test)]
mod tests {
    use hotring_messages::Reason;
    use hotring_messages::message::Status as Answered;

    use super::*;

    fn given(status: Answered, value: &[u8]) -> Option<Given> {
        Some(Given { status, version: 7, value: value.into() })
    }

    #[test]
    fn a_result_has_each_answer_and_a_zero_byte_behind_it() {
        let told = vec![given(Answered::Done, b"a\0b"), None, given(Answered::Failed, b"no")];
        let mut tag = 5;
        let result = Owned::new(Told::Done(told), (&raw mut tag).cast()).into_c();
        // SAFETY: it was just made, and is freed once, at the end.
        let outcome = unsafe { &*result };
        assert_eq!((outcome.status, outcome.count), (Status::Ok as i64, 3));
        assert_eq!(outcome.tag, (&raw mut tag).cast());
        // SAFETY: `count` answers are there, each with a zero byte behind its bytes.
        let answers = unsafe { std::slice::from_raw_parts(outcome.answers, outcome.count) };
        // SAFETY: as above.
        let bytes = |answer: &Answer| unsafe {
            std::slice::from_raw_parts(answer.data.cast::<u8>(), answer.len + 1)
        };
        let shown: Vec<_> =
            answers.iter().map(|answer| (answer.status, answer.version, bytes(answer))).collect();
        assert_eq!(shown, [(0, 7, &b"a\0b\0"[..]), (6, 0, b"\0"), (4, 7, b"no\0")]);
        // SAFETY: see above.
        unsafe { hotring_result_free(result) };
    }

    #[test]
    fn a_call_that_was_not_done_has_no_answers() {
        for (told, status) in [
            (Told::NotDone(Reason::Denied), Status::Denied),
            (Told::NotDone(Reason::Late), Status::Late),
            (Told::Unknown, Status::Unknown),
        ] {
            let owned = Owned::new(told, ptr::null_mut());
            assert_eq!((owned.told(), owned.outcome.count), (status as c_int, 0));
        }
    }

    #[test]
    fn a_value_is_freed_once() {
        let mut value = Value::new(&given(Answered::Done, b"xy").unwrap());
        assert_eq!((value.len, value.version), (2, 7));
        // SAFETY: it is a value, and then an empty one.
        unsafe {
            assert_eq!(*value.data.add(2), 0);
            hotring_value_free(&raw mut value);
            hotring_value_free(&raw mut value);
            hotring_value_free(ptr::null_mut());
        }
        assert!(value.data.is_null());
    }
}
