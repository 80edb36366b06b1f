//! The operations, one family a file. Each file says how its family meets the gate.

pub(crate) mod expire;
mod number;
mod read;
pub(crate) mod set;
pub(crate) mod several;
mod text;
mod whole;

#[cfg(test)]
mod tests;
