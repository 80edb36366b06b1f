//! A batch of requests that run together: decodes them and prefetches the memory of their keys.

use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{Decoded, LineTooLong, Request};
use hotring_store::{Key, Session};

use super::Talk;
use crate::settings::config::Config;
use crate::state::batching::{BATCH_LEN, PREFETCH_MIN, TURN_LEN};

/// One request of a batch.
#[derive(Debug, Default)]
pub(super) struct Decodable {
    pub start: usize,
    pub request: Request,
}

/// One thread's storage for the requests of a batch.
#[derive(Debug)]
pub(super) struct Batch {
    requests: Vec<Decodable>,
    len: usize,
    /// The end of the batch in the input.
    pub end: usize,
    pub stop: Option<Stop>,
}

/// The reason that decoding stopped before the batch was full.
#[derive(Debug)]
pub(super) enum Stop {
    /// The input has no further complete request.
    Incomplete,
    /// The next bytes are not a request.
    Broken,
}

impl Default for Batch {
    fn default() -> Self {
        let requests = (0..BATCH_LEN).map(|_| Decodable::default()).collect();
        Batch { requests, len: 0, end: 0, stop: None }
    }
}

impl Batch {
    /// Decodes up to [`BATCH_LEN`] requests from `input[start..]`.
    pub(super) fn decode(&mut self, talk: &mut Talk, input: &[u8], start: usize, config: &Config) {
        let limits = talk.limits(config);
        (self.len, self.end, self.stop) = (0, start, None);
        while self.len < BATCH_LEN && self.end - start < TURN_LEN {
            let decoded = &mut self.requests[self.len];
            match talk.decoder.decode(&input[self.end..], &limits, &mut decoded.request) {
                Ok(Decoded::Request { consumed }) => {
                    decoded.start = self.end;
                    self.end += consumed;
                    self.len += 1;
                    // Other limits apply after authentication, so an unauthenticated batch is one request.
                    if !talk.authenticated {
                        return;
                    }
                }
                Ok(Decoded::Passed { consumed }) => self.end += consumed,
                Ok(Decoded::Incomplete) => {
                    self.stop = Some(Stop::Incomplete);
                    return;
                }
                Err(LineTooLong) => {
                    self.stop = Some(Stop::Broken);
                    return;
                }
            }
        }
    }

    /// The requests.
    #[inline]
    pub(super) fn requests(&self) -> &[Decodable] {
        &self.requests[..self.len]
    }

    /// Prefetches the cache lines of all keys of the batch in parallel.
    pub(super) fn prefetch(&self, input: &[u8], store: &mut Session) {
        let keys_of = self.requests().iter().filter_map(|decoded| decoded.keys(input));
        let mut keys = [Key::from(b""); BATCH_LEN];
        let mut n_keys = 0;
        for key in keys_of.flat_map(ArgsView::iter) {
            if n_keys == BATCH_LEN {
                store.prefetch(&mut keys);
                n_keys = 0;
            }
            keys[n_keys] = key.into();
            n_keys += 1;
        }
        if n_keys >= PREFETCH_MIN {
            store.prefetch(&mut keys[..n_keys]);
        }
    }
}

impl Decodable {
    /// The keys of the request in `input`; None if it names no command.
    pub(super) fn keys<'a>(&'a self, input: &'a [u8]) -> Option<ArgsView<'a>> {
        let args = self.request.args(&input[self.start..]);
        Some(self.request.command?.keys(args))
    }
}
