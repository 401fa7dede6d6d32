//! What the host does to a thread that wants to run alone: when it did not run, for how long, and what that costs a message.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, FromArgMatches, ValueEnum};
use serde_json::{Map, Value, json};

use super::rounds::{Arm, Effort, Schedule, interleave};
use super::{Claim, Experiment, Findings, Lab, Measurement, Raw, Roles, Row};
use crate::caveat::Caveat;
use crate::clock::in_ns;
use crate::counter::{self, Counter, Cpu, Source, Ticks, precise};
use crate::cpus::{self, CpuList};
use crate::gaps::{Gap, Gaps, Meter, Seen};
use crate::load::{Kind, Load};
use crate::picture::{Axis, Picture, Scale, Series, Shape, Unit};
use crate::summary::Summary;
use crate::table::Table;
use crate::text::{self, strerror};
use crate::threads::{join, pin};
use crate::wait::Wait;
use crate::witness;

/// The row of the table.
pub const MEASUREMENT: Measurement = Measurement {
    name: "hiccups",
    about: "Say when a pinned thread did not run, and what that costs a message",
    options: |command| Options::augment_args(command),
    build: |matches| Ok(Box::new(Options::from_arg_matches(matches)?)),
};

/// How long each scenario is observed, all rounds together.
const REAL: Duration = Duration::from_secs(10);
const QUICK: Duration = Duration::from_millis(600);

/// Turns of each scenario, where there are several.
const ROUNDS: u32 = 3;

/// Observed first and forgotten: the first passes fetch code and data, and a clock may still be rising.
const WARMUP: Duration = Duration::from_millis(20);

/// How long a meter goes on without a look at the stop flag.
const UNWATCHED: Duration = Duration::from_millis(10);

/// Gaps that are kept each by itself, over all meters, and at least for one: 16 bytes each.
const KEPT: usize = 1 << 22;
const KEPT_AT_LEAST: usize = 1 << 12;
const KEPT_AT_MOST: usize = 1 << 20;

/// Lengths at which gaps are counted and waits are asked for, in ns: 1, 2, 5 and so on from 200 ns to 50 ms.
const GRID: [u64; 17] = [
    200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
    10_000_000, 20_000_000, 50_000_000,
];

#[derive(Clone, Debug, Args)]
struct Options {
    /// Where the thread runs: alone (pinned), free (not pinned), shared (beside
    /// a spinner on the same CPU), or all of them in turns
    #[arg(long, value_enum, default_value = "alone", hide_possible_values = true)]
    scenario: Ask,

    /// Call it a gap from this length on; a bare number is ns
    #[arg(long, value_name = "TIME", default_value = "200ns", value_parser = text::time)]
    threshold: Duration,

    /// How long each scenario is observed: --duration in seconds
    /// [default: 10, quick: 0.6]
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "duration")]
    seconds: Option<Duration>,

    /// Exit with 1 when a gap was longer than this
    #[arg(long, value_name = "TIME", value_parser = text::time)]
    fail_above: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or("no such time".to_owned())
}

/// What the user can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ask {
    /// Pinned to its CPU, with whatever else the host runs there
    Alone,
    /// Not pinned
    Free,
    /// Pinned, beside a thread that spins on the same CPU
    Shared,
    /// Each of them, taking turns
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Alone,
    Free,
    Shared,
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Scenario::Alone => "alone",
            Scenario::Free => "free",
            Scenario::Shared => "shared",
        }
    }
}

impl Options {
    fn scenarios(&self) -> &'static [Scenario] {
        match self.scenario {
            Ask::Alone => &[Scenario::Alone],
            Ask::Free => &[Scenario::Free],
            Ask::Shared => &[Scenario::Shared],
            Ask::All => &[Scenario::Alone, Scenario::Free, Scenario::Shared],
        }
    }

    fn schedule(&self, effort: &Effort) -> Schedule {
        let rounds = if self.scenarios().len() > 1 { ROUNDS } else { 1 };
        let default = |time| Schedule { rounds, warmup: 0, n: 1, time: Some(time) };
        let time = effort.time.or(self.seconds);
        Effort { n: None, time, ..*effort }.shared(default(REAL), default(QUICK))
    }
}

impl Experiment for Options {
    fn roles(&self) -> Roles {
        Roles::Any("meter")
    }

    fn run(&self, lab: &Lab<'_>) -> anyhow::Result<Findings> {
        let counter = Counter::choose();
        let schedule = self.schedule(&lab.effort);
        let span = schedule.time.context("no time to observe for")?;
        let allowed = witness::allowed_cpus(std::process::id())?;
        // A gap that must not be has to be seen.
        let threshold_ns = in_ns(self.fail_above.map_or(self.threshold, |limit| limit.min(self.threshold)));
        let kept = (KEPT / lab.cpus.len().max(1)).clamp(KEPT_AT_LEAST, KEPT_AT_MOST);
        let mut runs = self
            .scenarios()
            .iter()
            .map(|&scenario| {
                let meters = lab
                    .cpus
                    .iter()
                    .map(|&cpu| {
                        let gaps = Gaps::with_capacity(kept)?;
                        Ok(Place { cpu, gaps, seen: Seen::default(), rounds: Vec::new() })
                    })
                    .collect::<anyhow::Result<_>>()?;
                Ok(Run { scenario, meters, counter, threshold_ns, span, allowed: &allowed, stop: lab.stop })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut arms: Vec<&mut dyn Arm> = runs.iter_mut().map(|run| run as &mut dyn Arm).collect();
        let skipped = interleave(&mut arms, schedule.rounds, lab)?;
        Ok(self.findings(&runs, &skipped, counter))
    }
}

/// A scenario with its meters.
struct Run<'a> {
    scenario: Scenario,
    meters: Vec<Place>,
    counter: Counter,
    threshold_ns: u64,
    span: Duration,
    allowed: &'a CpuList,
    stop: &'a AtomicBool,
}

/// A meter's CPU and what it saw there, over all rounds.
struct Place {
    cpu: u32,
    gaps: Gaps,
    seen: Seen,
    rounds: Vec<Round>,
}

/// A round of a meter.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// How many gaps had been kept when it began.
    kept: usize,
    /// Ticks in which gaps could be seen.
    observed: u64,
}

impl Place {
    /// What takes from the meter's CPU all that it can get.
    fn rival(&self) -> anyhow::Result<Load> {
        Load::start(Kind::Spin, 1, &CpuList::from_iter([self.cpu]))
    }

    /// The gaps that were kept, round by round.
    fn kept(&self) -> impl Iterator<Item = (&Round, &[Gap])> {
        let kept = self.gaps.kept();
        let ends = self.rounds.iter().skip(1).map(|round| round.kept).chain([kept.len()]);
        self.rounds.iter().zip(ends).filter_map(|(round, end)| Some((round, kept.get(round.kept..end)?)))
    }

    fn raw(&self, counter: Counter) -> Raw {
        let in_ns = |gap: &Gap| (counter.ns(gap.at), counter.ns(gap.length));
        Raw::Gaps(self.kept().map(|(_, gaps)| gaps.iter().map(in_ns).collect()).collect())
    }

    /// The share of time lost in each round; nothing where gaps were not kept.
    fn lost_by_round(&self) -> Option<Vec<f64>> {
        let lost = |gaps: &[Gap]| precise(gaps.iter().map(|gap| gap.length).sum());
        let rounds = self.kept().map(|(round, gaps)| rounded(lost(gaps) / precise(round.observed.max(1))));
        (self.gaps.binned() == 0).then(|| rounds.collect())
    }
}

impl Arm for Run<'_> {
    fn name(&self) -> &str {
        self.scenario.name()
    }

    /// Every meter runs in a thread of its own, and this one sleeps until they are done: it wakes up for nothing, since
    /// the meters look at the stop flag themselves.
    fn turn(&mut self) -> anyhow::Result<()> {
        let ready = Barrier::new(self.meters.len());
        let (scenario, counter, stop, allowed) = (self.scenario, self.counter, self.stop, self.allowed);
        let meter = |span: Duration| Meter {
            threshold: counter.ticks(self.threshold_ns),
            span: counter.ticks(in_ns(span)),
            unwatched: counter.ticks(in_ns(UNWATCHED)),
            stop,
        };
        let (warmup, measured) = (meter(WARMUP), meter(self.span));
        // Until the end of the turn, on every way out.
        let _rivals = match scenario {
            Scenario::Alone | Scenario::Free => Vec::new(),
            Scenario::Shared => self.meters.iter().map(Place::rival).collect::<anyhow::Result<_>>()?,
        };
        thread::scope(|scope| {
            let meters: Vec<_> = self
                .meters
                .iter_mut()
                .map(|place| {
                    let (ready, warmup, measured) = (&ready, &warmup, &measured);
                    scope.spawn(move || {
                        let placed = settle(scenario, place.cpu, allowed);
                        // Those who were not placed come too, or the others would wait for ever.
                        ready.wait();
                        placed?;
                        let kept = place.gaps.kept().len();
                        let seen = match counter.source {
                            Source::Cpu => observe(&Cpu, warmup, measured, &mut place.gaps),
                            Source::Raw(_) => observe(&counter::Raw, warmup, measured, &mut place.gaps),
                        };
                        place.rounds.push(Round { kept, observed: seen.observed });
                        place.seen.passes += seen.passes;
                        place.seen.observed += seen.observed;
                        place.seen.backwards += seen.backwards;
                        anyhow::Ok(())
                    })
                })
                .collect();
            let results: Vec<anyhow::Result<()>> = meters.into_iter().map(join).collect();
            results.into_iter().collect()
        })
    }
}

fn observe(ticks: &impl Ticks, warmup: &Meter<'_>, measured: &Meter<'_>, gaps: &mut Gaps) -> Seen {
    // Forgotten: its passes warm the code, and what it finds is thrown away with its store.
    if let Ok(mut store) = Gaps::with_capacity(0) {
        warmup.run(ticks, &mut store);
    }
    measured.run(ticks, gaps)
}

/// Puts the calling thread where the scenario wants it.
fn settle(scenario: Scenario, cpu: u32, allowed: &CpuList) -> anyhow::Result<()> {
    match scenario {
        Scenario::Alone | Scenario::Shared => pin(cpu),
        Scenario::Free => cpus::pin_to(allowed).map_err(|errno| anyhow!("cannot roam: {}", strerror(errno))),
    }
}

/// What a meter found, in nanoseconds.
struct Found {
    name: String,
    wait: Wait,
    observed_ns: f64,
    loop_ns: f64,
    longest_ns: u64,
    threshold_ns: u64,
    /// Lengths with how often each came.
    lengths: Vec<(u64, u64)>,
}

impl Found {
    /// `None` where nothing was observed.
    fn of(name: String, place: &Place, counter: Counter, threshold_ns: u64) -> Option<Found> {
        let lengths: Vec<_> = place.gaps.lengths().map(|(ticks, count)| (counter.ns(ticks), count)).collect();
        let observed_ns = precise(place.seen.observed) * counter.ns_per_tick;
        let wait = Wait::of(lengths.iter().copied(), observed_ns)?;
        let undisturbed = place.seen.passes.saturating_sub(place.gaps.count()).max(1);
        let loop_ns = observed_ns * (1.0 - wait.lost()) / precise(undisturbed);
        let longest_ns = counter.ns(place.gaps.longest());
        Some(Found { name, wait, observed_ns, loop_ns, longest_ns, threshold_ns, lengths })
    }

    /// The lengths of the grid about which this meter can say something.
    fn grid(&self) -> impl Iterator<Item = u64> {
        GRID.into_iter().filter(|&ns| ns >= self.threshold_ns)
    }

    fn row(&self, place: &Place, counter: Counter) -> Row {
        let over = |of: &dyn Fn(u64) -> f64| -> Map<String, Value> {
            self.grid().map(|ns| (ns.to_string(), rounded(of(ns)).into())).collect()
        };
        let figures = [
            ("cpu", json!(place.cpu)),
            ("gaps", json!(place.gaps.count())),
            ("threshold_ns", json!(self.threshold_ns)),
            ("observed_ns", json!(self.observed_ns.round())),
            ("loop_ns", json!(rounded(self.loop_ns))),
            ("lost", json!(rounded(self.wait.lost()))),
            ("lost_by_round", json!(place.lost_by_round())),
            ("worst_ns", json!(self.longest_ns)),
            ("mean_wait_ns", json!(rounded(self.wait.mean_ns()))),
            ("wait_p99_ns", json!(rounded(self.wait.quantile_ns(0.99)))),
            ("wait_p99.9_ns", json!(rounded(self.wait.quantile_ns(0.999)))),
            ("gaps_per_s", over(&|ns| self.wait.gaps_per_second(ns)).into()),
            ("p_wait", over(&|ns| self.wait.p_over(ns)).into()),
            ("counter", json!(counter.name())),
            ("resolution_ns", json!(rounded(counter.resolution_ns))),
        ];
        // The percentiles are those of the gaps; of those in the histogram to three digits.
        let lengths: Vec<u64> = self
            .lengths
            .iter()
            .flat_map(|&(ns, count)| std::iter::repeat_n(ns, usize::try_from(count).unwrap_or(0)))
            .collect();
        let raw = place.raw(counter);
        Row { unit: Some("ns"), summary: Summary::of(&lengths), raw, ..Row::figures(self.name.clone(), figures) }
    }
}

/// Six significant digits: more are noise, and a JSON is read by people too.
fn rounded(figure: f64) -> f64 {
    format!("{figure:.5e}").parse().unwrap_or(figure)
}

impl Options {
    fn findings(&self, runs: &[Run<'_>], skipped: &[Option<String>], counter: Counter) -> Findings {
        let mut findings = Findings::default();
        let mut found = Vec::new();
        for (run, skipped) in runs.iter().zip(skipped) {
            for place in &run.meters {
                let name = match run.meters.len() {
                    1 => run.scenario.name().to_owned(),
                    _ => format!("{}-cpu{}", run.scenario.name(), place.cpu),
                };
                let seen = match skipped {
                    Some(why) => Err(why.clone()),
                    None => Found::of(name.clone(), place, counter, run.threshold_ns)
                        .ok_or("nothing was observed".to_owned()),
                };
                match seen {
                    Ok(seen) => {
                        findings.arms.push(seen.row(place, counter));
                        found.push(seen);
                    }
                    Err(why) => findings.arms.push(Row::skipped(name, why)),
                }
            }
        }
        findings.claims = self.claims(&found);
        let meters = || runs.iter().flat_map(|run| &run.meters);
        if let Source::Raw(why) = counter.source {
            findings.caveats.push(Caveat::SlowCounter(why));
        }
        let sums = [
            (meters().map(|place| place.seen.backwards).sum(), Caveat::Backwards as fn(u64) -> Caveat),
            (meters().map(|place| place.gaps.binned()).sum(), Caveat::GapsBinned),
        ];
        findings.caveats.extend(sums.into_iter().filter(|&(sum, _)| sum > 0).map(|(sum, caveat)| caveat(sum)));
        findings.tables = vec![table(&found, counter)];
        findings.pictures = pictures(&found);
        findings
    }

    fn claims(&self, found: &[Found]) -> Vec<Claim> {
        let mut claims: Vec<Claim> = found
            .iter()
            .map(|meter| Claim {
                claim: format!("{}: the loop is short enough to see gaps of {} ns", meter.name, meter.threshold_ns),
                holds: meter.loop_ns * 2.0 < precise(meter.threshold_ns),
                measured: format!("{:.1} ns a pass", meter.loop_ns),
                required: false,
            })
            .collect();
        let lost = |scenario: Scenario| found.iter().find(|meter| meter.name == scenario.name()).map(|m| m.wait.lost());
        if let Some((alone, shared)) = lost(Scenario::Alone).zip(lost(Scenario::Shared)) {
            claims.push(Claim {
                claim: "a thread that shares its CPU loses more time than one alone".to_owned(),
                holds: shared > alone,
                measured: format!("{:.3} % against {:.3} %", shared * 100.0, alone * 100.0),
                required: false,
            });
        }
        if let Some(limit) = self.fail_above {
            claims.extend(found.iter().map(|meter| Claim {
                claim: format!("{}: no gap is longer than {limit:?}", meter.name),
                holds: meter.longest_ns <= in_ns(limit),
                measured: format!("the longest is {:?}", Duration::from_nanos(meter.longest_ns)),
                required: true,
            }));
        }
        claims
    }
}

/// The figures that people ask for first.
fn table(found: &[Found], counter: Counter) -> Table {
    let columns = [
        "",
        "loop\nns",
        "lost\n%",
        "gaps/s\n>= 5 us",
        "gaps/s\n>= 50 us",
        "worst\nus",
        "mean wait\nns",
        "P(wait\n> 10 us)",
    ];
    let title = format!("read from {}, steps of {:.1} ns", counter.name(), counter.resolution_ns);
    let mut table = Table::new(&title, &columns);
    for meter in found {
        let known = |ns: u64, text: String| if ns >= meter.threshold_ns { text } else { "-".to_owned() };
        table.rows.push(vec![
            meter.name.clone(),
            format!("{:.1}", meter.loop_ns),
            format!("{:.3}", meter.wait.lost() * 100.0),
            known(5_000, format!("{:.1}", meter.wait.gaps_per_second(5_000))),
            known(50_000, format!("{:.1}", meter.wait.gaps_per_second(50_000))),
            format!("{:.1}", precise(meter.longest_ns) / 1000.0),
            format!("{:.1}", meter.wait.mean_ns()),
            known(10_000, format!("{:.2e}", meter.wait.p_over(10_000))),
        ]);
    }
    table
}

/// The gap histogram and the exceedance curve.
fn pictures(found: &[Found]) -> Vec<Picture> {
    let time = Axis { label: "gap", scale: Scale::Log, unit: Unit::Time };
    let series = |points: &dyn Fn(&Found) -> Vec<(f64, f64)>| -> Vec<Series> {
        let all = found.iter().map(|meter| Series { name: meter.name.clone(), points: points(meter) });
        all.filter(|series| !series.points.is_empty()).collect()
    };
    let pictures = vec![
        Picture {
            name: "gap-histogram".to_owned(),
            title: "Gaps a second, by their length".to_owned(),
            caption: "Each step is a tenth of a decade. Peaks are things that come regularly: the tick, a timer, a rival."
                .to_owned(),
            x: time,
            y: Axis { label: "gaps a second", scale: Scale::Log, unit: Unit::Number },
            shape: Shape::Bars,
            series: series(&histogram),
        },
        Picture {
            name: "exceedance".to_owned(),
            title: "What it costs a message: the probability to wait longer than a time".to_owned(),
            caption: "For a message that arrives at a random moment, independent of the gaps. Lower and further left is better."
                .to_owned(),
            x: Axis { label: "wait", ..time },
            y: Axis { label: "P(wait > x)", scale: Scale::Log, unit: Unit::Number },
            shape: Shape::Line,
            series: series(&exceedance),
        },
    ];
    pictures.into_iter().filter(|picture| !picture.series.is_empty()).collect()
}

/// Gaps a second in bins of a tenth of a decade.
fn histogram(meter: &Found) -> Vec<(f64, f64)> {
    const A_DECADE: f64 = 10.0;
    #[expect(clippy::cast_possible_truncation, reason = "a tenth of a decade of a u64 is below 200")]
    let bin = |ns: u64| (precise(ns.max(1)).log10() * A_DECADE).floor() as i32;
    let edge = |bin: i32| 10f64.powf(f64::from(bin) / A_DECADE);
    let Some((first, last)) =
        meter.lengths.iter().map(|&(ns, _)| bin(ns)).fold(None, |ends: Option<(i32, i32)>, b| {
            Some(ends.map_or((b, b), |(low, high)| (low.min(b), high.max(b))))
        })
    else {
        return Vec::new();
    };
    let mut counts = vec![0u64; usize::try_from(last - first + 1).unwrap_or(0)];
    for &(ns, count) in &meter.lengths {
        if let Some(slot) = usize::try_from(bin(ns) - first).ok().and_then(|i| counts.get_mut(i)) {
            *slot += count;
        }
    }
    let rate = |count: u64| precise(count) * 1e9 / meter.observed_ns;
    let mut points: Vec<_> = (first..).zip(&counts).map(|(bin, &count)| (edge(bin), rate(count))).collect();
    points.push((edge(last + 1), 0.0));
    points
}

/// P(wait > x) from the threshold to the longest gap.
fn exceedance(meter: &Found) -> Vec<(f64, f64)> {
    const A_DECADE: u32 = 20;
    let longest = meter.longest_ns;
    let steps = (0..20 * A_DECADE).map(|i| 10f64.powf(f64::from(i) / f64::from(A_DECADE)));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between the threshold and the longest gap"
    )]
    let whole = steps.map(|ns| ns.round() as u64).filter(|&ns| ns >= meter.threshold_ns && ns < longest);
    whole.map(|ns| (precise(ns), meter.wait.p_over(ns))).filter(|&(_, p)| p > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Counter = Counter { source: Source::Cpu, ns_per_tick: 0.5, resolution_ns: 0.5 };

    /// Gaps of these lengths in ticks in a second of 2 GHz, in which a pass takes 20 ticks.
    fn place(lengths: &[u64], capacity: usize) -> Place {
        let mut gaps = Gaps::with_capacity(capacity).unwrap();
        for &length in lengths {
            gaps.record(Gap { at: 0, length });
        }
        let lost: u64 = lengths.iter().sum();
        let passes = (2_000_000_000 - lost) / 20 + lengths.len() as u64;
        Place { cpu: 1, gaps, seen: Seen { passes, observed: 2_000_000_000, backwards: 0 }, rounds: Vec::new() }
    }

    fn options(line: &[&str]) -> Options {
        let command = crate::options::command(&MEASUREMENT).no_binary_name(true);
        Options::from_arg_matches(&command.try_get_matches_from(line).unwrap()).unwrap()
    }

    fn run(
        scenario: Scenario,
        meters: Vec<Place>,
        stop: &'static AtomicBool,
        allowed: &'static CpuList,
    ) -> Run<'static> {
        Run { scenario, meters, counter: COUNTER, threshold_ns: 200, span: Duration::from_secs(1), allowed, stop }
    }

    fn findings(options: &Options, runs: Vec<(Scenario, Vec<Place>)>) -> Findings {
        static STOP: AtomicBool = AtomicBool::new(false);
        let allowed: &'static CpuList = Box::leak(Box::default());
        let runs: Vec<_> = runs.into_iter().map(|(scenario, meters)| run(scenario, meters, &STOP, allowed)).collect();
        options.findings(&runs, &vec![None; runs.len()], COUNTER)
    }

    #[test]
    fn a_thousand_gaps_of_10_us() {
        let found = findings(&options(&[]), vec![(Scenario::Alone, vec![place(&[20_000; 1000], 1000)])]);
        let row = &found.arms[0];
        assert_eq!(row.name, "alone");
        for (figure, value) in [("loop_ns", 10.0), ("lost", 0.01), ("mean_wait_ns", 50.0), ("worst_ns", 10_000.0)] {
            assert_eq!(row.figures[figure].as_f64(), Some(value), "{figure}");
        }
        assert_eq!(row.figures["wait_p99.9_ns"].as_f64(), Some(9_000.0));
        assert_eq!(row.figures["p_wait"]["5000"].as_f64(), Some(0.005));
        assert_eq!(row.figures["gaps_per_s"]["10000"].as_f64(), Some(1000.0));
        assert_eq!(row.figures["gaps_per_s"]["20000"].as_f64(), Some(0.0));
        assert_eq!(row.summary.as_ref().unwrap().p50, 10_000);
        assert!(found.claims[0].holds && !found.claims[0].required);
        assert!(found.caveats.is_empty());
        let text = found.tables[0].to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn gaps_that_the_store_did_not_keep_are_counted_all_the_same() {
        let found = findings(&options(&[]), vec![(Scenario::Alone, vec![place(&[20_000; 1000], 10)])]);
        assert_eq!(found.arms[0].figures["gaps"], 1000);
        assert!((found.arms[0].figures["lost"].as_f64().unwrap() - 0.01).abs() < 1e-5);
        assert_eq!(found.caveats, [Caveat::GapsBinned(990)]);
    }

    #[test]
    fn rounds_stay_apart() {
        let round = |kept| Round { kept, observed: 100 };
        let place = Place { rounds: vec![round(0), round(2), round(2)], ..place(&[10, 20, 30], 3) };
        let Raw::Gaps(rounds) = place.raw(COUNTER) else { panic!() };
        assert_eq!(rounds, [vec![(0, 5), (0, 10)], vec![], vec![(0, 15)]]);
        assert_eq!(place.lost_by_round(), Some(vec![0.3, 0.0, 0.3]));
    }

    #[test]
    fn a_host_without_gaps_has_a_result() {
        let found = findings(&options(&[]), vec![(Scenario::Alone, vec![place(&[], 4)])]);
        let row = &found.arms[0];
        assert!(row.summary.is_none() && row.skipped.is_none());
        assert_eq!((row.figures["gaps"].as_u64(), row.figures["lost"].as_f64()), (Some(0), Some(0.0)));
        assert!(found.pictures.is_empty());
    }

    #[test]
    fn several_cpus_are_several_rows() {
        let two = || vec![place(&[2_000], 4), Place { cpu: 3, ..place(&[4_000], 4) }];
        let found =
            findings(&options(&["--scenario", "all"]), vec![(Scenario::Alone, two()), (Scenario::Shared, two())]);
        let names: Vec<_> = found.arms.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["alone-cpu1", "alone-cpu3", "shared-cpu1", "shared-cpu3"]);
    }

    #[test]
    fn a_crossed_threshold_fails_the_run() {
        let failing = |limit: &str| {
            let found =
                findings(&options(&["--fail-above", limit]), vec![(Scenario::Alone, vec![place(&[20_000], 4)])]);
            found.claims.iter().filter(|claim| claim.required && !claim.holds).count()
        };
        assert_eq!((failing("9999ns"), failing("10us")), (1, 0));
    }

    #[test]
    fn nothing_is_said_below_the_threshold() {
        let mut at_1_us =
            run(Scenario::Alone, vec![place(&[20_000], 4)], Box::leak(Box::default()), Box::leak(Box::default()));
        at_1_us.threshold_ns = 1_000;
        let found = options(&[]).findings(&[at_1_us], &[None], COUNTER);
        let rates = found.arms[0].figures["gaps_per_s"].as_object().unwrap();
        assert!(!rates.contains_key("500") && rates.contains_key("1000"));
    }

    #[test]
    fn a_shared_cpu_is_compared_with_one_alone() {
        let found = findings(
            &options(&["--scenario", "all"]),
            vec![(Scenario::Alone, vec![place(&[2_000], 4)]), (Scenario::Shared, vec![place(&[9_000], 4)])],
        );
        let claim = found.claims.last().unwrap();
        assert!(claim.claim.starts_with("a thread that shares") && claim.holds, "{claim:?}");
    }

    #[test]
    fn the_histogram_counts_every_gap_once() {
        let place = place(&[2_000, 2_000, 40_000], 4);
        let found = Found::of("a".to_owned(), &place, COUNTER, 200).unwrap();
        let points = histogram(&found);
        let total: f64 = points.iter().map(|&(_, rate)| rate).sum();
        assert!((total - 3.0).abs() < 1e-9, "{points:?}");
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn times_and_schedules() {
        let asked = options(&["--seconds", "1.5", "--threshold", "500"]);
        assert_eq!(asked.threshold, Duration::from_nanos(500));
        assert_eq!(asked.schedule(&Effort::default()).time, Some(Duration::from_millis(1500)));
        let all = options(&["--scenario", "all"]).schedule(&Effort { quick: true, ..Effort::default() });
        assert_eq!((all.rounds, all.time), (3, Some(Duration::from_millis(200))));
        for text in ["0", "-1", "x", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
