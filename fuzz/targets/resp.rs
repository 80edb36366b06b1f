//! Fuzzes the decoder of Redis's protocol: nothing panics, and the decoded requests must not depend on the pieces in
//! which the input arrives, nor on the cache of prefixes.
//!
//! The first byte of the input determines the length of the pieces.
#![no_main]

use hotring_protocol::{Args, ArgsView, Called, Decoded, Decoder, Limits, ProtocolError, PrefixCache};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits =
    Limits { args_max: 16, bulk_len_max: 256, inline_len_max: 128, authenticated: true };

/// A stand-in for the table of commands. A command exists if its word contains a `t` or the request has an odd number
/// of words. The word is the first one or, behind `client`, the second one.
fn resolve(request: ArgsView<'_>) -> Option<Called<(usize, u8)>> {
    let name = request.get(0)?;
    let is_client = name.eq_ignore_ascii_case(b"client");
    let word = if is_client { request.get(1)? } else { name };
    let is_found = request.len() % 2 == 1 || word.iter().any(|byte| byte | 0x20 == b't');
    let letters = word.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte | 0x20));
    is_found.then_some(Called { command: (request.len(), letters), by_name_alone: !is_client })
}

/// Decodes a stream that arrives in pieces of this length: its requests, and the error that ended it, if any.
fn decode(
    stream: &[u8],
    piece: usize,
    mut prefixes: Option<PrefixCache<(usize, u8)>>,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    let (mut start, mut end, mut found) = (0, 0, Vec::new());
    loop {
        let input = &stream[start..end];
        let decoded = match &mut prefixes {
            Some(prefixes) => {
                let decoded = prefixes.decode(&mut decoder, input, &LIMITS, &mut args, resolve);
                decoded.map(|(decoded, called)| {
                    if decoded != Decoded::Incomplete {
                        let resolved = resolve(args.view(input));
                        assert_eq!(called, resolved.map(|resolved| resolved.command));
                    }
                    decoded
                })
            }
            None => decoder.decode(input, &LIMITS, &mut args),
        };
        match decoded {
            Err(error) => return (found, Some(error)),
            Ok(Decoded::Incomplete) if end == stream.len() => return (found, None),
            Ok(Decoded::Incomplete) => {
                assert!(decoder.input_len_wanted() > input.len());
                end = (end + piece).min(stream.len());
            }
            Ok(Decoded::Request { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                let view = args.view(input);
                found.push(view.iter().map(<[u8]>::to_vec).collect());
                start += consumed;
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, stream)) = input.split_first() else { return };
    let whole = decode(stream, stream.len().max(1), None);
    let pieces = decode(stream, usize::from(*piece).max(1), Some(PrefixCache::default()));
    assert_eq!(pieces, whole);
});
