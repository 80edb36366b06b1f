//! `print!` and its like for programs whose reader may leave: `hotring check DIR | head` must end with the exit code of the
//! check. The standard library's panic there, which aborts a release build.

/// As the standard library's, without a word about a reader that has left.
macro_rules! print {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($part)*);
    }};
}

/// As the standard library's, without a word about a reader that has left.
macro_rules! println {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

/// As the standard library's, without a word about a reader that has left.
macro_rules! eprintln {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}
