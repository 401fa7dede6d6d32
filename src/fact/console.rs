//! The console: what writes to it, and what it costs the CPU that writes.
//!
//! Sources: Documentation/admin-guide/sysctl/kernel.rst (printk), Documentation/admin-guide/serial-console.rst,
//! fs/proc/consoles.c and drivers/video/fbdev/core/fbcon.c of Linux 6.12.

use std::collections::BTreeSet;

use super::host::Look;
use super::{Fact, Host, Kind, Observation, Read, Value, cmdline, parse_integer};
use crate::reading::{NotUnderstood, Reading};

const PRINTK: &str = "proc/sys/kernel/printk";
const CURSOR_BLINK: &str = "sys/class/graphics/fbcon/cursor_blink";
const CONSOLES: &str = "proc/consoles";

/// How the names of consoles on serial lines begin.
const SERIAL: &[&str] = &["ttyAMA", "ttyLP", "ttyPS", "ttyS", "ttyUSB", "ttymxc"];

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "console.loglevel",
        kind: Kind::Integer,
        files: &[PRINTK],
        about: "kernel messages of a level below this one go to the console: 4 lets errors through, 7 all but debugging",
        read: Read::One(loglevel),
    },
    Fact {
        name: "console.cursor_blink",
        kind: Kind::Flag,
        files: &[CURSOR_BLINK],
        about: "whether the cursor of the framebuffer console blinks, for which a timer goes off five times a second",
        read: Read::One(cursor_blink),
    },
    Fact {
        name: "console.serial",
        kind: Kind::Words,
        files: &[CONSOLES, cmdline::PATH],
        about: "the consoles on serial lines, where a message takes 87 us a letter at 115200 baud; where the host does not list its consoles, those of the boot line",
        read: Read::One(serial),
    },
];

fn loglevel(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(PRINTK).parse(|text| {
        let first = text.split_ascii_whitespace().next().ok_or(NotUnderstood)?;
        first.parse::<i64>().map_err(|_| NotUnderstood)
    });
    look.answer(reading.map(Value::Integer))
}

/// -1 where the framebuffer console drives no screen.
fn cursor_blink(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let reading = look.read(CURSOR_BLINK).parse(parse_integer);
    look.answer(reading.map(|blink| Value::Flag(blink == 1)))
}

fn serial(host: &Host<'_>) -> Observation {
    let mut look = Look::at(host);
    let names = match look.read_if_there(CONSOLES) {
        Reading::NotExposed => {
            let (of_line, line) = cmdline::look(host);
            look = of_line;
            line.and_then(|line| {
                let named = line.all("console").filter_map(|param| param.value.as_deref()?.split(',').next());
                let named = serial_among(named);
                if named.is_empty() { cmdline::not_found(line, &mut look) } else { Reading::Value(named) }
            })
        }
        consoles => {
            consoles.map(|text| serial_among(text.lines().filter_map(|line| line.split_ascii_whitespace().next())))
        }
    };
    let names = match names {
        Reading::Unset => Reading::Value(BTreeSet::new()),
        names => names,
    };
    look.answer(names.map(Value::Words))
}

/// Those of some consoles that are on serial lines: `ttyS0`, and not `ttySx`.
fn serial_among<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let is_serial = |name: &&str| {
        let number = SERIAL.iter().find_map(|prefix| name.strip_prefix(prefix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    names.filter(is_serial).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_on_serial_lines() {
        let among = |names: &[&str]| serial_among(names.iter().copied()).into_iter().collect::<Vec<_>>();
        assert_eq!(among(&["tty0", "ttyS0", "ttyUSB1", "hvc0", "ttyAMA0"]), ["ttyAMA0", "ttyS0", "ttyUSB1"]);
        assert_eq!(among(&["ttyS", "ttySx", "ttyS0x", ""]), [""; 0]);
    }
}
