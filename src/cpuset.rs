//! Sets of CPU numbers and the three ways in which the kernel writes them.
//!
//! - lists as it *prints* them (`%*pbl`: sysfs, procfs, cgroup): [`CpuSet::parse_list`];
//! - lists as boot parameters *accept* them (`bitmap_parselist`): [`CpuSet::parse_boot_list`];
//! - hex masks (`%*pb`): [`CpuSet::parse_mask`].
//!
//! The first two differ: a boot parameter may say `N`, `all` or `0-31:2/4`, and the kernel refuses it as a whole when it
//! names a CPU that cannot exist; what the kernel prints never holds any of that, but may be `(null)`, unmerged, or begin
//! with a comma.

use std::fmt;
use std::ops::{BitAnd, BitOr, RangeInclusive, Sub};

use thiserror::Error;

/// The highest CPU number that a set may hold. The largest `NR_CPUS` of any architecture is 8192; the margin keeps a
/// hostile `0-4294967295` from becoming half a gigabyte of bits.
pub const MAX_CPU: u32 = u16::MAX as u32;

/// How many strides one list may have: a boot line of 4096 bytes, the longest there is, has room for fewer.
const MAX_STRIDES: usize = 1024;

const WORD_BITS: u32 = u64::BITS;

/// A set of CPU numbers from 0 to [`MAX_CPU`].
///
/// `Display` writes the canonical kernel list: ascending, ranges merged, `0-3,8`, and nothing for the empty set.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    // Little-endian words without a zero word at the end, so that equal sets have equal words.
    words: Vec<u64>,
}

/// Why a list or mask was not understood. The texts are lowercase fragments.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListError {
    /// A part that is neither a CPU number nor a range of them.
    #[error("`{0}` is not a CPU number or range")]
    NotACpu(String),
    /// A range whose end comes before its start.
    #[error("range `{0}` runs backwards")]
    Backwards(String),
    /// A number beyond the last CPU (the kernel's `ERANGE`), or beyond any CPU.
    #[error("CPU {cpu} is beyond the last one, {last}")]
    OutOfRange {
        /// The CPU asked for.
        cpu: u64,
        /// The highest CPU number that there may be.
        last: u32,
    },
    /// A stride `:used/group` whose group is empty or smaller than what is used of it.
    #[error("`{0}` is not a usable stride")]
    BadStride(String),
    /// More strides than any boot line has room for: each may take thousands of steps.
    #[error("more than {0} strides")]
    TooManyStrides(usize),
    /// A group of a mask that is not 1 to 8 hex digits.
    #[error("`{0}` is not a group of 1 to 8 hex digits")]
    NotHex(String),
}

/// Which words a boot parameter's list may hold: the grammar has grown with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootGrammar {
    /// The highest possible CPU, which `N` and `all` stand for and beyond which a list is refused; unknown: no bound.
    pub last: Option<u32>,
    /// `0-31:2/4` (Linux 4.11).
    pub strides: bool,
    /// `N` (Linux 5.13).
    pub n: bool,
    /// `all`, in any case (Linux 5.14).
    pub all: bool,
}

impl BootGrammar {
    /// The grammar of Linux 5.14 and newer.
    pub fn newest(last: Option<u32>) -> Self {
        Self { last, strides: true, n: true, all: true }
    }

    /// The grammar of a kernel of that version.
    pub fn of_version(version: (u32, u32), last: Option<u32>) -> Self {
        Self { last, strides: version >= (4, 11), n: version >= (5, 13), all: version >= (5, 14) }
    }

    fn last_or_max(self) -> u32 {
        self.last.unwrap_or(MAX_CPU).min(MAX_CPU)
    }
}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// All CPUs of a range; what lies beyond [`MAX_CPU`] is left out.
    pub fn from_range(range: RangeInclusive<u32>) -> Self {
        let mut set = Self::new();
        set.insert_range(*range.start(), *range.end());
        set
    }

    /// Adds a CPU. A number beyond [`MAX_CPU`] is left out.
    pub fn insert(&mut self, cpu: u32) {
        self.insert_range(cpu, cpu);
    }

    fn insert_range(&mut self, start: u32, end: u32) {
        let end = end.min(MAX_CPU);
        if start > end {
            return;
        }
        let words_needed = (end / WORD_BITS) as usize + 1;
        if self.words.len() < words_needed {
            self.words.resize(words_needed, 0);
        }
        let (first, last) = ((start / WORD_BITS) as usize, (end / WORD_BITS) as usize);
        let from_start = u64::MAX << (start % WORD_BITS);
        let to_end = u64::MAX >> (WORD_BITS - 1 - end % WORD_BITS);
        // Whole words at a time: a text of a megabyte may hold a hundred thousand ranges of all CPUs.
        for (index, word) in self.words.iter_mut().enumerate().take(last + 1).skip(first) {
            let mut bits = u64::MAX;
            if index == first {
                bits &= from_start;
            }
            if index == last {
                bits &= to_end;
            }
            *word |= bits;
        }
    }

    /// Is the CPU in the set?
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / WORD_BITS) as usize).is_some_and(|word| word & (1 << (cpu % WORD_BITS)) != 0)
    }

    /// Is there no CPU in the set?
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(index, &word)| {
            (0..WORD_BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index * WORD_BITS + bit)
        })
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest CPU.
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        let index = u32::try_from(self.words.len() - 1).ok()?;
        Some(index * WORD_BITS + WORD_BITS - 1 - word.leading_zeros())
    }

    /// Is every CPU of this set in the other one?
    pub fn is_subset(&self, other: &Self) -> bool {
        (self - other).is_empty()
    }

    /// Have the two sets no CPU in common?
    pub fn is_disjoint(&self, other: &Self) -> bool {
        (self & other).is_empty()
    }

    /// Parses a list as the kernel prints it (`%*pbl`).
    ///
    /// Blanks, NUL and CR around the list are dropped; nothing at all and `(null)` (an unset `nohz_full` mask, padded with
    /// blanks) are the empty set; empty items are skipped (`offline` may read `,2-3`); ranges need not be merged.
    ///
    /// # Errors
    /// Anything else: the caller must treat it as unknown, never as empty.
    pub fn parse_list(text: &str) -> Result<Self, ListError> {
        let mut set = Self::new();
        let list = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
        if list == "(null)" {
            return Ok(set);
        }
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (start, end) = item.split_once('-').unwrap_or((item, item));
            let (start, end) = (printed_number(start, item)?, printed_number(end, item)?);
            if start > end {
                return Err(ListError::Backwards(item.to_owned()));
            }
            set.insert_range(start, end);
        }
        Ok(set)
    }

    /// Parses a list as boot parameters accept it: `bitmap_parselist` of the kernel's lib/bitmap-str.c.
    ///
    /// Commas and blanks separate and may repeat; a newline or NUL after a region ends the text.
    ///
    /// # Errors
    /// What the kernel refuses. It then ignores the whole parameter (`rcu_nocbs=` excepted, which then means all CPUs).
    pub fn parse_boot_list(text: &str, grammar: BootGrammar) -> Result<Self, ListError> {
        let mut set = Self::new();
        let mut rest = text.as_bytes();
        let mut strides = 0;
        loop {
            rest = skip_separators(rest);
            if ends_text(rest) {
                return Ok(set);
            }
            let region = Region::parse(rest, grammar)?;
            strides += usize::from(region.has_stride);
            if strides > MAX_STRIDES {
                return Err(ListError::TooManyStrides(MAX_STRIDES));
            }
            region.add_to(&mut set, grammar)?;
            rest = region.rest;
            // A plain region must be followed by a separator or the end, and a newline there is the end. After a stride
            // the kernel goes on at once, so that what follows it is taken as the next region.
            if !region.has_stride && ends_text(rest) {
                return Ok(set);
            }
        }
    }

    /// Parses a hex mask (`%*pb`): groups of 32 bits, the last one the lowest, whatever their number of digits.
    ///
    /// Commas and blanks separate; empty groups are skipped; a newline or NUL ends the text. The mask may be wider than
    /// the host has CPUs: intersect it with the possible ones. Bits beyond [`MAX_CPU`] are left out.
    ///
    /// # Errors
    /// A group that is not 1 to 8 hex digits (`0x` is none).
    pub fn parse_mask(text: &str) -> Result<Self, ListError> {
        let line = text.trim_start().split(['\n', '\0']).next().unwrap_or_default();
        let mut set = Self::new();
        let groups = line.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|group| !group.is_empty());
        for (index, group) in (0u32..).zip(groups.rev()) {
            let is_hex = group.len() <= 8 && group.bytes().all(|b| b.is_ascii_hexdigit());
            let bits = u32::from_str_radix(group, 16).ok().filter(|_| is_hex);
            let bits = bits.ok_or_else(|| ListError::NotHex(group.to_owned()))?;
            for bit in (0..u32::BITS).filter(|bit| bits & (1 << bit) != 0) {
                set.insert(index.saturating_mul(u32::BITS).saturating_add(bit));
            }
        }
        Ok(set)
    }

    /// The set as the kernel prints and takes a mask (`%*pb`) on a host whose highest possible CPU is `last`: groups of 8
    /// digits, the first one as wide as the CPUs need. A CPU beyond `last` widens it.
    pub fn to_mask(&self, last: u32) -> String {
        let last = self.last().unwrap_or(0).max(last.min(MAX_CPU));
        let group = |index: u32| {
            let bit = |bit: u32| u32::from(self.contains(index * u32::BITS + bit)) << bit;
            (0..u32::BITS).map(bit).fold(0, |bits, bit| bits | bit)
        };
        let top = last / u32::BITS;
        let width = (last % u32::BITS / 4 + 1) as usize;
        let first = format!("{:0width$x}", group(top));
        (0..top).rev().fold(first, |mask, index| format!("{mask},{:08x}", group(index)))
    }

    fn combine(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let word = |set: &Self, index: usize| set.words.get(index).copied().unwrap_or(0);
        let length = self.words.len().max(other.words.len());
        let mut words: Vec<u64> = (0..length).map(|i| combine(word(self, i), word(other, i))).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

/// A number in a list that the kernel printed: decimal digits and nothing else.
fn printed_number(text: &str, item: &str) -> Result<u32, ListError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ListError::NotACpu(item.to_owned()));
    }
    let cpu = text.parse::<u64>().unwrap_or(u64::MAX);
    u32::try_from(cpu).ok().filter(|cpu| *cpu <= MAX_CPU).ok_or(ListError::OutOfRange { cpu, last: MAX_CPU })
}

/// One region of a boot list: `CPU`, `CPU-CPU`, `all`, the latter two with a stride.
struct Region<'a> {
    text: &'a [u8],
    rest: &'a [u8],
    start: u32,
    end: u32,
    used: u32,
    group: u32,
    has_stride: bool,
}

impl<'a> Region<'a> {
    fn parse(text: &'a [u8], grammar: BootGrammar) -> Result<Self, ListError> {
        let not_a_cpu = || ListError::NotACpu(region_text(text));
        let last = grammar.last_or_max();
        let number = |bytes: &'a [u8]| boot_number(bytes, grammar, text);
        let (start, end, rest, may_stride) = if grammar.all && text.len() >= 3 && text[..3].eq_ignore_ascii_case(b"all")
        {
            (0, last, &text[3..], true)
        } else {
            let (start, rest) = number(text)?;
            match rest.first() {
                Some(b'-') => {
                    let (end, rest) = number(&rest[1..])?;
                    (start, end, rest, true)
                }
                _ => (start, start, rest, false),
            }
        };
        let whole = |rest: &'a [u8]| Self { text, rest, start, end, used: 1, group: 1, has_stride: false };
        match rest.first() {
            None => Ok(whole(rest)),
            Some(&byte) if is_separator(byte) || byte == 0 => Ok(whole(rest)),
            Some(b':') if may_stride && grammar.strides => {
                let (used, rest) = number(&rest[1..])?;
                let Some(rest) = rest.strip_prefix(b"/") else { return Err(not_a_cpu()) };
                let (group, rest) = number(rest)?;
                Ok(Self { text, rest, start, end, used, group, has_stride: true })
            }
            Some(_) => Err(not_a_cpu()),
        }
    }

    fn add_to(&self, set: &mut CpuSet, grammar: BootGrammar) -> Result<(), ListError> {
        let last = grammar.last_or_max();
        if self.start > self.end {
            return Err(ListError::Backwards(region_text(self.text)));
        }
        if self.group == 0 || self.used > self.group {
            return Err(ListError::BadStride(region_text(self.text)));
        }
        if self.end > last {
            return Err(ListError::OutOfRange { cpu: u64::from(self.end), last });
        }
        // All of every group: the whole range, and so is a region without a stride.
        if self.used == self.group {
            set.insert_range(self.start, self.end);
            return Ok(());
        }
        let mut start = self.start;
        while start <= self.end {
            if let Some(used_end) = self.used.checked_sub(1) {
                set.insert_range(start, start.saturating_add(used_end).min(self.end));
            }
            start = start.saturating_add(self.group);
        }
        Ok(())
    }
}

/// A number of a boot list: decimal digits, or `N` for the last CPU.
fn boot_number<'a>(bytes: &'a [u8], grammar: BootGrammar, region: &[u8]) -> Result<(u32, &'a [u8]), ListError> {
    if grammar.n && bytes.first() == Some(&b'N') {
        return Ok((grammar.last_or_max(), &bytes[1..]));
    }
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = bytes.split_at(digits);
    if number.is_empty() {
        return Err(ListError::NotACpu(region_text(region)));
    }
    let cpu = number.iter().fold(0u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    u32::try_from(cpu).map(|cpu| (cpu, rest)).map_err(|_| ListError::OutOfRange { cpu, last: grammar.last_or_max() })
}

/// The kernel's `isspace` or a comma.
fn is_separator(byte: u8) -> bool {
    byte == b',' || byte == 0x0b || byte.is_ascii_whitespace()
}

fn skip_separators(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| is_separator(**byte)).count()..]
}

fn ends_text(bytes: &[u8]) -> bool {
    matches!(bytes.first(), None | Some(0 | b'\n'))
}

fn region_text(bytes: &[u8]) -> String {
    let region = bytes.split(|byte| is_separator(*byte) || *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(region).into_owned()
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl BitOr for &CpuSet {
    type Output = CpuSet;
    fn bitor(self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a | b)
    }
}

impl BitAnd for &CpuSet {
    type Output = CpuSet;
    fn bitand(self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & b)
    }
}

impl Sub for &CpuSet {
    type Output = CpuSet;
    fn sub(self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & !b)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(start) = cpus.next() {
            let mut end = start;
            while cpus.next_if_eq(&(end + 1)).is_some() {
                end += 1;
            }
            if start == end {
                write!(f, "{separator}{start}")?;
            } else {
                write!(f, "{separator}{start}-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> String {
        match CpuSet::parse_list(text) {
            Ok(set) => set.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    fn boot(text: &str, last: u32) -> String {
        match CpuSet::parse_boot_list(text, BootGrammar::newest(Some(last))) {
            Ok(set) => set.to_string(),
            Err(_) => "error".to_owned(),
        }
    }

    fn mask(text: &str) -> String {
        match CpuSet::parse_mask(text) {
            Ok(set) => set.to_string(),
            Err(_) => "error".to_owned(),
        }
    }

    #[test]
    fn lists_as_the_kernel_prints_them() {
        for (text, want) in [
            ("", ""),
            ("\n", ""),
            ("          (null)\n", ""),
            ("(null)", ""),
            ("0-15\n", "0-15"),
            (",2-3\n", "2-3"),
            ("2,4-31,32-63\n", "2,4-63"),
            ("1,2-7,9\n", "1-7,9"),
            ("0-3\n\0", "0-3"),
            ("2-5\r\n", "2-5"),
            ("3-3", "3"),
        ] {
            assert_eq!(list(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_printed_list_that_is_not_understood_is_an_error_and_says_where() {
        for (text, want) in [
            ("2-5,garbage", "error: `garbage` is not a CPU number or range"),
            ("2-5 6", "error: `2-5 6` is not a CPU number or range"),
            ("5-2", "error: range `5-2` runs backwards"),
            ("-1", "error: `-1` is not a CPU number or range"),
            ("+0-3", "error: `+0-3` is not a CPU number or range"),
            ("1-2-3", "error: `1-2-3` is not a CPU number or range"),
            ("0-N", "error: `0-N` is not a CPU number or range"),
            ("0-31:2/4", "error: `0-31:2/4` is not a CPU number or range"),
            ("2-5,(null)", "error: `(null)` is not a CPU number or range"),
            ("0-4294967295", "error: CPU 4294967295 is beyond the last one, 65535"),
            ("99999999999999999999", "error: CPU 18446744073709551615 is beyond the last one, 65535"),
        ] {
            assert_eq!(list(text), want, "{text:?}");
        }
    }

    #[test]
    fn lists_as_boot_parameters_accept_them() {
        for (text, last, want) in [
            ("0-31:2/4", 31, "0-1,4-5,8-9,12-13,16-17,20-21,24-25,28-29"),
            ("0-20:2/5,23", 23, "0-1,5-6,10-11,15-16,20,23"),
            ("0-0:0/1", 31, ""),
            ("N", 31, "31"),
            ("2-N", 15, "2-15"),
            ("N-N", 31, "31"),
            ("all", 7, "0-7"),
            ("aLL:1/2", 7, "0,2,4,6"),
            (", ,   1 ,  ,,  2,    ,", 7, "1-2"),
            ("2-3,", 7, "2-3"),
            ("0-3\n\0", 15, "0-3"),
            ("0-3\n5", 15, "0-3"),
            ("", 7, ""),
            (",", 7, ""),
        ] {
            assert_eq!(boot(text, last), want, "{text:?}");
        }
        for text in [
            "-1",
            "3-1",
            "0-",
            "0-\n",
            "0-31:",
            "0-7:1",
            "0-7:1/",
            "0-7:2/1",
            "0-7:1/0",
            "3:1/2",
            "alll",
            "0-n",
            "1-2-3",
            "+0-3",
            "0x3c",
            "2..5",
            "^3",
            "a",
            "8",
            "0-8",
            "99999999999",
            "1;2",
            "0-7:1/2x",
        ] {
            assert_eq!(boot(text, 7), "error", "{text:?}");
        }
    }

    #[test]
    fn older_kernels_know_fewer_words() {
        let old = |text, version| CpuSet::parse_boot_list(text, BootGrammar::of_version(version, Some(7))).is_ok();
        assert!(!old("0-7:1/2", (3, 10)) && old("0-7:1/2", (4, 18)));
        assert!(!old("2-N", (5, 10)) && old("2-N", (5, 13)));
        assert!(!old("all", (5, 13)) && old("all", (5, 14)));
        assert!(old("2-5,7", (3, 10)));
    }

    #[test]
    fn a_list_without_a_known_last_cpu_has_no_bound() {
        let set = CpuSet::parse_boot_list("2-200", BootGrammar::newest(None));
        assert_eq!(set.map(|set| set.to_string()), Ok("2-200".to_owned()));
    }

    #[test]
    fn masks_are_groups_of_32_bits_whatever_their_digits() {
        for (text, want) in [
            ("", ""),
            ("\n", ""),
            ("fff\n", "0-11"),
            ("1,0", "32"),
            ("03,00", "32-33"),
            ("f,ffffffff", "0-35"),
            ("00000000,0000ffc3\n", "0-1,6-15"),
            ("ff,,ffffffff", "0-39"),
            ("f8 \n", "3-7"),
            ("DEADBEEF", "0-3,5-7,9-13,15-16,18-19,21,23,25-28,30-31"),
        ] {
            assert_eq!(mask(text), want, "{text:?}");
        }
        for text in ["0x3c", "goodfood,1", "123456789", "-1", "+f", "(null)", "3;c"] {
            assert_eq!(mask(text), "error", "{text:?}");
        }
    }

    #[test]
    fn masks_as_the_kernel_prints_them() {
        let mask = |list: &str, last| CpuSet::parse_list(list).unwrap().to_mask(last);
        assert_eq!(mask("0-15", 15), "ffff");
        assert_eq!(mask("0-5", 5), "3f");
        assert_eq!(mask("0-20,24-28", 31), "1f1fffff");
        assert_eq!(mask("0-1,6-15", 35), "0,0000ffc3");
        assert_eq!(mask("0-35", 35), "f,ffffffff");
        assert_eq!(mask("64", 71), "01,00000000,00000000");
        assert_eq!(mask("", 31), "00000000");
        assert_eq!(mask("40", 3), "100,00000000");
        for list in ["", "0", "31-32", "0-1,63,64,100"] {
            let set = CpuSet::parse_list(list).unwrap();
            assert_eq!(CpuSet::parse_mask(&set.to_mask(127)), Ok(set));
        }
    }

    #[test]
    fn the_set_operators() {
        let set = |text| CpuSet::parse_list(text).unwrap();
        assert_eq!(&set("0-3") | &set("64-65"), set("0-3,64-65"));
        assert_eq!(&set("0-65") & &set("64-70"), set("64-65"));
        assert_eq!(&set("0-65") - &set("1-65"), set("0"));
        assert_eq!(set("0,200").last(), Some(200));
        assert_eq!(set("").last(), None);
        assert_eq!(set("5,7").first(), Some(5));
        assert!(set("").is_subset(&set("")) && set("").is_disjoint(&set("")));
        assert_eq!(set("0-64,100").len(), 66);
    }
}
