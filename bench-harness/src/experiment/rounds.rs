//! How much is measured, and who takes turns with whom.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value};

use super::{Interrupted, Lab, Raw, Row, Skip, Step, go_on};
use crate::caveat::Caveat;
use crate::clock::{Clock, in_ns};
use crate::samples::Samples;
use crate::summary::Summary;

/// The most samples that an arm keeps when its length is a time: 8 bytes each.
const MOST_SAMPLES: u64 = 8_000_000;

/// Nothing that is sampled is quicker than this, so that a short time needs no large store.
const QUICKEST_SAMPLE: Duration = Duration::from_nanos(100);

/// How much the user wants measured, as far as the command line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Samples of a row of the result.
    pub n: Option<u64>,
    /// Time of a row of the result, instead.
    pub time: Option<Duration>,
    /// What is discarded before each round.
    pub warmup: Option<u64>,
    /// Turns of each arm.
    pub rounds: Option<u32>,
    /// Few samples: a smoke test.
    pub quick: bool,
}

/// How much is measured: each arm takes `rounds` turns, and each turn is a [`Trial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Turns of each arm.
    pub rounds: u32,
    /// Discarded before each turn.
    pub warmup: u64,
    /// Samples of a turn, or the most of them where `time` is given.
    pub n: u64,
    /// How long a turn lasts, where the user wants a time.
    pub time: Option<Duration>,
}

impl Effort {
    /// A schedule whose `n` samples, or whose time, are those of each turn.
    pub fn each(&self, real: Schedule, quick: Schedule) -> Schedule {
        let default = if self.quick { quick } else { real };
        let rounds = self.rounds.unwrap_or(default.rounds).max(1);
        let most = self.time.map(|time| {
            let fit = time.as_nanos() / QUICKEST_SAMPLE.as_nanos();
            u64::try_from(fit).unwrap_or(u64::MAX).clamp(1, MOST_SAMPLES / u64::from(rounds).min(MOST_SAMPLES))
        });
        Schedule {
            rounds,
            warmup: self.warmup.unwrap_or(default.warmup),
            n: self.n.or(most).unwrap_or(default.n).max(1),
            time: self.time.or(if self.n.is_some() { None } else { default.time }),
        }
    }

    /// A schedule whose `n` samples, or whose time, are shared out among the turns of an arm.
    pub fn shared(&self, real: Schedule, quick: Schedule) -> Schedule {
        let whole = self.each(real, quick);
        Schedule {
            n: whole.n.div_ceil(u64::from(whole.rounds)),
            time: whole.time.map(|time| time / whole.rounds),
            ..whole
        }
    }
}

/// Something that takes turns with others.
pub trait Arm {
    /// Its name in the result.
    fn name(&self) -> &str;

    /// Takes a turn. A [`Skip`] ends this arm and no other.
    fn turn(&mut self) -> anyhow::Result<()>;
}

/// Lets every arm take `rounds` turns, in each round every arm once in the order given. Returns why an arm was skipped, an
/// entry an arm; such an arm takes no further turn.
pub fn interleave(arms: &mut [&mut dyn Arm], rounds: u32, lab: &Lab<'_>) -> anyhow::Result<Vec<Option<String>>> {
    let mut skipped = vec![None; arms.len()];
    let turns = u32::try_from(arms.len()).context("more arms than can be counted")?;
    let mut done = 0;
    for round in 1..=rounds {
        for (arm, skipped) in arms.iter_mut().zip(&mut skipped) {
            if skipped.is_none() {
                lab.go_on()?;
                let name = format!("{}, round {round}", arm.name());
                (lab.progress)(Step { name: &name, done, of: turns * rounds });
                let turn = arm.turn();
                // Whatever a turn says that was cut short, the reason is the user.
                lab.go_on()?;
                match turn {
                    Ok(()) => {}
                    Err(error) => match error.downcast::<Skip>() {
                        Ok(Skip(why)) => *skipped = Some(why),
                        Err(error) => return Err(error.context(name)),
                    },
                }
            }
            done += 1;
        }
    }
    Ok(skipped)
}

/// One turn of an arm that gives samples.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Discarded first.
    pub warmup: u64,
    /// Sampled, at most.
    pub n: u64,
    /// When to end, if that is sooner.
    pub time: Option<Duration>,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
}

impl Trial<'_> {
    /// Calls `once` with 0, 1, 2, … and records what it returns, nanoseconds, after the warm-up. The time begins with
    /// what is recorded.
    #[inline]
    pub fn run<E: From<Interrupted>>(
        &self,
        clock: &impl Clock,
        samples: &mut Samples,
        mut once: impl FnMut(u64) -> Result<u64, E>,
    ) -> Result<(), E> {
        self.run_with_losses(clock, samples, |i| once(i).map(Some)).map(drop)
    }

    /// The same for what may come to nothing: that is no sample, and counts as one of the trial's. Returns how often it was
    /// so after the warm-up.
    #[inline]
    pub fn run_with_losses<E: From<Interrupted>>(
        &self,
        clock: &impl Clock,
        samples: &mut Samples,
        mut once: impl FnMut(u64) -> Result<Option<u64>, E>,
    ) -> Result<u64, E> {
        for i in 0..self.warmup {
            self.go_on()?;
            once(i)?;
        }
        let limit = self.time.map(in_ns);
        let begin = clock.now_ns();
        let mut lost = 0;
        for i in 0..self.n {
            self.go_on()?;
            match once(self.warmup + i)? {
                Some(ns) => samples.record(ns),
                None => lost += 1,
            }
            if limit.is_some_and(|limit| clock.now_ns().saturating_sub(begin) >= limit) {
                break;
            }
        }
        Ok(lost)
    }

    /// An error when the user wants it to end.
    #[inline]
    pub fn go_on(&self) -> Result<(), Interrupted> {
        go_on(self.stop)
    }
}

/// An arm that gives samples, in nanoseconds.
pub trait Sampler {
    /// Its name in the result.
    fn name(&self) -> &str;

    /// Runs one trial and returns what else was counted: numbers add up over the trials, of anything else the last one
    /// stays.
    fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>>;
}

/// What a sampler gave.
#[derive(Debug)]
pub struct Taken {
    name: String,
    skipped: Option<String>,
    trials: Vec<(Samples, Map<String, Value>)>,
}

struct Turns<'a, 'b> {
    sampler: &'a mut dyn Sampler,
    trial: Trial<'b>,
    stores: Vec<Samples>,
    trials: Vec<(Samples, Map<String, Value>)>,
}

impl Arm for Turns<'_, '_> {
    fn name(&self) -> &str {
        self.sampler.name()
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let mut samples = self.stores.pop().context("more turns than rounds")?;
        let figures = self.sampler.trial(&self.trial, &mut samples)?;
        self.trials.push((samples, figures));
        Ok(())
    }
}

/// Lets samplers take turns by `schedule`. All memory is taken before the first turn.
pub fn sample(samplers: &mut [&mut dyn Sampler], schedule: Schedule, lab: &Lab<'_>) -> anyhow::Result<Vec<Taken>> {
    let capacity = usize::try_from(schedule.n).context("more samples than memory")?;
    let trial = Trial { warmup: schedule.warmup, n: schedule.n, time: schedule.time, stop: lab.stop };
    let store = || Samples::with_capacity(capacity).context("no memory for the samples");
    let mut turns = samplers
        .iter_mut()
        .map(|sampler| {
            let stores = (0..schedule.rounds).map(|_| store()).collect::<anyhow::Result<_>>()?;
            Ok(Turns { sampler: *sampler, trial, stores, trials: Vec::new() })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut arms: Vec<&mut dyn Arm> = turns.iter_mut().map(|turns| turns as &mut dyn Arm).collect();
    let skipped = interleave(&mut arms, schedule.rounds, lab)?;
    let taken = turns.into_iter().zip(skipped);
    Ok(taken.map(|(t, skipped)| Taken { name: t.sampler.name().to_owned(), skipped, trials: t.trials }).collect())
}

/// Trials as they lie in the result when each is a row: `ARM-TRIAL`, in the order in which they ran.
pub fn rows_of_trials(taken: Vec<Taken>) -> Vec<Row> {
    let mut rows = Vec::new();
    for arm in taken {
        if let Some(why) = arm.skipped {
            rows.push((0, Row::skipped(arm.name, why)));
            continue;
        }
        for (trial, (samples, figures)) in (1..).zip(arm.trials) {
            let name = format!("{}-{trial}", arm.name);
            let summary = Summary::of(samples.as_slice());
            let raw = Raw::Samples(vec![samples]);
            let row = Row { name, trial: Some(trial), unit: Some("ns"), summary, figures, raw, ..Row::default() };
            rows.push((trial, row));
        }
    }
    rows.sort_by_key(|&(trial, _)| trial);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// All trials of an arm in one row, with the median of each round beside those of all: how far they lie apart is how far
/// the figures can be trusted.
pub fn row_of_arm(taken: Taken) -> Row {
    if let Some(why) = taken.skipped {
        return Row::skipped(taken.name, why);
    }
    let mut figures = Map::new();
    let mut stores = Vec::new();
    let mut medians = Vec::new();
    for (store, counted) in taken.trials {
        medians.extend(Summary::of(store.as_slice()).map(|summary| Value::from(summary.p50)));
        for (name, value) in counted {
            let sum = figures.get(&name).and_then(Value::as_u64).zip(value.as_u64()).map(|(a, b)| Value::from(a + b));
            figures.insert(name, sum.unwrap_or(value));
        }
        stores.push(store);
    }
    figures.insert("p50_by_round".to_owned(), medians.into());
    let raw = Raw::Samples(stores);
    match Summary::of(&raw.durations()) {
        None => Row::skipped(taken.name, "no sample arrived"),
        summary => Row { name: taken.name, unit: Some("ns"), summary, figures, raw, ..Row::default() },
    }
}

/// [`sample`], with all trials of an arm in one row; and what is to be said of a store that a time did not fit into.
pub fn sample_arms(
    samplers: &mut [&mut dyn Sampler],
    schedule: Schedule,
    lab: &Lab<'_>,
) -> anyhow::Result<(Vec<Row>, Vec<Caveat>)> {
    let rows: Vec<Row> = sample(samplers, schedule, lab)?.into_iter().map(row_of_arm).collect();
    let is_full = |row: &&Row| match &row.raw {
        Raw::Samples(rounds) => rounds.iter().any(|samples| samples.as_slice().len() as u64 == schedule.n),
        Raw::Gaps(_) => false,
    };
    let full: Vec<String> = match schedule.time {
        Some(_) => rows.iter().filter(is_full).map(|row| row.name.clone()).collect(),
        None => Vec::new(),
    };
    let caveats = if full.is_empty() { Vec::new() } else { vec![Caveat::StoreFull { arms: full, n: schedule.n }] };
    Ok((rows, caveats))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::Ordering;

    use super::*;

    /// A sampler that notes its turns and gives one sample a trip, `base` and upwards.
    struct Note<'a> {
        name: &'static str,
        base: u64,
        turns: &'a RefCell<Vec<&'static str>>,
        end: Option<(usize, End)>,
    }

    /// How a turn ends that does not succeed.
    type End = fn(&AtomicBool) -> anyhow::Error;

    impl Sampler for Note<'_> {
        fn name(&self) -> &str {
            self.name
        }

        fn trial(&mut self, trial: &Trial<'_>, samples: &mut Samples) -> anyhow::Result<Map<String, Value>> {
            self.turns.borrow_mut().push(self.name);
            if let Some((turns, end)) = self.end
                && self.turns.borrow().len() >= turns
            {
                return Err(end(trial.stop));
            }
            (0..trial.n).for_each(|i| samples.record(self.base + i));
            self.base += 100;
            Ok(Map::from_iter([
                ("base".to_owned(), self.base.into()),
                ("mode".to_owned(), self.base.to_string().into()),
            ]))
        }
    }

    fn note<'a>(name: &'static str, base: u64, turns: &'a RefCell<Vec<&'static str>>) -> Note<'a> {
        Note { name, base, turns, end: None }
    }

    const SCHEDULE: Schedule = Schedule { rounds: 2, warmup: 0, n: 3, time: None };

    /// Runs `with` in a lab that notes what it announces.
    fn in_lab<T>(with: impl FnOnce(&Lab<'_>) -> T) -> (T, Vec<(String, u32, u32)>) {
        let announced = RefCell::new(Vec::new());
        let stop = AtomicBool::new(false);
        let progress = |step: Step<'_>| announced.borrow_mut().push((step.name.to_owned(), step.done, step.of));
        let lab =
            Lab { cpus: vec![0], effort: Effort::default(), locked_memory: None, stop: &stop, progress: &progress };
        let result = with(&lab);
        (result, announced.into_inner())
    }

    #[test]
    fn arms_take_turns() {
        let turns = RefCell::new(Vec::new());
        let (mut a, mut b) = (note("a", 10, &turns), note("b", 20, &turns));
        let (taken, announced) = in_lab(|lab| sample(&mut [&mut a, &mut b], SCHEDULE, lab).unwrap());
        assert_eq!(*turns.borrow(), ["a", "b", "a", "b"]);
        assert_eq!(announced[3], ("b, round 2".to_owned(), 3, 4));
        let rows = rows_of_trials(taken);
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a-1", "b-1", "a-2", "b-2"]);
        assert_eq!(rows[1].summary.as_ref().unwrap().p50, 21);
        assert_eq!(rows[1].figures["base"], 120);
    }

    #[test]
    fn an_arm_has_one_row_with_all_its_rounds() {
        let turns = RefCell::new(Vec::new());
        let mut a = note("a", 10, &turns);
        let ((rows, caveats), _) = in_lab(|lab| sample_arms(&mut [&mut a], SCHEDULE, lab).unwrap());
        assert_eq!(rows[0].raw.durations(), [10, 11, 12, 110, 111, 112]);
        let summary = rows[0].summary.as_ref().unwrap();
        assert_eq!((summary.n, summary.p50, summary.max), (6, 12, 112));
        assert_eq!(rows[0].figures["p50_by_round"], serde_json::json!([11, 111]));
        assert_eq!(rows[0].figures["base"], 110 + 210);
        assert_eq!(rows[0].figures["mode"], "210");
        assert!(caveats.is_empty());
    }

    #[test]
    fn what_the_host_cannot_do_ends_one_arm_and_leaves_no_number() {
        let turns = RefCell::new(Vec::new());
        let mut a = Note { end: Some((3, |_| Skip("no such device".to_owned()).into())), ..note("a", 10, &turns) };
        let mut b = note("b", 20, &turns);
        let schedule = Schedule { rounds: 3, ..SCHEDULE };
        let ((rows, _), _) = in_lab(|lab| sample_arms(&mut [&mut a, &mut b], schedule, lab).unwrap());
        assert_eq!(*turns.borrow(), ["a", "b", "a", "b", "b"]);
        assert_eq!(serde_json::to_string(&rows[0]).unwrap(), r#"{"name":"a","skipped":"no such device"}"#);
        assert_eq!(rows[1].summary.as_ref().unwrap().n, 9);
    }

    #[test]
    fn a_stop_ends_the_turns_and_is_the_reason() {
        let turns = RefCell::new(Vec::new());
        let cut = |stop: &AtomicBool| {
            stop.store(true, Ordering::Relaxed);
            anyhow::anyhow!("cut short")
        };
        let mut a = Note { end: Some((2, cut)), ..note("a", 10, &turns) };
        let (error, _) = in_lab(|lab| sample(&mut [&mut a], Schedule { rounds: 5, ..SCHEDULE }, lab).unwrap_err());
        assert!(error.is::<Interrupted>());
        assert_eq!(turns.borrow().len(), 2);
    }

    #[test]
    fn an_error_names_the_turn() {
        let turns = RefCell::new(Vec::new());
        let mut a = Note { end: Some((2, |_| anyhow::anyhow!("broken"))), ..note("a", 10, &turns) };
        let (error, _) = in_lab(|lab| sample(&mut [&mut a], SCHEDULE, lab).unwrap_err());
        assert_eq!(format!("{error:#}"), "a, round 2: broken");
    }

    #[test]
    fn an_arm_without_a_sample_is_no_result() {
        let taken = Taken { name: "a".to_owned(), skipped: None, trials: vec![(Samples::default(), Map::new())] };
        assert_eq!(row_of_arm(taken).skipped.as_deref(), Some("no sample arrived"));
    }

    struct Hand(Cell<u64>);

    impl Clock for Hand {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }
    }

    fn trial(warmup: u64, n: u64, time: Option<Duration>, stop: &AtomicBool) -> (Vec<u64>, Result<(), Interrupted>) {
        let clock = Hand(Cell::new(0));
        let mut samples = Samples::with_capacity(8).unwrap();
        let result = Trial { warmup, n, time, stop }.run(&clock, &mut samples, |i| {
            clock.0.set(clock.0.get() + 10);
            if i == 20 {
                stop.store(true, Ordering::Relaxed);
            }
            Ok(i)
        });
        (samples.as_slice().to_vec(), result)
    }

    #[test]
    fn a_trial_discards_its_warm_up_and_ends_by_count_time_or_the_user() {
        let stop = AtomicBool::new(false);
        assert_eq!(trial(2, 3, None, &stop), (vec![2, 3, 4], Ok(())));
        // 10 ns each, and the warm-up takes none of the time.
        assert_eq!(trial(5, 100, Some(Duration::from_nanos(30)), &stop), (vec![5, 6, 7], Ok(())));
        let (samples, result) = trial(18, 100, None, &stop);
        assert_eq!((samples, result), (vec![18, 19, 20], Err(Interrupted)));
    }

    #[test]
    fn schedules() {
        let real = Schedule { rounds: 5, warmup: 50, n: 2000, time: None };
        let quick = Schedule { rounds: 2, warmup: 5, n: 200, time: None };
        let none = Effort::default();
        assert_eq!(none.each(real, quick), real);
        assert_eq!(none.shared(real, quick), Schedule { n: 400, ..real });
        assert_eq!(Effort { quick: true, ..none }.shared(real, quick), Schedule { n: 100, ..quick });
        let asked = Effort { n: Some(1), rounds: Some(3), warmup: Some(0), ..none };
        assert_eq!(asked.shared(real, quick), Schedule { rounds: 3, warmup: 0, n: 1, time: None });
        let timed = Effort { time: Some(Duration::from_secs(2)), ..none }.shared(real, quick);
        assert_eq!(timed.time, Some(Duration::from_millis(400)));
        assert_eq!(timed.n, 1_600_000 / 5);
        let long = Effort { time: Some(Duration::from_secs(7200)), ..none }.each(real, quick);
        assert_eq!(long.n, MOST_SAMPLES / 5);
    }
}
