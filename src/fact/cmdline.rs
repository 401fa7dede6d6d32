//! The boot line: its tokens as the kernel splits them, and what the parameters that concern rules mean.
//!
//! Sources: `next_arg` in lib/cmdline.c, `parse_args` in kernel/params.c, kernel/sched/isolation.c,
//! kernel/rcu/tree_nocb.h, arch/x86/kernel/process.c and Documentation/admin-guide/kernel-parameters.txt of Linux 6.12.

use std::collections::BTreeSet;

use super::host::quoted;
use super::{Cause, Doubt, Fact, Host, Kind, Look, Observation, Read, Source, Value};
use crate::cpuset::{BootGrammar, CpuSet, ListError};
use crate::reading::{NotUnderstood, Obstacle, Reading};

mod agreement;
mod housekeeping;
mod ignored;

/// The file with the boot line.
pub const PATH: &str = "proc/cmdline";

/// No kernel takes a boot line this long (the longest `COMMAND_LINE_SIZE` is 4096); bootconfig may add to it.
const MAX_BYTES: usize = 64 * 1024;

/// The CPU that boots keeps the time: it is never tickless, and never out of the default affinity of interrupts.
const BOOT_CPU: u32 = 0;

/// From this version on a list of `rcu_nocbs=` that is none means all CPUs.
const BAD_NOCBS_MEAN_ALL_SINCE: (u32, u32) = (5, 10);

/// Boot lines of these lengths are as long as a common `COMMAND_LINE_SIZE` (512; 2048) allows: they may have been cut.
fn may_be_cut(length: usize) -> bool {
    length == 511 || length >= 2047
}

pub(super) const FACTS: &[Fact] = &[
    Fact {
        name: "cmdline.rcu_nocbs",
        kind: Kind::Cpus,
        files: &[PATH, super::cpu::POSSIBLE, super::kernel::OSRELEASE],
        about: "CPUs that rcu_nocbs= takes RCU callbacks off; the last occurrence counts, a bad list means all CPUs (5.10)",
        read: Read::One(rcu_nocbs),
    },
    Fact {
        name: "cmdline.nohz",
        kind: Kind::Word,
        files: &[PATH],
        about: "`on` or `off` as nohz= says, the last value that the kernel accepts; `off` keeps the tick on every CPU",
        read: Read::One(nohz),
    },
    Fact {
        name: "cmdline.idle",
        kind: Kind::Word,
        files: &[PATH],
        about: "what idle= makes of idling: poll (which sticks), halt or nomwait",
        read: Read::One(idle),
    },
    Fact {
        name: "cmdline.cpuidle_off",
        kind: Kind::Flag,
        files: &[PATH],
        about: "whether cpuidle.off= switches the idle-state machinery off, so that the CPU only halts",
        read: Read::One(cpuidle_off),
    },
    Fact {
        name: "cmdline.ignored",
        kind: Kind::Words,
        files: ignored::FILES,
        about: "the parameters about latency that are on the boot line and not in force: refused, misspelt, overridden, behind --, or not known to this kernel",
        read: Read::One(ignored::ignored),
    },
    Fact {
        name: "cmdline.divided",
        kind: Kind::Cpus,
        files: &[PATH, super::cpu::POSSIBLE, super::kernel::OSRELEASE],
        about: "the CPUs that one of isolcpus=, nohz_full= and rcu_nocbs= names and another on the boot line does not; what nohz_full= names counts for rcu_nocbs=",
        read: Read::One(agreement::divided),
    },
    Fact {
        name: "cmdline.irqaffinity",
        kind: Kind::Cpus,
        files: &[PATH, super::cpu::POSSIBLE, super::kernel::OSRELEASE],
        about: "the CPUs that irqaffinity= leaves interrupts on: those of its last occurrence, and the boot CPU",
        read: Read::One(agreement::irqaffinity),
    },
    Fact {
        name: "cmdline.absent_cpus",
        kind: Kind::Cpus,
        files: &[PATH, super::cpu::PRESENT],
        about: "the CPUs that isolcpus=, nohz_full=, rcu_nocbs= and irqaffinity= name by number and the host lacks",
        read: Read::One(agreement::absent),
    },
];

/// A parameter of the boot line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name as written.
    pub name: String,
    /// What follows the first `=`, without the quotes around it; none for a bare word.
    pub value: Option<String>,
    /// The whole parameter as it stands on the line, quotes and all.
    pub written: String,
}

impl Param {
    /// Is it the parameter of that name? Dash and underscore are the same in names, and nowhere else.
    pub fn is(&self, name: &str) -> bool {
        let same = |a: u8, b: u8| a == b || matches!((a, b), (b'-' | b'_', b'-' | b'_'));
        self.name.len() == name.len() && self.name.bytes().zip(name.bytes()).all(|(a, b)| same(a, b))
    }
}

impl std::fmt::Display for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The parameters of a boot line that are the kernel's: what follows ` -- ` is init's and left out of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootLine {
    params: Vec<Param>,
    of_init: Option<String>,
    length: usize,
}

impl BootLine {
    /// Splits a boot line as the kernel does.
    ///
    /// # Errors
    /// A line of more than 64 KiB, which no kernel has.
    pub fn parse(text: &str) -> Result<Self, NotUnderstood> {
        let line = text.trim_end_matches(['\n', '\0']);
        if line.len() > MAX_BYTES {
            return Err(NotUnderstood);
        }
        let mut params = Vec::new();
        let mut of_init = None;
        let mut rest = line.trim_start_matches(is_space);
        while !rest.is_empty() {
            let (param, tail) = next_param(rest);
            if param.name == "--" && param.value.is_none() {
                of_init = Some(rest.trim_end_matches(is_space).to_owned());
                break;
            }
            params.push(param);
            rest = tail.trim_start_matches(is_space);
        }
        Ok(Self { params, of_init, length: line.len() })
    }

    /// The kernel's parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// What is init's, from the `--` on, as it stands on the line.
    pub fn of_init(&self) -> Option<&str> {
        self.of_init.as_deref()
    }

    /// The occurrences of a parameter, in order.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Param> {
        self.params.iter().filter(move |param| param.is(name))
    }

    /// The names of all parameters, as written and in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|param| param.name.as_str())
    }

    /// The entries of an environment that stand on the line as parameters with a value. What the kernel does not take, and
    /// does not look like a module's, it hands to its first process so.
    pub(crate) fn handed_to_init<'e>(&self, environ: &'e str) -> impl Iterator<Item = &'e str> {
        let may_be = |param: &&Param| param.value.is_some() && !param.name.contains('.');
        let on_the_line: BTreeSet<String> = self.params.iter().filter(may_be).map(Param::to_string).collect();
        environ.split('\0').filter(move |entry| on_the_line.contains(*entry))
    }

    /// Is the line as long as the kernel's buffer, so that more may have stood on it?
    pub fn may_be_cut(&self) -> bool {
        may_be_cut(self.length)
    }

    /// The last occurrence whose value `accept` takes; others are refused by the kernel, which keeps what it has.
    fn last_accepted<T>(&self, name: &str, accept: impl Fn(&str) -> Option<T>) -> Option<(&Param, T)> {
        let mut accepted = None;
        for param in self.params.iter().filter(|param| param.is(name)) {
            if let Some(value) = param.value.as_deref().and_then(&accept) {
                accepted = Some((param, value));
            }
        }
        accepted
    }

    /// The value of an integer module parameter: the last one that the kernel accepts.
    pub fn integer(&self, name: &str) -> Option<(&Param, i64)> {
        self.last_accepted(name, kernel_integer)
    }
}

/// The kernel's `isspace`.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// `next_arg`: a quote toggles quoting anywhere, an `=` at the very start is none, quotes come off the value's edges.
fn next_param(text: &str) -> (Param, &str) {
    let quoted = text.starts_with('"');
    let body = if quoted { &text[1..] } else { text };
    let mut in_quote = quoted;
    let mut equals = None;
    let mut end = body.len();
    for (index, c) in body.char_indices() {
        if is_space(c) && !in_quote {
            end = index;
            break;
        }
        if c == '=' && index > 0 && equals.is_none() {
            equals = Some(index);
        }
        if c == '"' {
            in_quote = !in_quote;
        }
    }
    let (token, rest) = body.split_at(end);
    let written = text[..text.len() - rest.len()].to_owned();
    // The whole token's closing quote comes off when it began with one, the value's when the value does.
    let token = if quoted { token.strip_suffix('"').unwrap_or(token) } else { token };
    let param = match equals {
        None => Param { name: token.to_owned(), value: None, written },
        Some(equals) => {
            let value = token.get(equals + 1..).unwrap_or_default();
            let value = match value.strip_prefix('"') {
                Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
                None => value,
            };
            Param { name: token[..equals].to_owned(), value: Some(value.to_owned()), written }
        }
    };
    (param, rest)
}

/// `kstrtobool`: the first letter decides, of `on` and `off` the second.
fn kernel_bool(text: &str) -> Option<bool> {
    let mut bytes = text.bytes().map(|byte| byte.to_ascii_lowercase());
    match (bytes.next()?, bytes.next()) {
        (b'e' | b'y' | b't' | b'1', _) | (b'o', Some(b'n')) => Some(true),
        (b'd' | b'n' | b'f' | b'0', _) | (b'o', Some(b'f')) => Some(false),
        _ => None,
    }
}

/// `kstrtoint` with base 0: decimal, `0x` hexadecimal or `0` octal, with a sign.
fn kernel_integer(text: &str) -> Option<i64> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, base) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let number = sign * i64::from_str_radix(digits, base).ok()?;
    i32::try_from(number).ok().map(i64::from)
}

/// Why the kernel refuses a value of `isolcpus=` or `nohz_full=` as a whole. Texts are lowercase fragments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A word before the list that cannot be a flag.
    #[error("`{0}` is no flag, since only letters and underscores make one, and it voids the whole value")]
    NoFlag(String),
    /// Flags on a kernel that has none.
    #[error("`{0}` is read as a part of the list: flags are known from Linux 4.15 on")]
    FlagsUnknown(String),
    /// A flag that this kernel does not know, before unknown ones were skipped.
    #[error("`{0}` is a flag from Linux 5.6 on, and before 5.8 an unknown flag voids the whole value")]
    ManagedIrqUnknown(String),
    /// Another unknown flag, before unknown ones were skipped.
    #[error("`{0}` is an unknown flag, which before Linux 5.8 voids the whole value")]
    FlagUnknown(String),
    /// A list that is none.
    #[error("{0}")]
    List(#[from] ListError),
    /// No CPU in the list.
    #[error("the list is empty")]
    Empty,
    /// A list that was taken for a flag.
    #[error("`{0}` is taken for a flag, and no list is left")]
    AllFlags(String),
}

/// How a kernel reads the words that stand before the list of `isolcpus=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flags {
    /// Not at all: up to 4.14.
    None,
    /// `nohz` and `domain`; another word voids the value.
    Strict,
    /// `managed_irq` too: from 5.6 on.
    WithManagedIrq,
    /// Words that are none of these are skipped: from 5.8 on.
    Skipping,
}

impl Flags {
    fn of_version(version: (u32, u32)) -> Self {
        let steps = [((4, 15), Self::None), ((5, 6), Self::Strict), ((5, 8), Self::WithManagedIrq)];
        steps.into_iter().find(|(until, _)| version < *until).map_or(Self::Skipping, |(_, flags)| flags)
    }
}

/// What a value of `isolcpus=` asks for: features and a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IsolCpus {
    /// Isolation from the scheduler's domains: the flag `domain`, or no flag at all.
    pub domain: bool,
    /// Managed interrupts are kept off.
    pub managed_irq: bool,
    /// No tick, as with `nohz_full=`.
    pub nohz: bool,
    /// Words before the list that the kernel does not know and skips.
    pub skipped: Vec<String>,
    /// The CPUs.
    pub cpus: CpuSet,
}

impl IsolCpus {
    /// Reads a value as the newest kernels do: words of letters and underscores are flags, unknown ones are skipped, and
    /// `all` is such a word.
    ///
    /// # Errors
    /// See [`Refusal`]: the kernel then ignores the parameter.
    pub fn parse(value: &str, grammar: BootGrammar) -> Result<Self, Refusal> {
        Self::parse_with(value, grammar, Flags::Skipping)
    }

    /// Reads a value as the kernel of a version does.
    ///
    /// # Errors
    /// See [`Refusal`]: the kernel then ignores the parameter. Up to 4.14 it keeps the CPUs before a bad part of the list.
    pub fn parse_as(value: &str, grammar: BootGrammar, version: (u32, u32)) -> Result<Self, Refusal> {
        Self::parse_with(value, grammar, Flags::of_version(version))
    }

    fn parse_with(value: &str, grammar: BootGrammar, flags: Flags) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        let mut rest = value;
        while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let (flag, tail) = rest.split_once(',').unwrap_or((rest, ""));
            match flag {
                _ if flags == Flags::None => return Err(Refusal::FlagsUnknown(flag.to_owned())),
                "nohz" => asked.nohz = true,
                "domain" => asked.domain = true,
                "managed_irq" if flags >= Flags::WithManagedIrq => asked.managed_irq = true,
                "managed_irq" => return Err(Refusal::ManagedIrqUnknown(flag.to_owned())),
                _ if flags < Flags::Skipping => return Err(Refusal::FlagUnknown(flag.to_owned())),
                _ if !flag.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') => {
                    return Err(Refusal::NoFlag(flag.to_owned()));
                }
                _ => asked.skipped.push(flag.to_owned()),
            }
            rest = tail;
        }
        asked.cpus = CpuSet::parse_boot_list(rest, grammar)?;
        if asked.cpus.is_empty() {
            return Err(match value.split(',').find(|word| !word.is_empty()) {
                Some(word) if rest.is_empty() => Refusal::AllFlags(word.to_owned()),
                _ => Refusal::Empty,
            });
        }
        if !(asked.nohz || asked.managed_irq) {
            asked.domain = true;
        }
        Ok(asked)
    }
}

/// The grammar of lists on this host's boot line.
pub(crate) fn grammar(host: &Host<'_>) -> BootGrammar {
    let last = host.possible().and_then(|possible| possible.last());
    match host.release() {
        Some(release) => BootGrammar::of_version(release.version(), last),
        None => BootGrammar::newest(last),
    }
}

/// A look at the boot line: the line where there is one, else the answer that a fact about it then has.
pub(super) fn look<'h, 'a>(host: &'h Host<'a>) -> (Look<'h, 'a>, Reading<&'h BootLine>) {
    let mut look = Look::at(host);
    // Recorded as a source; the parsed form is kept by the host.
    let _ = look.read(PATH);
    (look, host.boot_line().as_ref())
}

/// What a parameter that was not found means: unset, unless the line may have been cut before it.
pub(super) fn not_found<T>(line: &BootLine, look: &mut Look<'_, '_>) -> Reading<T> {
    if !line.may_be_cut() {
        return Reading::Unset;
    }
    let obstacle = cut_obstacle(line);
    look.source(Source { path: PATH.to_owned(), text: None, error: Some(obstacle.to_string()) });
    Reading::Unreadable(obstacle)
}

fn cut_obstacle(line: &BootLine) -> Obstacle {
    Obstacle::Other(format!("a boot line of {} bytes may have been cut", line.length))
}

fn rcu_nocbs(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| {
        if line.may_be_cut() {
            look.gap::<()>(PATH, &Reading::Unreadable(cut_obstacle(line)));
        }
        let Some(param) = line.all("rcu_nocbs").last() else { return Reading::Value(CpuSet::new()) };
        Reading::Value(offloaded(param, host, &mut look))
    });
    look.cpus(reading)
}

/// The CPUs that an `rcu_nocbs` parameter offloads (`rcu_nocb_setup` in kernel/rcu/tree_nocb.h).
fn offloaded(param: &Param, host: &Host<'_>, look: &mut Look<'_, '_>) -> CpuSet {
    let release = host.release();
    let Some(value) = &param.value else {
        look.note_failure("bare rcu_nocbs on the boot line offloads no CPU");
        return CpuSet::new();
    };
    match parse_nocbs(value, grammar(host)) {
        Ok(cpus) => {
            look.note(format!("{} on the boot line", quoted(&param.to_string())));
            within_an_unseen_bound(cpus, host, look)
        }
        Err(error) if release.is_some_and(|release| release.version() < BAD_NOCBS_MEAN_ALL_SINCE) => {
            look.note_failure(format!(
                "{} on the boot line is a bad list and ignored: {error}",
                quoted(&param.to_string())
            ));
            CpuSet::new()
        }
        Err(error) => {
            look.note(format!("{} on the boot line is a bad list: all CPUs ({error})", quoted(&param.to_string())));
            host.possible().unwrap_or_else(|| CpuSet::from_range(0..=crate::cpuset::MAX_CPU))
        }
    }
}

/// A list of `rcu_nocbs=`. Before 5.14 `all` was a word of this parameter alone; since then lists know it.
fn parse_nocbs(value: &str, grammar: BootGrammar) -> Result<CpuSet, ListError> {
    CpuSet::parse_boot_list(value, BootGrammar { all: true, ..grammar })
}

/// Where `possible` is there and cannot be read, a list may be a bad one: which adds nothing before 5.10, and all CPUs since.
fn within_an_unseen_bound(cpus: CpuSet, host: &Host<'_>, look: &mut Look<'_, '_>) -> CpuSet {
    let possible = host.cpus(super::cpu::POSSIBLE);
    let Some(doubt) = Doubt::of(super::cpu::POSSIBLE, &possible).filter(|doubt| doubt.cause != Cause::NotExposed)
    else {
        return cpus;
    };
    if host.release().is_some_and(|release| release.version() < BAD_NOCBS_MEAN_ALL_SINCE) {
        look.doubt(doubt, Some(cpus));
        return CpuSet::new();
    }
    look.doubt(doubt, None);
    cpus
}

fn nohz(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| match line.last_accepted("nohz", kernel_bool) {
        Some((param, on)) => {
            look.note(format!("{} on the boot line", quoted(&param.to_string())));
            Reading::Value(if on { "on" } else { "off" }.to_owned())
        }
        // Whether nohz=off was cut away shows nowhere else, but it is rare: a cut line alone is no reason to doubt the
        // tick of a host whose nohz_full file says that it stops.
        None => Reading::Unset,
    });
    look.word(reading)
}

fn idle(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| {
        let known = |value: &str| matches!(value, "poll" | "halt" | "nomwait").then(|| value.to_owned());
        let poll = line.all("idle").find(|param| param.value.as_deref() == Some("poll"));
        let last = line.last_accepted("idle", known);
        match (poll, last) {
            (Some(_), _) => {
                look.note("idle=poll on the boot line");
                Reading::Value("poll".to_owned())
            }
            (None, Some((_, word))) => {
                look.note(format!("idle={word} on the boot line"));
                Reading::Value(word)
            }
            (None, None) => not_found(line, &mut look),
        }
    });
    look.word(reading)
}

fn cpuidle_off(host: &Host<'_>) -> Observation {
    let (mut look, line) = look(host);
    let reading = line.and_then(|line| match line.integer("cpuidle.off") {
        Some((param, off)) => {
            look.note(format!("{param} on the boot line"));
            Reading::Value(off != 0)
        }
        None => not_found(line, &mut look),
    });
    look.answer(reading.map(Value::Flag))
}

/// What the boot line asked of `isolcpus=` or `nohz_full=` in vain: a note for a rule that finds it not in force.
///
/// `wants` says which occurrences ask for the feature at all.
pub(crate) fn asked(host: &Host<'_>, wants: impl Fn(&Param, BootGrammar) -> bool) -> Option<String> {
    let line = host.boot_line().value()?;
    let grammar = grammar(host);
    let asking: Vec<String> = line.params.iter().filter(|param| wants(param, grammar)).map(Param::to_string).collect();
    (!asking.is_empty()).then(|| quoted(&asking.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(line: &str) -> Vec<String> {
        let line = BootLine::parse(line).unwrap();
        line.params.iter().map(|p| format!("{}|{}", p.name, p.value.as_deref().unwrap_or("-"))).collect()
    }

    #[test]
    fn tokens_as_the_kernel_splits_them() {
        assert_eq!(tokens("ro  quiet a=b\n"), ["ro|-", "quiet|-", "a|b"]);
        assert_eq!(tokens(" coherent_pool=1M\tx\n"), ["coherent_pool|1M", "x|-"]);
        assert_eq!(
            tokens(r#"isolcpus="2-3" "nohz_full=2-3" a="b c" "d=e f""#),
            ["isolcpus|2-3", "nohz_full|2-3", "a|b c", "d|e f"]
        );
        assert_eq!(tokens(r#"a=b"c d"e f"#), [r#"a|b"c d"e"#, "f|-"]);
        assert_eq!(tokens(r#"a="unclosed quote"#), ["a|unclosed quote"]);
        assert_eq!(tokens("=x=y a="), ["=x|y", "a|"]);
        assert_eq!(
            tokens("BOOT_IMAGE=(hd0,msdos2)/vmlinuz root=UUID=1-2 rw rw"),
            ["BOOT_IMAGE|(hd0,msdos2)/vmlinuz", "root|UUID=1-2", "rw|-", "rw|-"]
        );
        assert_eq!(tokens("a -- b"), ["a|-"]);
        assert_eq!(tokens("a --b --=c \"--\" d"), ["a|-", "--b|-", "--|c"]);
        assert_eq!(tokens(""), [""; 0]);
        assert_eq!(tokens("\n\0"), [""; 0]);
    }

    #[test]
    fn what_is_written_can_be_written_again() {
        let text = "ro  isolcpus=\"2-3\" \"nohz_full=2 3\" dyndbg=\"file a.c +p\" --  -s \"b c\" \n";
        let line = BootLine::parse(text).unwrap();
        let written: Vec<&str> = line.params().iter().map(|param| param.written.as_str()).collect();
        assert_eq!(written, ["ro", "isolcpus=\"2-3\"", "\"nohz_full=2 3\"", "dyndbg=\"file a.c +p\""]);
        assert_eq!(line.of_init(), Some("--  -s \"b c\""));
        assert_eq!(BootLine::parse("ro").unwrap().of_init(), None);
    }

    #[test]
    fn dash_and_underscore_are_equal_in_names_only() {
        let line = BootLine::parse("rcu-nocbs=2 rcu_nocbs=3 RCU_NOCBS=4 rcu_nocb_poll nohz_fullx=1").unwrap();
        assert_eq!(line.all("rcu_nocbs").count(), 2);
        assert_eq!(line.all("nohz_full").count(), 0);
        assert_eq!(BootLine::parse("processor.max-cstate=1").unwrap().integer("processor.max_cstate").unwrap().1, 1);
    }

    #[test]
    fn booleans_and_integers_are_the_kernels() {
        for (text, want) in [
            ("on", Some(true)),
            ("off", Some(false)),
            ("0", Some(false)),
            ("1", Some(true)),
            ("Y", Some(true)),
            ("No", Some(false)),
            ("oFF", Some(false)),
            ("o", None),
            ("", None),
            ("2", None),
            ("junk", None),
        ] {
            assert_eq!(kernel_bool(text), want, "{text:?}");
        }
        for (text, want) in [
            ("1", Some(1)),
            ("0x1", Some(1)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+1", Some(1)),
            ("one", None),
            ("", None),
            ("1 ", None),
            ("08", None),
            ("4294967296", None),
            ("--1", None),
            ("-+1", None),
            ("0x", None),
        ] {
            assert_eq!(kernel_integer(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_refused_value_leaves_what_was_set_before() {
        let line = BootLine::parse("intel_idle.max_cstate=1 intel_idle.max_cstate=x nohz=off nohz=maybe").unwrap();
        assert_eq!(line.integer("intel_idle.max_cstate").unwrap().1, 1);
        assert!(!line.last_accepted("nohz", kernel_bool).unwrap().1);
    }

    #[test]
    fn isolcpus_flags() {
        let parse = |value: &str| IsolCpus::parse(value, BootGrammar::newest(Some(15)));
        let shown = |value: &str| {
            parse(value)
                .map(|i| format!("{}{}{} {}", u8::from(i.domain), u8::from(i.managed_irq), u8::from(i.nohz), i.cpus))
        };
        assert_eq!(shown("2-5").as_deref(), Ok("100 2-5"));
        assert_eq!(shown("managed_irq,domain,4-N").as_deref(), Ok("110 4-15"));
        assert_eq!(shown("managed_irq,2-5").as_deref(), Ok("010 2-5"));
        assert_eq!(shown("nohz,2-5").as_deref(), Ok("001 2-5"));
        assert_eq!(shown("domain,bogus_flag,4-7").as_deref(), Ok("100 4-7"));
        for refused in ["all", "domain,foo2,2-5", "domain,managed-irq,2-5", "2-200", "3-2", "", "domain", "1,x"] {
            assert!(parse(refused).is_err(), "{refused:?}");
        }
        assert_eq!(parse("managed,domain,2-3").unwrap().skipped, ["managed"]);
        assert_eq!(parse("all"), Err(Refusal::AllFlags("all".to_owned())));
        assert_eq!(parse("domain,,"), Err(Refusal::Empty));
    }

    #[test]
    fn isolcpus_flags_by_version() {
        let shown = |value: &str, version| {
            IsolCpus::parse_as(value, BootGrammar::newest(Some(15)), version)
                .map_or_else(|refusal| format!("{refusal:?}"), |asked| asked.cpus.to_string())
        };
        for (value, version, want) in [
            ("2-5", (3, 10), "2-5"),
            ("domain,2-5", (4, 14), "FlagsUnknown(\"domain\")"),
            ("domain,2-5", (4, 15), "2-5"),
            ("managed_irq,domain,2-5", (5, 5), "ManagedIrqUnknown(\"managed_irq\")"),
            ("managed_irq,domain,2-5", (5, 6), "2-5"),
            ("managed,domain,2-5", (5, 7), "FlagUnknown(\"managed\")"),
            ("managed,domain,2-5", (5, 8), "2-5"),
            ("managed-irq,domain,2-5", (5, 8), "NoFlag(\"managed-irq\")"),
        ] {
            assert_eq!(shown(value, version), want, "{value} on {version:?}");
        }
    }

    #[test]
    fn what_init_got_of_the_line() {
        let line = BootLine::parse("BOOT_IMAGE=/v ro nohz_full=\"7-4\" a.b=1 splash=silent -- c=1").unwrap();
        let handed = |environ: &str| line.handed_to_init(environ).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            handed("HOME=/\0BOOT_IMAGE=/v\0nohz_full=7-4\0a.b=1\0ro\0splash=\0c=1\0"),
            ["BOOT_IMAGE=/v", "nohz_full=7-4"]
        );
        assert_eq!(handed(""), [""; 0]);
    }

    #[test]
    fn lengths_at_which_a_line_may_have_been_cut() {
        let cut = |length| BootLine::parse(&format!("{}\n", "x".repeat(length))).unwrap().may_be_cut();
        assert!(!cut(510) && cut(511) && !cut(512) && !cut(2046) && cut(2047) && cut(4095));
    }
}
