//! A harness for the conformance kit, in exec mode:
//!     harness read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
//!     harness write SCENARIO OUT    write the trace that the scenario asks for to OUT
//! The kit's PROTOCOL.md and CANONICAL.md describe the arguments and files.

use std::path::Path;
use std::process::ExitCode;

/// The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does.
const MAGIC: &[u8] = b"\x10\x00\x04\x46\x78\x54\x16\x00";
const RESULT: &str = r#"{"format": "fxt", "records": [{"type": "magic"}]}"#;

/// What the testee says about a case; the text is shown in reports.
#[allow(dead_code)]
enum Answer {
    Done,
    Refused(String),
    Unsupported(String),
}

fn read(input: &Path, output: &Path) -> Answer {
    // Call your reader here.  Return Refused if it says that the trace is not valid.
    if std::fs::read(input).is_ok_and(|trace| trace == MAGIC) {
        std::fs::write(output, RESULT).expect("the result cannot be written");
        return Answer::Done;
    }
    Answer::Unsupported("reading is not implemented".to_string())
}

fn write(_scenario: &Path, _output: &Path) -> Answer {
    // Call your writer here.  Return Refused if the format cannot express the scenario.
    Answer::Unsupported("writing is not implemented".to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let answer = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", input, output] => read(Path::new(input), Path::new(output)),
        ["write", scenario, output] => write(Path::new(scenario), Path::new(output)),
        _ => {
            eprintln!("usage: harness read IN OUT | write SCENARIO OUT");
            return ExitCode::from(2);
        }
    };
    let (status, reason) = match answer {
        Answer::Done => (0, String::new()),
        Answer::Refused(reason) => (1, reason),
        Answer::Unsupported(reason) => (77, reason),
    };
    eprintln!("{reason}");
    ExitCode::from(status)
}
