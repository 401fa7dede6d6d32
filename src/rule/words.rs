//! Entries of rules in words, for those who have never seen the language.

use super::{Absent, Amount, Assertion, Expr, Verb};
use crate::fact::{Kind, Per};

impl Assertion {
    /// What the entry asks: `every CPU of plan.hot is in cpu.isolated`.
    pub fn in_words(&self) -> String {
        let that = &self.that;
        let is_by_line = matches!(that, Expr::Fact(fact) if fact.ty().per == Some(Per::Line));
        let is_words = that.ty().kind == Kind::Words;
        match &self.verb {
            Verb::Within(right) if is_by_line => format!("every line of {that} keeps to the CPUs of {right}"),
            Verb::Avoids(right) if is_by_line => format!("every line of {that} keeps off the CPUs of {right}"),
            Verb::Within(right) => format!("every CPU of {that} is in {right}"),
            Verb::Avoids(right) => format!("no CPU of {that} is in {right}"),
            Verb::Is(value) => format!("{} is {value}", subject(that)),
            Verb::IsNot(value) => format!("{} is not {value}", subject(that)),
            Verb::OneOf(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                format!("{} is {}", subject(that), values.join(" or "))
            }
            Verb::Includes(word) => format!("{} has {word} in it", subject(that)),
            Verb::Excludes(word) => format!("{} has no {word} in it", subject(that)),
            Verb::AtLeast(amount) if is_words => format!("{that} has {} words or more", shown(amount)),
            Verb::AtMost(amount) if is_words => format!("{that} has {} words or less", shown(amount)),
            Verb::AtLeast(amount) => format!("{} is {} or more", subject(that), shown(amount)),
            Verb::AtMost(amount) => format!("{} is {} or less", subject(that), shown(amount)),
        }
    }

    /// What it makes of a fact that the host does not expose.
    pub fn absent_in_words(&self) -> &'static str {
        match self.absent {
            Absent::Unknown => "it cannot be judged",
            Absent::Fail => "it does not hold",
            Absent::Pass => "it holds",
            Absent::Empty => "the set on the right is empty",
        }
    }
}

fn subject(that: &Expr) -> String {
    match that {
        Expr::At(fact, cpus) => format!("{} of every CPU of {cpus}", fact.name),
        other => other.to_string(),
    }
}

fn shown(amount: &Amount) -> String {
    match amount {
        Amount::Literal(value) => value.to_string(),
        Amount::Operand(operand) => operand.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn words(entry: &str) -> String {
        let text = format!("schema = 1\ntitle = \"t\"\nlevel = \"advised\"\nwhy = \"w\"\n[[assert]]\n{entry}\n");
        let rule = parse("x.toml", "x", &text, None).unwrap_or_else(|problems| panic!("{}", problems.render(false)));
        let [entry] = rule.assert.as_slice() else { panic!("one entry") };
        format!("{}; {}", entry.in_words(), entry.absent_in_words())
    }

    #[test]
    fn every_verb() {
        for (entry, want) in [
            (
                "that = \"plan.hot\"\nwithin = \"cpu.isolated | cpu.offline\"",
                "every CPU of plan.hot is in cpu.isolated | cpu.offline; it cannot be judged",
            ),
            (
                "that = \"irq.affinity\"\navoids = \"plan.hot\"",
                "every line of irq.affinity keeps off the CPUs of plan.hot; it cannot be judged",
            ),
            (
                "that = \"irq.affinity\"\nwithin = \"plan.housekeeping\"",
                "every line of irq.affinity keeps to the CPUs of plan.housekeeping; it cannot be judged",
            ),
            (
                "that = \"cpu.online\"\navoids = \"plan.idle\"\nabsent = \"empty\"",
                "no CPU of cpu.online is in plan.idle; the set on the right is empty",
            ),
            (
                "that = \"cpu.governor[plan.hot]\"\nis = \"performance\"\nabsent = \"fail\"",
                "cpu.governor of every CPU of plan.hot is performance; it does not hold",
            ),
            (
                "that = \"thp.enabled\"\none-of = [\"madvise\", \"never\"]\nabsent = \"pass\"",
                "thp.enabled is madvise or never; it holds",
            ),
            ("that = \"thp.defrag\"\nis-not = \"always\"", "thp.defrag is not always; it cannot be judged"),
            ("that = \"process.names\"\nincludes = \"tuned\"", "process.names has tuned in it; it cannot be judged"),
            ("that = \"process.names\"\nexcludes = \"ksmd\"", "process.names has no ksmd in it; it cannot be judged"),
            ("that = \"process.names\"\nat-most = 400", "process.names has 400 words or less; it cannot be judged"),
            (
                "that = \"limits.memlock\"\nat-least = \"64MiB\"",
                "limits.memlock is 64 MiB or more; it cannot be judged",
            ),
            (
                "that = \"cpuidle.latency[plan.hot]\"\nat-most = \"plan.max_wakeup_latency\"",
                "cpuidle.latency of every CPU of plan.hot is plan.max_wakeup_latency or less; it cannot be judged",
            ),
        ] {
            assert_eq!(words(entry), want);
        }
    }
}
