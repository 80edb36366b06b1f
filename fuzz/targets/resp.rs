//! The decoder of Redis's protocol and the table of commands behind it: nothing panics, and requests are the
//! same in whatever pieces they come, and whether or not their starts are known.
//!
//! The first byte of the input says how long the pieces are.
#![no_main]

use hotring_protocol::{Args, Decoded, Decoder, Limits, ProtocolError, Starts, resolve};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits =
    Limits { args_max: 16, bulk_len_max: 256, inline_len_max: 128, authenticated: true };

/// The requests of a stream that comes in pieces of this length, and why it ended early.
fn decode(
    stream: &[u8],
    piece: usize,
    mut starts: Option<Starts>,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    let (mut start, mut end, mut found) = (0, 0, Vec::new());
    loop {
        let input = &stream[start..end];
        let decoded = match &mut starts {
            Some(starts) => {
                starts.decode(&mut decoder, input, &LIMITS, &mut args).map(|(decoded, called)| {
                    if decoded != Decoded::Incomplete {
                        let resolved = resolve(args.view(input)).ok();
                        assert_eq!(called.map(|spec| spec.id), resolved.map(|spec| spec.id));
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
                if let Ok(spec) = resolve(view) {
                    spec.keys_of(view).for_each(drop);
                }
                found.push(view.iter().map(<[u8]>::to_vec).collect());
                start += consumed;
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, stream)) = input.split_first() else { return };
    let whole = decode(stream, stream.len().max(1), None);
    let pieces = decode(stream, usize::from(*piece).max(1), Some(Starts::default()));
    assert_eq!(pieces, whole);
});
