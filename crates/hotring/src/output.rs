//! `print!`, `println!` and `eprintln!` that ignore a closed pipe: `hotring check DIR | head` must
//! end with the exit code of the check. The standard library's macros panic there, which aborts a
//! release build.

/// Like the standard library's `print!`, but ignores a closed pipe.
macro_rules! print {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($part)*);
    }};
}

/// Like the standard library's `println!`, but ignores a closed pipe.
macro_rules! println {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

/// Like the standard library's `eprintln!`, but ignores a closed pipe.
macro_rules! eprintln {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}
