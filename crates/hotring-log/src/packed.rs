//! Packed effects: the content of a snapshot block, also used to hand effects from one thread to
//! another. Each is its length, as u32, and the body of its record.

use crate::record::{Effect, Records, read_body};

/// Appends an effect. `scratch` is a reusable buffer.
pub fn pack(effect: &Effect<'_>, scratch: &mut Records, to: &mut Vec<u8>) {
    scratch.reset();
    scratch.push(effect);
    let body = scratch.body();
    let len = u32::try_from(body.len()).expect("`Records::push` limits the length");
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(body);
}

/// The largest number of effects handed out at once: enough for the receiver to prefetch the memory
/// of all of them in parallel.
pub const UNPACKED_MAX: usize = 32;

/// Hands out the effects in order. Returns their number; None if the bytes are not packed effects.
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
