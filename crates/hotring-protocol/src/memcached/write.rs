//! Writes memcached's replies into a byte buffer.

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Length of the buffer, including earlier content.
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Truncates the buffer to this length.
    pub fn forget(&mut self, written: usize) {
        self.out.truncate(written);
    }

    /// A line of text.
    #[inline]
    pub fn line(&mut self, text: impl AsRef<[u8]>) {
        self.text(text);
        self.end();
    }

    /// A part of a line.
    #[inline]
    pub fn text(&mut self, text: impl AsRef<[u8]>) {
        self.out.extend_from_slice(text.as_ref());
    }

    /// The end of a line.
    #[inline]
    pub fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// A number as a part of a line.
    #[inline]
    pub fn number(&mut self, number: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A number as a line.
    pub fn number_line(&mut self, number: impl itoa::Integer) {
        self.number(number);
        self.end();
    }

    /// A block of data.
    #[inline]
    pub fn data(&mut self, data: &[u8]) {
        self.out.extend_from_slice(data);
        self.end();
    }

    /// An item in the form of the classic commands.
    #[inline]
    pub fn value(&mut self, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
        // One capacity check instead of many; 64 is more than all numbers and spaces.
        self.out.reserve(key.len() + value.len() + 64);
        self.text("VALUE ");
        self.text(key);
        self.text(" ");
        self.number(flags);
        self.text(" ");
        self.number(value.len());
        if let Some(cas) = cas {
            self.text(" ");
            self.number(cas);
        }
        self.end();
        self.data(value);
    }

    /// A flag of a meta reply, with a number.
    #[inline]
    pub fn flag(&mut self, letter: u8, number: impl itoa::Integer) {
        self.out.extend_from_slice(&[b' ', letter]);
        self.number(number);
    }

    /// A flag of a meta reply as it was sent.
    #[inline]
    pub fn word(&mut self, word: &[u8]) {
        self.text(" ");
        self.text(word);
    }

    /// One statistic.
    pub fn stat(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::io::Write;
        write!(self.out, "STAT {name} {value}\r\n").expect("a Vec takes every write");
    }
}
