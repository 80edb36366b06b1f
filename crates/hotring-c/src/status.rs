//! The numbers and texts of statuses, and the text of a thread's last failure.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use hotring_messages::message::Status as Answered;
use hotring_messages::{Reason, Unstarted};

/// How an operation or a call has ended: `hotring_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    Absent = 1,
    Conflict = 2,
    TimedOut = 3,
    Failed = 4,
    Unknown = 5,
    Damaged = 6,
    Late = 7,
    Denied = 8,
    TooLong = 9,
    Misused = 10,
    Full = 11,
    NoConnection = 12,
    BadArgument = 13,
}

/// The texts, in the order of the numbers.
const TEXTS: [(Status, &CStr); 14] = [
    (Status::Ok, c"it was done"),
    (Status::Absent, c"the key is not there; nothing was done"),
    (Status::Conflict, c"the key has another version; nothing was done"),
    (Status::TimedOut, c"the wait is over without the change"),
    (Status::Failed, c"the server refused it; nothing was done"),
    (Status::Unknown, c"a write was done once, or will be, or never: read the key to know"),
    (Status::Damaged, c"it was done, but its answer has a wrong checksum: read the key again"),
    (Status::Late, c"the limit came first; nothing was done: wait longer, or see whether the server runs"),
    (Status::Denied, c"user or password are wrong; nothing was done"),
    (Status::TooLong, c"it does not fit into a message; nothing was done: make several calls of it"),
    (Status::Misused, c"no operation, too many, or a wait beside others; nothing was done"),
    (Status::Full, c"as many calls as the client may have are under way; nothing was done: take outcomes first"),
    (Status::NoConnection, c"no server answers at that address: start it with --fabric"),
    (Status::BadArgument, c"a pointer is NULL, a text is not UTF-8, or a code is none; nothing was done"),
];

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

impl From<Answered> for Status {
    fn from(status: Answered) -> Status {
        match status {
            Answered::Done => Status::Ok,
            Answered::Absent => Status::Absent,
            Answered::Conflict => Status::Conflict,
            Answered::TimedOut => Status::TimedOut,
            Answered::Failed => Status::Failed,
            Answered::Unknown => Status::Unknown,
        }
    }
}

impl From<Reason> for Status {
    fn from(reason: Reason) -> Status {
        match reason {
            Reason::Late => Status::Late,
            Reason::Denied => Status::Denied,
            Reason::TooLong => Status::TooLong,
            Reason::Misused => Status::Misused,
        }
    }
}

impl From<Unstarted> for Status {
    fn from(unstarted: Unstarted) -> Status {
        match unstarted {
            Unstarted::QueueFull => Status::Full,
            Unstarted::Misused => Status::Misused,
            Unstarted::TooLong => Status::TooLong,
        }
    }
}

impl Status {
    fn text(self) -> &'static CStr {
        TEXTS[self as usize].1
    }

    /// Remembers why the thread's call failed, and gives the number.
    pub fn told(self) -> c_int {
        let text = match self {
            Status::Ok | Status::Absent | Status::Conflict | Status::TimedOut => c"",
            other => other.text(),
        };
        ERROR.with_borrow_mut(|error| *error = text.into());
        self as c_int
    }

    /// As [`told`](Self::told), with a text of its own. Zero bytes end it.
    pub fn told_with(self, text: &[u8]) -> c_int {
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let text = CString::new(&text[..end]).expect("it has no zero byte");
        ERROR.with_borrow_mut(|error| *error = text);
        self as c_int
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hotring_text(status: c_int) -> *const c_char {
    let known = usize::try_from(status).ok().and_then(|at| TEXTS.get(at));
    known.map_or(c"there is no such status", |(_, text)| *text).as_ptr()
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hotring_error() -> *const c_char {
    // The text stays where it is until the thread's next call replaces it.
    ERROR.with_borrow(|error| error.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_at_its_number() {
        for (at, (status, text)) in TEXTS.iter().enumerate() {
            assert_eq!(*status as usize, at, "{text:?}");
        }
        for beyond in [-1, TEXTS.len() as c_int, c_int::MAX] {
            // SAFETY: the text is a constant.
            let text = unsafe { CStr::from_ptr(hotring_text(beyond)) };
            assert_eq!(text, c"there is no such status");
        }
    }

    #[test]
    fn the_last_failure_is_kept_for_its_thread() {
        // SAFETY: the text is that of this thread, which makes no call meanwhile.
        let error = || unsafe { CStr::from_ptr(hotring_error()) }.to_owned();
        assert_eq!(Status::Failed.told_with(b"NOPERM\0more"), Status::Failed as c_int);
        assert_eq!(error().as_c_str(), c"NOPERM");
        std::thread::spawn(|| Status::Late.told()).join().unwrap();
        assert_eq!(error().as_c_str(), c"NOPERM");
        Status::Absent.told();
        assert_eq!(error().as_c_str(), c"");
    }
}
