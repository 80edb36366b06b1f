//! RDB encodings of lists. Lists are written as Redis 7 does, as a *quicklist* of listpacks; older encodings can be
//! read, too.

use hotring_store::{Content, Elements, ListRef};

use super::dump::{Input, PayloadError};
use super::{back_len, listpack, push_len, ziplist};

/// The type of a list: the number of its elements, then each as a string.
pub const TYPE_LIST: u8 = 1;
/// The type of a list in one string, a ziplist.
pub const TYPE_LIST_ZIPLIST: u8 = 10;
/// The type of a list in several strings, each of them a ziplist.
pub const TYPE_LIST_QUICKLIST: u8 = 14;
/// The type of a list in several strings, each preceded by a number that tells its kind.
pub const TYPE_LIST_QUICKLIST_2: u8 = 18;
/// The string is one element.
pub const NODE_PLAIN: u64 = 1;
/// The string is a listpack.
pub const NODE_PACKED: u64 = 2;

/// Longest listpack with more than one element, in bytes.
const NODE_LEN: usize = 8 << 10;
/// Length of a listpack's header, in bytes.
const HEAD_LEN: usize = 6;

/// Appends a list with its type.
pub(super) fn push_list(out: &mut Vec<u8>, list: ListRef<'_>) {
    out.push(TYPE_LIST_QUICKLIST_2);
    // The number of nodes precedes them, so the nodes are collected first.
    let (mut nodes, mut node, mut items) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    let mut end = |node: &mut Vec<u8>, items: &mut usize| {
        push_len(&mut nodes, NODE_PACKED as usize);
        push_len(&mut nodes, HEAD_LEN + node.len() + 1);
        nodes.extend_from_slice(&((HEAD_LEN + node.len() + 1) as u32).to_le_bytes());
        nodes.extend_from_slice(&u16::try_from(*items).unwrap_or(u16::MAX).to_le_bytes());
        nodes.extend_from_slice(node);
        nodes.push(0xff);
        (count, *items) = (count + 1, 0);
        node.clear();
    };
    let mut in_node = 0;
    for element in list.iter() {
        items.clear();
        push_item(&mut items, element);
        if in_node > 0 && HEAD_LEN + node.len() + items.len() + 1 > NODE_LEN {
            end(&mut node, &mut in_node);
        }
        node.extend_from_slice(&items);
        in_node += 1;
    }
    if in_node > 0 {
        end(&mut node, &mut in_node);
    }
    push_len(out, count);
    out.extend_from_slice(&nodes);
}

/// Appends an element of a listpack.
fn push_item(out: &mut Vec<u8>, element: &[u8]) {
    let start = out.len();
    match number(element) {
        Some(n @ 0..0x80) => out.push(n as u8),
        Some(n @ -4096..4096) => {
            // A signed integer of 13 bits.
            out.extend_from_slice(&(0xc000 | n as u16 & 0x1fff).to_be_bytes());
        }
        Some(n) => {
            let (tag, width) = match n {
                n if i16::try_from(n).is_ok() => (0xf1, 2),
                n if (-(1 << 23)..1 << 23).contains(&n) => (0xf2, 3),
                n if i32::try_from(n).is_ok() => (0xf3, 4),
                _ => (0xf4, 8),
            };
            out.push(tag);
            out.extend_from_slice(&n.to_le_bytes()[..width]);
        }
        None => {
            match element.len() {
                len @ 0..0x40 => out.push(0x80 | len as u8),
                len @ 0x40..0x1000 => out.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
                len => {
                    out.push(0xf0);
                    out.extend_from_slice(&(len as u32).to_le_bytes());
                }
            }
            out.extend_from_slice(element);
        }
    }
    let len = out.len() - start;
    for i in (0..back_len(len)).rev() {
        // The highest bits come first; all bytes but the first are marked.
        let is_first = i + 1 == back_len(len);
        out.push((len >> (7 * i)) as u8 & 0x7f | if is_first { 0 } else { 0x80 });
    }
}

/// The integer whose canonical text this is.
fn number(text: &[u8]) -> Option<i64> {
    hotring_protocol::parse_i64(text)
}

/// Reads a list of this type.
pub(super) fn read_list(input: &mut Input<'_>, kind: u8) -> Result<Content<'static>, PayloadError> {
    let mut elements = Elements::default();
    let count = if kind == TYPE_LIST_ZIPLIST { 1 } else { input.count()? };
    for _ in 0..count {
        match kind {
            TYPE_LIST => elements.add(&input.string()?),
            TYPE_LIST_QUICKLIST_2 => match input.count()? {
                NODE_PLAIN => elements.add(&input.string()?),
                NODE_PACKED => {
                    let items = input.string()?;
                    let items = listpack(&items).ok_or(PayloadError::Format)?;
                    items.iter().for_each(|item| elements.add(item));
                }
                _ => return Err(PayloadError::Format),
            },
            _ => {
                let items = ziplist(&input.string()?).ok_or(PayloadError::Format)?;
                items.iter().for_each(|item| elements.add(item));
            }
        }
    }
    if elements.is_empty() { Err(PayloadError::Format) } else { Ok(Content::List(elements)) }
}

#[cfg(test)]
mod tests;
