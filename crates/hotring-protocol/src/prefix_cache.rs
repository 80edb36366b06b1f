//! A cache from the first bytes of a request to its command, for pipelines.
//!
//! Requests of a pipeline often begin with the same bytes, such as `*2\r\n$3\r\nGET\r\n`. [`PrefixCache`] keeps such
//! prefixes, up to the end of the command's name, with the decoded header and the command. A request with a cached
//! prefix is decoded from behind it, without a lookup in the table of commands.

use crate::args::{Args, ArgsView, Span};
use crate::error::ProtocolError;
use crate::resp::{Decoded, Decoder, Limits};

/// A prefix is compared as one number of this many bytes, which suffices for names of up to 6 bytes.
const COMPARED: usize = 16;
/// Prefixes with longer names are compared as two such numbers.
const COMPARED_LONG: usize = 2 * COMPARED;
/// The offset of the name: behind `*N\r\n$M\r\n`.
const NAME_AT: usize = 8;
/// Entries, a power of two.
const ENTRIES: usize = 16;

/// The command that a request calls.
#[derive(Clone, Copy, Debug)]
pub struct Called<C> {
    /// The command.
    pub command: C,
    /// Whether every request with this name and this number of arguments calls this command.
    pub by_name_alone: bool,
}

/// Prefixes of requests with their commands. One cache serves any number of connections.
#[derive(Debug)]
pub struct PrefixCache<C> {
    entries: [Entry<C>; ENTRIES],
    long_entries: [LongEntry<C>; ENTRIES],
}

#[derive(Clone, Copy, Debug)]
struct Entry<C> {
    bytes: u128,
    /// Selects the bytes of the prefix.
    mask: u128,
    name_len: usize,
    args: usize,
    /// None: the entry is free.
    command: Option<C>,
}

/// A prefix with a longer name. Long entries are stored apart from short ones, so that short names do not pay for long
/// ones.
#[derive(Clone, Copy, Debug)]
struct LongEntry<C> {
    bytes: [u128; 2],
    mask: [u128; 2],
    name: Span,
    args: usize,
    /// None: the entry is free.
    command: Option<C>,
}

impl<C: Copy> Default for PrefixCache<C> {
    fn default() -> Self {
        let name = Span::new(0, 0);
        PrefixCache {
            entries: [Entry { bytes: 0, mask: 0, name_len: 0, args: 0, command: None }; ENTRIES],
            long_entries: [LongEntry { bytes: [0; 2], mask: [0; 2], name, args: 0, command: None };
                ENTRIES],
        }
    }
}

impl<C: Copy> PrefixCache<C> {
    /// Decodes the request at the start of `input`, as [`Decoder::decode`] does, and returns its command as well, or
    /// None if the request has no known command. `resolve` finds commands and must be the same function in every call.
    ///
    /// # Errors
    ///
    /// Those of [`Decoder::decode`].
    #[inline]
    pub fn decode(
        &mut self,
        decoder: &mut Decoder,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
        resolve: impl Fn(ArgsView<'_>) -> Option<Called<C>>,
    ) -> Result<(Decoded, Option<C>), ProtocolError> {
        let Some(bytes) = first_bytes(input).filter(|_| !decoder.is_mid_request()) else {
            return self.decode_in_full(decoder, input, limits, args, resolve);
        };
        let entry = &self.entries[slot_of(bytes)];
        let matches = (entry.bytes ^ bytes) & entry.mask == 0
            && entry.args <= limits.args_max
            && entry.name_len <= limits.bulk_len_max;
        match entry.command {
            Some(command) if matches => {
                let name = Span::new(NAME_AT, entry.name_len);
                Ok((decoder.decode_behind(name, entry.args, input, limits, args)?, Some(command)))
            }
            _ => self.decode_long(decoder, input, limits, args, resolve),
        }
    }

    /// Like [`decode`](Self::decode), for a request without a short entry.
    #[inline(never)]
    fn decode_long(
        &mut self,
        decoder: &mut Decoder,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
        resolve: impl Fn(ArgsView<'_>) -> Option<Called<C>>,
    ) -> Result<(Decoded, Option<C>), ProtocolError> {
        if let Some([a, b]) = first_bytes_long(input) {
            let entry = &self.long_entries[slot_of(a)];
            let differs =
                (entry.bytes[0] ^ a) & entry.mask[0] | (entry.bytes[1] ^ b) & entry.mask[1];
            let (_, name_len) = entry.name.start_and_len();
            let fits = entry.args <= limits.args_max && name_len <= limits.bulk_len_max;
            if let Some(command) = entry.command.filter(|_| differs == 0 && fits) {
                let decoded = decoder.decode_behind(entry.name, entry.args, input, limits, args)?;
                return Ok((decoded, Some(command)));
            }
        }
        self.decode_in_full(decoder, input, limits, args, resolve)
    }

    #[cold]
    fn decode_in_full(
        &mut self,
        decoder: &mut Decoder,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
        resolve: impl Fn(ArgsView<'_>) -> Option<Called<C>>,
    ) -> Result<(Decoded, Option<C>), ProtocolError> {
        let decoded = decoder.decode(input, limits, args)?;
        if matches!(decoded, Decoded::Incomplete) || args.is_empty() {
            return Ok((decoded, None));
        }
        let called = resolve(args.view(input));
        if let Some(Called { command, by_name_alone: true }) = called {
            self.insert(input, args, command);
        }
        Ok((decoded, called.map(|called| called.command)))
    }

    /// Caches the prefix of a request if it fits an entry.
    fn insert(&mut self, input: &[u8], args: &Args, command: C) {
        let Some(bytes) = first_bytes(input).filter(|_| input[0] == b'*') else { return };
        let name = args.spans[0];
        let (at, name_len) = name.start_and_len();
        let (end, command) = (at + name_len + 2, Some(command));
        // Longer numbers in the header shift the name to another offset, which only long entries
        // store.
        if at == NAME_AT && end <= COMPARED {
            let mask = u128::MAX >> (8 * (COMPARED - end));
            self.entries[slot_of(bytes)] =
                Entry { bytes, mask, name_len, args: args.len(), command };
        } else if let Some(bytes) = first_bytes_long(input)
            && (COMPARED + 1..=COMPARED_LONG).contains(&end)
        {
            let mask = [u128::MAX, u128::MAX >> (8 * (COMPARED_LONG - end))];
            self.long_entries[slot_of(bytes[0])] =
                LongEntry { bytes, mask, name, args: args.len(), command };
        }
    }
}

fn first_bytes_long(input: &[u8]) -> Option<[u128; 2]> {
    let (a, behind) = input.split_first_chunk::<COMPARED>()?;
    Some([u128::from_le_bytes(*a), first_bytes(behind)?])
}

fn first_bytes(input: &[u8]) -> Option<u128> {
    input.first_chunk::<COMPARED>().map(|bytes| u128::from_le_bytes(*bytes))
}

/// The slot for these bytes: a hash of the number of arguments, the length of the name and its first letters.
fn slot_of(bytes: u128) -> usize {
    let (numbers, name) = (bytes as u64, (bytes >> 64) as u64);
    let mixed = (name & 0xffff_ffff) ^ (numbers >> 8 & 0xff) << 32 ^ (numbers >> 40 & 0xff) << 40;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Vec<(Vec<Vec<u8>>, Option<&'static str>)>;

    /// Some commands with the least and the greatest number of arguments, including the name.
    const COMMANDS: &[(&str, usize, usize)] = &[
        ("get", 2, 2),
        ("set", 3, 99),
        ("incr", 2, 2),
        ("exists", 2, 99),
        ("strlen", 2, 2),
        ("persist", 2, 2),
        ("ping", 1, 2),
        ("mget", 2, 99),
        ("incrbyfloat", 3, 3),
        ("incrbyflood", 3, 3),
        ("client|id", 2, 2),
        ("client|list", 2, 99),
    ];

    fn resolve(request: ArgsView<'_>) -> Option<Called<&'static str>> {
        let mut name = String::from_utf8_lossy(request.get(0)?).to_ascii_lowercase();
        let by_name_alone = name != "client";
        if !by_name_alone {
            name = format!("client|{}", String::from_utf8_lossy(request.get(1)?)).to_lowercase();
        }
        let fits = |(known, min, max): &&(&str, usize, usize)| {
            *known == name && (*min..=*max).contains(&request.len())
        };
        let (command, ..) = COMMANDS.iter().find(fits)?;
        Some(Called { command, by_name_alone })
    }

    /// Decodes a stream that arrives in pieces, with or without a cache.
    fn decode(
        stream: &[u8],
        piece: usize,
        limits: &Limits,
        mut cache: Option<&mut PrefixCache<&'static str>>,
    ) -> (Found, Option<ProtocolError>) {
        let (mut decoder, mut args, mut found) = (Decoder::new(), Args::new(), Vec::new());
        let (mut start, mut end) = (0, 0);
        loop {
            let input = &stream[start..end];
            let decoded = match &mut cache {
                Some(cache) => cache.decode(&mut decoder, input, limits, &mut args, resolve),
                None => decoder.decode(input, limits, &mut args).map(|decoded| {
                    (decoded, resolve(args.view(input)).map(|called| called.command))
                }),
            };
            match decoded {
                Err(error) => return (found, Some(error)),
                Ok((Decoded::Incomplete, _)) if end == stream.len() => return (found, None),
                Ok((Decoded::Incomplete, _)) => {
                    assert!(decoder.input_len_wanted() > input.len());
                    end = (end + piece).min(stream.len());
                }
                Ok((Decoded::Request { consumed }, called)) => {
                    let words = args.view(input).iter().map(<[u8]>::to_vec).collect();
                    found.push((words, called));
                    start += consumed;
                }
            }
        }
    }

    /// Requests as in a pipeline, and similar ones.
    fn stream() -> Vec<u8> {
        let mut stream = Vec::new();
        for round in 0..3 {
            for request in [
                &b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"[..],
                b"*2\r\n$3\r\nget\r\n$16\r\n0123456789abcdef\r\n",
                b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
                b"*2\r\n$3\r\nSET\r\n$1\r\na\r\n",
                b"*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nb\r\n",
                b"*2\r\n$6\r\nEXISTS\r\n$1\r\na\r\n",
                b"*2\r\n$6\r\nSTRLEN\r\n$0\r\n\r\n",
                b"*3\r\n$6\r\nEXISTS\r\n$1\r\na\r\n$1\r\nb\r\n",
                b"*2\r\n$7\r\nPERSIST\r\n$1\r\na\r\n",
                b"*3\r\n$11\r\nINCRBYFLOAT\r\n$1\r\na\r\n$1\r\n1\r\n",
                b"*3\r\n$11\r\nINCRBYFLOOD\r\n$1\r\na\r\n$1\r\n1\r\n",
                b"*2\r\n$11\r\nINCRBYFLOAT\r\n$9\r\n123456789\r\n",
                b"*2\r\n$7\r\nPERSIST\r\n$9\r\n123456789\r\n",
                b"*2\r\n$7\r\nPERSISTxy$9\r\n123456789\r\n",
                b"*2\r\n$3\r\nGETxy$1\r\na\r\n",
                b"*1\r\n$4\r\nPING\r\n",
                b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
                b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n",
                b"*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n",
                b"*2\r\n$5\r\nNOSUC\r\n$1\r\na\r\n",
                b"*0\r\n",
                b"PING  and words\r\n",
                b"GET a\r\n",
                b"*12\r\n$4\r\nMGET\r\n",
            ] {
                stream.extend_from_slice(request);
            }
            for i in 0..11 {
                stream.extend_from_slice(
                    format!("$1\r\n{}\r\n", (b'a' + i + round) as char).as_bytes(),
                );
            }
        }
        stream
    }

    #[test]
    fn the_cache_changes_no_result_however_requests_are_split() {
        let stream = stream();
        let tight = Limits { args_max: 12, bulk_len_max: 16, ..Limits::default() };
        let expected = decode(&stream, stream.len(), &tight, None);
        assert_eq!((expected.0.len(), &expected.1), (75, &None));
        let mut cache = PrefixCache::default();
        for piece in (1..60).chain([stream.len()]) {
            assert_eq!(decode(&stream, piece, &tight, Some(&mut cache)), expected, "{piece}");
        }
    }

    #[test]
    fn cached_prefixes_obey_the_limits_of_each_connection() {
        let mut cache = PrefixCache::default();
        let input = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\nabcd\r\n";
        let mut all = |args_max, bulk_len_max| {
            let limits = Limits { args_max, bulk_len_max, ..Limits::default() };
            let known = decode(input, input.len(), &limits, Some(&mut cache));
            assert_eq!(known, decode(input, input.len(), &limits, None));
            known.1
        };
        assert_eq!(all(3, 4), None);
        assert_eq!(all(3, 3), Some(ProtocolError::InvalidBulkLength));
        assert_eq!(all(2, 4), Some(ProtocolError::InvalidMultibulkLength));
        assert_eq!(all(3, 2), Some(ProtocolError::InvalidBulkLength));
    }

    #[test]
    fn usual_commands_are_cached_side_by_side() {
        let mut cache = PrefixCache::default();
        let (mut decoder, mut args) = (Decoder::new(), Args::new());
        let requests = [
            &b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"[..],
            b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n",
            b"*2\r\n$7\r\nPERSIST\r\n$13\r\n1234567890123\r\n",
            b"*3\r\n$11\r\nINCRBYFLOAT\r\n$1\r\na\r\n$1\r\n1\r\n",
        ];
        for request in requests {
            cache.decode(&mut decoder, request, &Limits::default(), &mut args, resolve).unwrap();
        }
        let mut kept: Vec<_> = cache.entries.iter().filter_map(|entry| entry.command).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["get", "incr", "set"]);
        let mut kept: Vec<_> =
            cache.long_entries.iter().filter_map(|entry| entry.command).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["incrbyfloat", "persist"]);
        // A known prefix need not be found.
        let lost = |_: ArgsView<'_>| panic!("it is known");
        for request in requests {
            cache.decode(&mut decoder, request, &Limits::default(), &mut args, lost).unwrap();
        }
    }
}
