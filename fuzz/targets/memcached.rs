//! Fuzzes the decoder of memcached's protocol, the flags of its meta commands and its numbers: nothing panics, and
//! the decoded requests must not depend on the pieces in which the input arrives.
//!
//! The first byte of the input determines the length of the pieces.
#![no_main]

use hotring_protocol::memcached::{
    Data, Decoded, Decoder, Limits, LineTooLong, MetaFlags, MetaKey, Request, Writer, parse_i32,
    parse_u32, parse_u64,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { keys_line_max: 4096, data_len_max: 256 };

/// A request as its words and its data.
type Found = (Vec<Vec<u8>>, String);

/// Decodes a stream that arrives in pieces of this length: its requests, and whether a line was too long.
fn decode(stream: &[u8], piece: usize) -> (Vec<Found>, bool) {
    let (mut decoder, mut request) = (Decoder::new(), Request::default());
    let (mut start, mut end, mut found) = (0, 0, Vec::new());
    loop {
        let input = &stream[start..end];
        match decoder.decode(input, &LIMITS, &mut request) {
            Err(LineTooLong) => return (found, true),
            Ok(Decoded::Incomplete) if end == stream.len() => return (found, false),
            Ok(Decoded::Incomplete) => {
                assert!(decoder.input_len_wanted() > input.len());
                end = (end + piece).min(stream.len());
            }
            Ok(Decoded::Passed { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                start += consumed;
            }
            Ok(Decoded::Request { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                found.push(look(&request, input));
                start += consumed;
            }
        }
    }
}

/// Reads every part of a request that a command may read.
fn look(request: &Request, input: &[u8]) -> Found {
    let args = request.args(input);
    if let Some(command) = request.command {
        command.keys(args).iter().for_each(drop);
    }
    for first in [2, 3] {
        let Ok(flags) = MetaFlags::parse(args.tail(first)) else { continue };
        let key = MetaKey::parse(args.get(1).unwrap_or_default(), flags.has(b'b'));
        if let Ok(key) = key {
            let mut out = Vec::new();
            Writer::new(&mut out).value(key.bytes(), flags.client_flags, key.word(), flags.cas);
            assert!(out.ends_with(b"\r\n"));
        }
    }
    for word in args.iter() {
        let wide = parse_u64(word);
        assert_eq!(parse_u32(word).map(u64::from), wide.filter(|n| *n <= u64::from(u32::MAX)));
        if let Some(n) = parse_i32(word).filter(|n| *n >= 0) {
            assert_eq!(wide, Some(n as u64));
        }
    }
    let data = match request.data(input) {
        Data::Block(block) => {
            assert!(block.len() <= LIMITS.data_len_max);
            block.escape_ascii().to_string()
        }
        other => format!("{other:?}"),
    };
    (args.iter().map(<[u8]>::to_vec).collect(), data)
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, stream)) = input.split_first() else { return };
    let whole = decode(stream, stream.len().max(1));
    let pieces = decode(stream, usize::from(*piece).max(1));
    assert_eq!(pieces, whole);
});
