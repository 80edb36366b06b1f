//! A batch of RESP requests, which are decoded together, and whose keys are prefetched together.

use hotring_protocol::{Args, ArgsView, Decoded, Decoder, Limits, PrefixCache, ProtocolError};
use hotring_store::{Key, KeyHash, Session};

use crate::state::batching::{BATCH_LEN, PREFETCH_MIN, TURN_LEN};
use crate::table::{Flags, Spec, called};

/// A thread's storage for the current batch, reused for each batch.
pub(super) struct Batch {
    requests: Vec<Request>,
    /// The hash of each request's first key, if the key was prefetched.
    key_hashes: [KeyHash; BATCH_LEN],
    /// The database to which the hashes belong.
    pub database_id: u8,
    prefixes: PrefixCache<&'static Spec>,
    /// Number of requests.
    pub len: usize,
    /// The end of the batch in the input.
    pub end: usize,
}

/// One request of a batch.
#[derive(Debug, Default)]
struct Request {
    start: usize,
    args: Args,
    spec: Option<&'static Spec>,
}

/// The reason why a batch has fewer requests than it may have.
pub(super) enum Stop {
    /// The input has no more complete requests.
    Incomplete,
    /// The next bytes are not a valid request.
    Broken(ProtocolError),
}

impl Batch {
    pub(super) fn new() -> Self {
        Batch {
            requests: (0..BATCH_LEN).map(|_| Request::default()).collect(),
            key_hashes: [KeyHash::UNKNOWN; BATCH_LEN],
            database_id: 0,
            prefixes: PrefixCache::default(),
            len: 0,
            end: 0,
        }
    }

    /// Decodes up to [`BATCH_LEN`] requests from `input[start..]`. A request that may wait must be the last of its
    /// batch: requests after it would be decoded again after each of many waits. A request that changes how later ones
    /// run must be the last as well.
    pub(super) fn decode(
        &mut self,
        decoder: &mut Decoder,
        input: &[u8],
        start: usize,
        limits: &Limits,
    ) -> Option<Stop> {
        (self.len, self.end) = (0, start);
        while self.len < BATCH_LEN && self.end - start < TURN_LEN {
            let request = &mut self.requests[self.len];
            let rest = &input[self.end..];
            match self.prefixes.decode(decoder, rest, limits, &mut request.args, called) {
                Ok((Decoded::Request { consumed }, spec)) => {
                    request.start = self.end;
                    self.end += consumed;
                    if request.args.is_empty() {
                        continue;
                    }
                    request.spec = spec;
                    self.key_hashes[self.len] = KeyHash::UNKNOWN;
                    self.len += 1;
                    if spec.is_some_and(|spec| spec.flags.contains(Flags::ENDS_BATCH)) {
                        break;
                    }
                }
                Ok((Decoded::Incomplete, _)) => return Some(Stop::Incomplete),
                Err(error) => return Some(Stop::Broken(error)),
            }
        }
        None
    }

    /// Prefetches the cache lines of all keys of the batch, if the batch has at least [`PREFETCH_MIN`] requests.
    pub(super) fn prefetch(&mut self, input: &[u8], store: &mut Session) {
        self.database_id = store.database_id();
        if self.len < PREFETCH_MIN {
            return;
        }
        let Batch { requests, key_hashes, .. } = self;
        // Keys are gathered first because the store's pipeline runs best over a plain slice.
        let mut keys = [Key::from(b""); BATCH_LEN];
        // For each key, the request of which it is the first key.
        let mut owners = [usize::MAX; BATCH_LEN];
        let mut n_keys = 0;
        let mut fetch = |keys: &mut [Key<'_>], owners: &[usize]| {
            store.prefetch(keys);
            for (key, owner) in keys.iter().zip(owners) {
                if let Some(hash) = key_hashes.get_mut(*owner) {
                    *hash = key.hash();
                }
            }
        };
        for (i, request) in requests[..self.len].iter().enumerate() {
            let Some(spec) = request.spec else { continue };
            let args = request.args.view(&input[request.start..]);
            let mut owner = i;
            let mut gather = |key| {
                if n_keys == BATCH_LEN {
                    fetch(&mut keys, &owners);
                    n_keys = 0;
                }
                (keys[n_keys], owners[n_keys]) = (Key::from(key), owner);
                owner = usize::MAX;
                n_keys += 1;
            };
            match spec.sole_key() {
                Some(position) => gather(args.at(position)),
                None => spec.keys_of(args).for_each(gather),
            }
        }
        fetch(&mut keys[..n_keys], &owners);
    }

    /// The start of the `i`th request in the input.
    pub(super) fn start(&self, i: usize) -> usize {
        self.requests[i].start
    }

    /// The command of the `i`th request; None if no command has this name and takes this number of arguments.
    #[inline]
    pub(super) fn spec(&self, i: usize) -> Option<&'static Spec> {
        self.requests[i].spec
    }

    /// The arguments of the `i`th request.
    #[inline]
    pub(super) fn args<'a>(&'a self, i: usize, input: &'a [u8]) -> ArgsView<'a> {
        let request = &self.requests[i];
        request.args.view(&input[request.start..])
    }

    /// The hash of the `i`th request's first key, if the key was prefetched.
    #[inline]
    pub(super) fn key_hash(&self, i: usize) -> KeyHash {
        self.key_hashes[i]
    }
}
