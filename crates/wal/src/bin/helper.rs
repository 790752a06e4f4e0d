//! The helper process by itself: requests on standard input, answers on standard output.
//!
//! It does what `nearhead wal helper` does and nothing else, for programs that come with the library
//! alone. docs/wal-helper.md says what it understands.

use nearhead_wal::process::serve_standard;
use std::process::ExitCode;

fn main() -> ExitCode {
    match serve_standard() {
        Ok(ended) => ExitCode::from(ended.status()),
        Err(error) => {
            eprintln!(
                "nearhead-wal-helper: cannot use standard input and output: {error}; start it with pipes there"
            );
            ExitCode::from(3)
        }
    }
}
