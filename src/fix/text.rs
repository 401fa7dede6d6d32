//! Lines and comments that begin with `#`, as shells, units and profiles have them.

use crate::output::{at_blanks, one_line};

/// The widest comment, in columns.
const WIDTH: usize = 79;

/// A text that is being written.
#[derive(Default)]
pub(super) struct Text {
    out: String,
}

impl Text {
    /// A comment, wrapped. Whatever it quotes, it ends where its lines end.
    pub(super) fn comment(&mut self, text: &str) {
        self.hanging("# ", "#   ", text);
    }

    /// A comment that belongs to the one before it.
    pub(super) fn below(&mut self, text: &str) {
        self.hanging("#   ", "#     ", text);
    }

    fn hanging(&mut self, first: &str, rest: &str, text: &str) {
        let options = at_blanks(WIDTH).initial_indent(first).subsequent_indent(rest);
        for line in textwrap::wrap(&one_line(text), options) {
            self.line(line.trim_end());
        }
    }

    /// A line as it stands.
    pub(super) fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// An empty line, but never two.
    pub(super) fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    pub(super) fn done(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_holds_whatever_is_put_into_it() {
        let mut text = Text::default();
        text.comment("line 5 (eth0\nrm -rf x\r\u{1b}[2J\u{202e})");
        text.below(&"word ".repeat(20));
        text.blank();
        text.blank();
        text.line("put 1");
        let text = text.done();
        assert!(text.starts_with("# line 5 (eth0\\nrm -rf x\\r\\u{1b}[2J\\u{202e})\n#   word word"), "{text}");
        assert!(text.ends_with("\n\nput 1\n"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH && (line.starts_with('#') || line.is_empty() || line == "put 1"));
        }
    }
}
