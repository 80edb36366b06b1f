//! Counts on the command line, with the units k, M and G.

/// Parses a count, where k, M and G stand for thousands, millions and billions.
pub fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.replace('_', "").parse::<u64>().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .filter(|&number| number > 0)
        .ok_or_else(|| format!("{text:?} is not a count such as 500, 64k or 20M"))
}
