//! Reads ziplists: short lists in one string, as Redis stored them before version 7.

use super::PACKED_MAX;

/// Parses a ziplist: its length as u32, the offset of the last element as u32, the number of elements as u16, the
/// elements, and 0xff.
pub fn ziplist(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    if list.len() > PACKED_MAX {
        return None;
    }
    let (len, rest) = list.split_first_chunk()?;
    let (_, rest) = rest.split_first_chunk::<6>()?;
    let (end, mut rest) = rest.split_last()?;
    if *end != 0xff || u32::from_le_bytes(*len) as usize != list.len() {
        return None;
    }
    let mut items = Vec::new();
    while !rest.is_empty() {
        // Skip the length of the previous element.
        let (before, behind) = rest.split_first()?;
        rest = if *before == 0xfe { behind.get(4..)? } else { behind };
        items.push(ziplist_item(&mut rest)?);
    }
    Some(items)
}

fn ziplist_item(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut take = |len: usize| {
        let (taken, behind) = rest.split_at_checked(len)?;
        *rest = behind;
        Some(taken)
    };
    let first = take(1)?[0];
    let width = match first {
        0..0x40 => return take(usize::from(first)).map(<[u8]>::to_vec),
        0x40..0x80 => {
            let len = usize::from(first & 0x3f) << 8 | usize::from(take(1)?[0]);
            return take(len).map(<[u8]>::to_vec);
        }
        0x80 => {
            let len = u32::from_be_bytes(take(4)?.try_into().ok()?);
            return take(usize::try_from(len).ok()?).map(<[u8]>::to_vec);
        }
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => return Some((first - 0xf1).to_string().into_bytes()),
        _ => return None,
    };
    let mut wide = [0; 8];
    wide[8 - width..].copy_from_slice(take(width)?);
    // Shifting the word down extends the sign.
    let number = i64::from_le_bytes(wide) >> (64 - 8 * width);
    Some(number.to_string().into_bytes())
}
