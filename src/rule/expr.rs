//! Operands: fact names joined by `&`, `|` and `-`, `family[cpus]`, and parentheses; nothing else.

use std::fmt;
use std::ops::Range;

use crate::fact::{self, Fact, Kind, Per, Type};
use crate::problem::did_you_mean;

/// A set operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// `&`: in both.
    And,
    /// `|`: in either.
    Or,
    /// `-`: in the left one and not in the right one.
    Minus,
}

/// The operators, the weakest first.
const BY_STRENGTH: &[SetOp] = &[SetOp::Or, SetOp::And, SetOp::Minus];

impl SetOp {
    fn symbol(self) -> char {
        match self {
            SetOp::And => '&',
            SetOp::Or => '|',
            SetOp::Minus => '-',
        }
    }
}

/// An operand, its names looked up and its types checked.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A fact.
    Fact(&'static Fact),
    /// A family by CPU at some CPUs.
    At(&'static Fact, Box<Expr>),
    /// Two sets joined.
    Join(SetOp, Box<Expr>, Box<Expr>),
}

impl Expr {
    /// Its type.
    pub fn ty(&self) -> Type {
        match self {
            Expr::Fact(fact) | Expr::At(fact, _) => fact.ty(),
            Expr::Join(..) => Type { kind: Kind::Cpus, per: None },
        }
    }

    /// Adds the facts that it names.
    pub fn facts(&self, into: &mut Vec<&'static Fact>) {
        match self {
            Expr::Fact(fact) => into.push(fact),
            Expr::At(fact, cpus) => {
                into.push(fact);
                cpus.facts(into);
            }
            Expr::Join(_, left, right) => {
                left.facts(into);
                right.facts(into);
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, expr: &Expr, op: SetOp, is_right: bool| match expr {
            Expr::Join(inner, ..) if is_right || *inner != op => write!(f, "({expr})"),
            _ => write!(f, "{expr}"),
        };
        match self {
            Expr::Fact(fact) => f.write_str(fact.name),
            Expr::At(fact, cpus) => write!(f, "{}[{cpus}]", fact.name),
            Expr::Join(op, left, right) => {
                part(f, left, *op, false)?;
                write!(f, " {} ", op.symbol())?;
                part(f, right, *op, true)
            }
        }
    }
}

/// What is wrong with an operand, at bytes of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExprError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) label: &'static str,
    pub(super) help: String,
}

const GRAMMAR: &str = "an operand is fact names joined by & | -, `family[cpus]`, and parentheses";

/// How deep parentheses may nest: deeper ones are no rule that a person wrote.
const MAX_DEPTH: usize = 32;

/// Parses and checks an operand.
///
/// # Errors
/// All unknown names at once; otherwise the first thing that is no operand or has the wrong type.
pub(super) fn parse(text: &str) -> Result<Expr, Vec<ExprError>> {
    let tokens = tokens(text)?;
    let unknown: Vec<ExprError> = tokens.iter().filter_map(|token| token.unknown_fact(text)).collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let mut parser = Parser { text, tokens: &tokens, next: 0 };
    parser.whole().map_err(|error| vec![error])
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Lexeme {
    Name,
    Op(SetOp),
    Open,
    Close,
    OpenIndex,
    CloseIndex,
}

#[derive(Clone, Debug)]
struct Token {
    lexeme: Lexeme,
    at: Range<usize>,
}

impl Token {
    fn unknown_fact(&self, text: &str) -> Option<ExprError> {
        let name = text.get(self.at.clone()).filter(|_| self.lexeme == Lexeme::Name)?;
        if fact::find(name).is_some() {
            return None;
        }
        if name.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!("`{name}` is a CPU number, not a fact");
            let help = "an operand names facts: CPUs are for plans to name".to_owned();
            return Some(ExprError { at: self.at.clone(), message, label: "no fact", help });
        }
        let help = match did_you_mean(name, fact::facts().map(|fact| fact.name)) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "list the facts with `quietcore rules facts`".to_owned(),
        };
        Some(ExprError { at: self.at.clone(), message: format!("unknown fact `{name}`"), label: "no such fact", help })
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Vec<ExprError>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let mut end = start + c.len_utf8();
        let lexeme = match c {
            c if c.is_ascii_whitespace() => continue,
            '&' => Lexeme::Op(SetOp::And),
            '|' => Lexeme::Op(SetOp::Or),
            '-' => Lexeme::Op(SetOp::Minus),
            '(' => Lexeme::Open,
            ')' => Lexeme::Close,
            '[' => Lexeme::OpenIndex,
            ']' => Lexeme::CloseIndex,
            c if is_of_name(c) => {
                while let Some((at, c)) = rest.next_if(|(_, c)| is_of_name(*c)) {
                    end = at + c.len_utf8();
                }
                Lexeme::Name
            }
            c => {
                let message = format!("`{c}` is no part of an operand");
                let error = ExprError { at: start..end, message, label: "here", help: GRAMMAR.to_owned() };
                return Err(vec![error]);
            }
        };
        tokens.push(Token { lexeme, at: start..end });
    }
    Ok(tokens)
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    next: usize,
}

impl Parser<'_> {
    fn whole(&mut self) -> Result<Expr, ExprError> {
        let expr = self.sets(0)?;
        match self.tokens.get(self.next) {
            None => Ok(expr),
            Some(token) => Err(self.unexpected(token.at.clone())),
        }
    }

    fn unexpected(&self, at: Range<usize>) -> ExprError {
        let found = self.text.get(at.clone()).unwrap_or_default();
        let message =
            if found.is_empty() { "the operand ends here".to_owned() } else { format!("`{found}` is out of place") };
        ExprError { at, message, label: "a fact name or operator is missing", help: GRAMMAR.to_owned() }
    }

    fn take(&mut self, lexeme: &Lexeme) -> Result<Range<usize>, ExprError> {
        match self.tokens.get(self.next) {
            Some(token) if token.lexeme == *lexeme => {
                self.next += 1;
                Ok(token.at.clone())
            }
            Some(token) => Err(self.unexpected(token.at.clone())),
            None => Err(self.unexpected(self.text.len()..self.text.len())),
        }
    }

    /// Terms joined by operators: `-` binds closest, then `&`, then `|`, each from the left, as in Rust and Python.
    fn sets(&mut self, depth: usize) -> Result<Expr, ExprError> {
        self.joined(depth, BY_STRENGTH).map(|(expr, _)| expr)
    }

    /// What the operators from the weakest of these on join, and the bytes that it was read from.
    fn joined(&mut self, depth: usize, ops: &[SetOp]) -> Result<(Expr, Range<usize>), ExprError> {
        let Some((&op, stronger)) = ops.split_first() else { return self.term_at(depth) };
        let (mut left, mut left_at) = self.joined(depth, stronger)?;
        while self.tokens.get(self.next).is_some_and(|token| token.lexeme == Lexeme::Op(op)) {
            self.next += 1;
            expect_set(&left, left_at.clone())?;
            let (right, right_at) = self.joined(depth, stronger)?;
            expect_set(&right, right_at.clone())?;
            left = Expr::Join(op, Box::new(left), Box::new(right));
            left_at.end = right_at.end;
        }
        Ok((left, left_at))
    }

    /// A term and the bytes that it was read from.
    fn term_at(&mut self, depth: usize) -> Result<(Expr, Range<usize>), ExprError> {
        let start = self.start();
        let expr = self.term(depth)?;
        let end = self.tokens.get(self.next.saturating_sub(1)).map_or(start, |token| token.at.end);
        Ok((expr, start..end))
    }

    fn start(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.at.start)
    }

    fn term(&mut self, depth: usize) -> Result<Expr, ExprError> {
        if depth > MAX_DEPTH {
            let at = self.start()..self.text.len();
            let message = "parentheses too deep".to_owned();
            return Err(ExprError { at, message, label: "here", help: "write it flat".to_owned() });
        }
        if self.tokens.get(self.next).is_some_and(|token| token.lexeme == Lexeme::Open) {
            self.next += 1;
            let inner = self.sets(depth + 1)?;
            self.take(&Lexeme::Close)?;
            return Ok(inner);
        }
        let at = self.take(&Lexeme::Name)?;
        let name = self.text.get(at.clone()).unwrap_or_default();
        // Unknown names were reported before the parser began.
        let fact = fact::find(name).ok_or_else(|| self.unexpected(at.clone()))?;
        let is_indexed = self.tokens.get(self.next).is_some_and(|token| token.lexeme == Lexeme::OpenIndex);
        match (fact.ty().per, is_indexed) {
            (Some(Per::Cpu), true) => {
                self.next += 1;
                let start = self.start();
                let cpus = self.sets(depth + 1)?;
                expect_set(&cpus, start..self.start())?;
                self.take(&Lexeme::CloseIndex)?;
                Ok(Expr::At(fact, Box::new(cpus)))
            }
            (Some(Per::Cpu), false) => {
                let message = format!("`{name}` has a value per CPU");
                let help = format!("say which CPUs: `{name}[plan.hot]`");
                Err(ExprError { at, message, label: "of which CPUs?", help })
            }
            (_, true) => {
                let message = format!("`{name}` is {} and takes no [ ]", fact.ty().with_article());
                Err(ExprError { at, message, label: "has no value per CPU", help: GRAMMAR.to_owned() })
            }
            (_, false) => Ok(Expr::Fact(fact)),
        }
    }
}

fn expect_set(expr: &Expr, at: Range<usize>) -> Result<(), ExprError> {
    let ty = expr.ty();
    if ty == (Type { kind: Kind::Cpus, per: None }) {
        return Ok(());
    }
    let message = format!("`{expr}` is {}, not a CPU set", ty.with_article());
    let help = "& | - join CPU sets, and what stands in [ ] is one".to_owned();
    Err(ExprError { at, message, label: "has another type", help })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(expr) => expr.to_string(),
            Err(errors) => errors.iter().map(|e| format!("{:?} {}", e.at, e.message)).collect::<Vec<_>>().join("; "),
        }
    }

    #[test]
    fn operands_print_as_they_are_meant() {
        for text in [
            "plan.hot",
            "cpu.nohz_full | cmdline.rcu_nocbs",
            "plan.hot - plan.idle - cpu.offline",
            "plan.hot - (plan.idle - cpu.offline)",
            "(plan.hot | plan.idle) & cpu.online",
            "cpu.governor[plan.hot]",
            "cpu.governor[plan.hot - cpu.offline]",
            "irq.affinity",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("((plan.hot))|plan.idle"), "plan.hot | plan.idle");
        // Parentheses show what binds first.
        assert_eq!(shown("plan.hot | plan.idle & cpu.online"), "plan.hot | (plan.idle & cpu.online)");
        assert_eq!(shown("plan.hot & cpu.online - plan.idle"), "plan.hot & (cpu.online - plan.idle)");
        assert_eq!(shown("plan.hot - plan.idle | cpu.online"), "(plan.hot - plan.idle) | cpu.online");
    }

    #[test]
    fn what_is_no_operand_is_refused_with_its_place() {
        assert_eq!(
            shown("plan.hot & cpu.isolate | cpu.onlin"),
            "11..22 unknown fact `cpu.isolate`; 25..34 unknown fact `cpu.onlin`"
        );
        assert_eq!(shown(""), "0..0 the operand ends here");
        assert_eq!(shown("plan.hot |"), "10..10 the operand ends here");
        assert_eq!(shown("plan.hot plan.idle"), "9..18 `plan.idle` is out of place");
        assert_eq!(shown("(plan.hot"), "9..9 the operand ends here");
        assert_eq!(shown("plan.hot)"), "8..9 `)` is out of place");
        assert_eq!(shown("plan.hot + 1"), "9..10 `+` is no part of an operand");
        assert_eq!(shown("cpu.governor"), "0..12 `cpu.governor` has a value per CPU");
        assert_eq!(shown("plan.hot[cpu.online]"), "0..8 `plan.hot` is a CPU set and takes no [ ]");
        assert_eq!(shown("plan.hot | thp.enabled"), "11..22 `thp.enabled` is a word, not a CPU set");
        assert_eq!(shown("cpu.governor[thp.enabled]"), "13..24 `thp.enabled` is a word, not a CPU set");
        assert_eq!(
            shown("irq.affinity & plan.hot"),
            "0..12 `irq.affinity` is a CPU set per interrupt line, not a CPU set"
        );
        assert!(shown(&format!("{}plan.hot{}", "(".repeat(99), ")".repeat(99))).ends_with("parentheses too deep"));
    }
}
