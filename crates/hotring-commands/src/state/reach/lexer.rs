//! A lexer for Lua 5.1. It must separate tokens exactly as Lua's own lexer does: a string that ended elsewhere would
//! hide code.

use memchr::{memchr, memchr2};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A keyword, an operator or a punctuation mark.
    Sign(&'t [u8]),
    Name(&'t [u8]),
    /// A string literal without escapes: the string's bytes are those of the source text.
    Text(&'t [u8]),
    /// Any other string literal.
    Encoded,
    Number(&'t [u8]),
    End,
}

const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

const LONG_SIGNS: [&[u8]; 6] = [b"...", b"..", b"==", b"~=", b"<=", b">="];

/// Reads tokens. To look ahead, copy the lexer and read from the copy.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'t> {
    rest: &'t [u8],
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Lexer { rest: text }
    }

    /// The next token; None if Lua refuses the text or might refuse it.
    pub(super) fn next(&mut self) -> Option<Token<'t>> {
        self.skip_blank()?;
        let Some(&first) = self.rest.first() else { return Some(Token::End) };
        let second = self.rest.get(1).copied().unwrap_or_default();
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let word = self.take_while(is_of_word);
                let is_keyword = KEYWORDS.contains(&word);
                Some(if is_keyword { Token::Sign(word) } else { Token::Name(word) })
            }
            b'0'..=b'9' => Some(self.number()),
            b'.' if second.is_ascii_digit() => Some(self.number()),
            b'"' | b'\'' => self.short_text(first),
            b'[' if matches!(second, b'[' | b'=') => {
                self.long_text(long_level(self.rest)?)?;
                Some(Token::Encoded)
            }
            _ => self.sign(),
        }
    }

    fn take(&mut self, len: usize) -> &'t [u8] {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, is_in: fn(u8) -> bool) -> &'t [u8] {
        let len = self.rest.iter().position(|byte| !is_in(*byte)).unwrap_or(self.rest.len());
        self.take(len)
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self) -> Option<()> {
        loop {
            self.take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
            let Some(comment) = self.rest.strip_prefix(b"--") else { return Some(()) };
            self.rest = comment;
            match long_level(comment) {
                Some(level) => self.long_text(level)?,
                None => {
                    let end = memchr2(b'\n', b'\r', comment).unwrap_or(comment.len());
                    self.take(end);
                }
            }
        }
    }

    /// Reads a number. As Lua does, takes all characters that look like a part of a number; Lua then refuses the text
    /// if they form no number.
    fn number(&mut self) -> Token<'t> {
        let start = self.rest;
        self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
        if let [b'e' | b'E', rest @ ..] = self.rest {
            self.rest = rest;
            if let [b'+' | b'-', rest @ ..] = rest {
                self.rest = rest;
            }
        }
        self.take_while(is_of_word);
        Token::Number(&start[..start.len() - self.rest.len()])
    }

    fn short_text(&mut self, quote: u8) -> Option<Token<'t>> {
        let (mut end, mut is_plain) = (1, true);
        loop {
            end += match *self.rest.get(end)? {
                b'\n' | b'\r' => return None,
                b'\\' => {
                    is_plain = false;
                    2
                }
                byte if byte == quote => break,
                _ => 1,
            };
        }
        let text = &self.take(end + 1)[1..end];
        Some(if is_plain { Token::Text(text) } else { Token::Encoded })
    }

    /// Skips a string or comment in long brackets of this level.
    fn long_text(&mut self, level: usize) -> Option<()> {
        self.take(level + 2);
        loop {
            let at = memchr2(b'[', b']', self.rest)?;
            let bracket = self.take(at + 1)[at];
            // Some builds of Lua nest brackets of level 0, others refuse them.
            if bracket == b'[' && level == 0 && self.rest.first() == Some(&b'[') {
                return None;
            }
            let signs = self.rest.iter().take_while(|byte| **byte == b'=').count();
            if bracket == b']' {
                self.take(signs);
                if signs == level && self.rest.first() == Some(&b']') {
                    self.take(1);
                    return Some(());
                }
            }
        }
    }

    fn sign(&mut self) -> Option<Token<'t>> {
        let long = LONG_SIGNS.iter().find(|sign| self.rest.starts_with(sign));
        let len = match long {
            Some(sign) => sign.len(),
            None => {
                memchr(self.rest[0], b"+-*/%^#<>=(){}[];:,.")?;
                1
            }
        };
        Some(Token::Sign(self.take(len)))
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The level of the long bracket that begins here, which is the number of `=` in it; None if there is no long bracket.
fn long_level(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"[")?;
    let level = rest.iter().take_while(|byte| **byte == b'=').count();
    (rest.get(level) == Some(&b'[')).then_some(level)
}
