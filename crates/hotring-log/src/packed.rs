//! Effects one behind the other: what a block of a snapshot is made of, and what one thread hands to another. Each is
//! its length, as u32, and the body that its record has.

use crate::record::{Effect, Records, read_body};

/// Adds an effect. `scratch` is empty room, given again and again.
pub fn pack(effect: &Effect<'_>, scratch: &mut Records, to: &mut Vec<u8>) {
    scratch.reset();
    scratch.push(effect);
    let body = scratch.body();
    let len = u32::try_from(body.len()).expect("`Records::push` has seen to it");
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(body);
}

/// Effects that are handed out at once, at most: so many that who does them can have the memory of all fetched side by
/// side.
pub const UNPACKED_MAX: usize = 32;

/// Hands out what was added, in that order. Returns how many there were; None if the bytes are something else.
pub fn unpack(mut bytes: &[u8], apply: &mut dyn FnMut(&[Effect<'_>])) -> Option<u32> {
    let mut count = 0;
    let mut effects = [Effect::Clear; UNPACKED_MAX];
    while !bytes.is_empty() {
        let mut len = 0;
        while len < UNPACKED_MAX && !bytes.is_empty() {
            let (body_len, behind) = bytes.split_first_chunk()?;
            let (body, behind) = behind.split_at_checked(u32::from_le_bytes(*body_len) as usize)?;
            effects[len] = read_body(body)?;
            (bytes, len) = (behind, len + 1);
        }
        apply(&effects[..len]);
        count += len as u32;
    }
    Some(count)
}
