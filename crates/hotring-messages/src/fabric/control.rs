//! What the two ends of a connection say over its socket: under which address of the library each is reached, and that
//! there is something to read.

/// What each begins with, so that an end of another kind is noticed.
const MAGIC: &[u8; 4] = b"hrf1";

/// The longest one.
pub const LEN_MAX: usize = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// The first one of each end: what must follow each message that is sent to it, and its address.
    Greeting { token: u64, name: &'a [u8] },
    /// A message was sent to an end that may sleep.
    Bell,
}

impl<'a> Control<'a> {
    /// Writes it to the beginning of a buffer. None if it does not fit.
    pub fn write(self, out: &mut [u8]) -> Option<usize> {
        let (magic, rest) = out.split_first_chunk_mut()?;
        *magic = *MAGIC;
        match self {
            Control::Bell => Some(MAGIC.len()),
            Control::Greeting { token, name } => {
                let (place, rest) = rest.split_first_chunk_mut()?;
                *place = token.to_le_bytes();
                rest.get_mut(..name.len())?.copy_from_slice(name);
                Some(MAGIC.len() + place.len() + name.len())
            }
        }
    }

    /// Reads one.
    pub fn read(bytes: &'a [u8]) -> Option<Control<'a>> {
        let rest = bytes.strip_prefix(MAGIC)?;
        if rest.is_empty() {
            return Some(Control::Bell);
        }
        let (token, name) = rest.split_first_chunk()?;
        let token = u64::from_le_bytes(*token);
        (!name.is_empty()).then_some(Control::Greeting { token, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for control in [Control::Bell, Control::Greeting { token: 7, name: b"fi_shm://a" }] {
            let mut bytes = [0; 64];
            let len = control.write(&mut bytes).expect("it fits");
            assert_eq!(Control::read(&bytes[..len]), Some(control));
            assert_eq!(control.write(&mut bytes[..len - 1]), None);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b""[..], b"hrf", b"hrf2", b"hrf1name", b"hrf112345678", &[1; 64]] {
            assert_eq!(Control::read(bytes), None, "{bytes:?}");
        }
    }
}
