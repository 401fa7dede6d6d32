//! Where values lie on an axis, and which of them are labelled.

use super::{Axis, Scale, Unit};

/// Beyond this nothing is measured, and sums of what is drawn stay finite below it.
const ABSURD: f64 = 1e100;

/// Labels on an axis at most: more are no help.
const MOST_TICKS: usize = 9;

impl Scale {
    /// Where a value lies: the value itself, its decade, or how many nines it has. Infinite for a share of 1, which has
    /// no end of nines and is drawn at the end of the axis. `None` for what the scale cannot show.
    pub(super) fn measure(self, value: f64) -> Option<f64> {
        let seen = value.is_finite() && value.abs() < ABSURD;
        match self {
            Scale::Linear => seen.then_some(value),
            Scale::Log => (seen && value > 1.0 / ABSURD).then(|| value.log10()),
            Scale::Nines => (0.0..=1.0).contains(&value).then(|| 0.0 - (1.0 - value).log10()),
        }
    }

    /// The value that lies at a measure.
    pub(super) fn value(self, measure: f64) -> f64 {
        match self {
            Scale::Linear => measure,
            Scale::Log => 10f64.powf(measure),
            Scale::Nines => 1.0 - 10f64.powf(-measure),
        }
    }
}

/// The part of an axis that is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    axis: Axis,
    /// The ends, in the scale's measure; the low one is below the high one.
    low: f64,
    high: f64,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// 0 at the low end, 1 at the high end.
    pub(super) at: f64,
    /// What stands there.
    pub(super) label: String,
}

impl Span {
    /// What shows all of `measures`; those that are infinite lie at the ends. `None` where there is nothing to show.
    pub(super) fn of(axis: Axis, measures: impl Iterator<Item = f64>) -> Option<Span> {
        let (low, high) = measures.filter(|measure| measure.is_finite()).fold(None, |ends, measure| {
            let (low, high) = ends.unwrap_or((measure, measure));
            Some((measure.min(low), measure.max(high)))
        })?;
        let span = high - low;
        let (low, high) = match axis.scale {
            // Values that differ by nothing or by a rounding error stand in the middle.
            Scale::Linear if span <= 1e-9 * high.abs().max(low.abs()) => {
                let room = if high == 0.0 { 1.0 } else { high.abs() / 2.0 };
                (low - room, high + room)
            }
            Scale::Linear => {
                let step = step_of(span / 8.0);
                ((low / step).floor() * step, (high / step).ceil() * step)
            }
            Scale::Log => {
                let room = if span < 1e-9 { 0.15 } else { (span * 0.04).max(0.01) };
                (low - room, high + room)
            }
            // Room for the last step, which leads to a share of 1.
            Scale::Nines => (0.0, high.max(1.0) + (high * 0.08).max(0.3)),
        };
        Some(Span { axis, low, high })
    }

    /// Where a measure lies: 0 at the low end, 1 at the high end, and never beyond.
    pub(super) fn place(&self, measure: f64) -> f64 {
        ((measure - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The labelled places, ascending: as many as fit when two labels must be `apart`, a share of the axis.
    pub(super) fn ticks(&self, apart: impl Fn(&str, &str) -> f64) -> Vec<Tick> {
        let fits = |ticks: &Vec<Tick>| {
            let clear = |pair: &[Tick]| pair[1].at - pair[0].at >= apart(&pair[0].label, &pair[1].label);
            ticks.len() <= MOST_TICKS && ticks.windows(2).all(clear)
        };
        let mut all = self.candidates();
        match all.iter().position(fits) {
            Some(i) => all.swap_remove(i),
            None => all.pop().into_iter().flatten().take(1).collect(),
        }
    }

    /// Unlabelled lines that show how a logarithmic axis divides: 2 to 9 in each decade, where ticks are decades.
    pub(super) fn divisions(&self, ticks: &[Tick]) -> Vec<f64> {
        let decade = 1.0 / (self.high - self.low);
        let are_decades = ticks.windows(2).all(|pair| (pair[1].at - pair[0].at - decade).abs() < decade / 100.0);
        if self.axis.scale != Scale::Log || !are_decades {
            return Vec::new();
        }
        let values = decades(self.low, self.high, 1).flat_map(|decade| (2..10).map(move |digit| (digit, decade)));
        let measures = values.map(|(digit, decade)| f64::from(digit).log10() + f64::from(decade));
        measures.filter(|measure| self.shows(*measure)).map(|measure| self.place(measure)).collect()
    }

    fn shows(&self, measure: f64) -> bool {
        let error = 1e-9 * (self.high - self.low);
        (self.low - error..=self.high + error).contains(&measure)
    }

    /// Sets of ticks, the densest first.
    fn candidates(&self) -> Vec<Vec<Tick>> {
        match self.axis.scale {
            Scale::Linear => self.even(self.low, self.high),
            Scale::Log => {
                let (low, high) = (self.axis.scale.value(self.low), self.axis.scale.value(self.high));
                let digits = |digits: &[u8], every| self.decimal(digits, every);
                // On less than a decade even steps are denser than 1-2-5.
                let even = if self.high - self.low < 0.8 { self.even(low, high) } else { Vec::new() };
                let sparse = [1, 2, 3, 5, 10, 20, 50, 100].map(|every| digits(&[1], every));
                even.into_iter().chain([digits(&[1, 2, 5], 1)]).chain(sparse).filter(|ticks| ticks.len() > 1).collect()
            }
            Scale::Nines => {
                let label = |value, resolution| written(self.axis.unit, value, value, resolution);
                let tick = |value, resolution| {
                    let at = self.place(self.axis.scale.measure(value)?);
                    Some(Tick { at, label: label(value, resolution) })
                };
                let nines = || (1..=15).take_while(|&nines| f64::from(nines) <= self.high - 0.2);
                let all = |half: Option<f64>, every: usize| {
                    let nines = nines().step_by(every).map(|nines| 10f64.powi(-nines));
                    let nines = nines.filter_map(|rest| tick(1.0 - rest, rest));
                    let ends = [tick(0.0, 1.0), half.and_then(|half| tick(half, 0.1))];
                    ends.into_iter().flatten().chain(nines).chain(tick(1.0, 0.01)).collect()
                };
                vec![all(Some(0.5), 1), all(None, 1), all(None, 2), all(None, 4)]
            }
        }
    }

    /// Ticks in even steps between two values, the densest set first.
    fn even(&self, low: f64, high: f64) -> Vec<Vec<Tick>> {
        let sets = [10.0, 7.0, 5.0, 3.0, 2.0].map(|count| {
            let step = step_of((high - low) / count);
            let first = (low / step - 1e-6).ceil();
            let multiples = (0..=20).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + step * 1e-6);
            // Minus zero is written with its sign.
            let values = multiples.map(|value| if value == 0.0 { 0.0 } else { value });
            values
                .filter_map(|value| {
                    let at = self.place(self.axis.scale.measure(value)?);
                    Some(Tick { at, label: written(self.axis.unit, value, high.abs().max(low.abs()), step) })
                })
                .collect()
        });
        sets.into()
    }

    /// Ticks at these digits of every so many decades.
    fn decimal(&self, digits: &[u8], every: usize) -> Vec<Tick> {
        let values = decades(self.low, self.high, every).flat_map(|decade| digits.iter().map(move |&d| (d, decade)));
        let measures = values.map(|(digit, decade)| (digit, decade, f64::from(digit).log10() + f64::from(decade)));
        measures
            .filter(|&(.., measure)| self.shows(measure))
            .map(|(digit, decade, measure)| {
                // Parsed rather than multiplied, so that 2e-3 is the number that is written so.
                let value = format!("{digit}e{decade}").parse().unwrap_or_default();
                let resolution = 10f64.powi(decade);
                Tick { at: self.place(measure), label: written(self.axis.unit, value, value, resolution) }
            })
            .collect()
    }
}

/// The decades that begin between two measures, or hold the low one; multiples of `every`.
fn decades(low: f64, high: f64, every: usize) -> impl Iterator<Item = i32> {
    #[expect(clippy::cast_possible_truncation, reason = "logarithms of what is drawn are below 101")]
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    let every = i32::try_from(every).unwrap_or(i32::MAX);
    (first..=last).filter(move |decade| decade % every == 0)
}

/// The smallest of 1, 2, 5, 10 and so on that is not below `least`, which is positive.
fn step_of(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * decade).find(|step| *step >= least * 0.999).unwrap_or(10.0 * decade)
}

/// A value in its unit, to three digits.
pub(super) fn rounded(unit: Unit, value: f64) -> String {
    let magnitude = value.abs().max(f64::MIN_POSITIVE).log10().floor();
    written(unit, value, value, 10f64.powf(magnitude - 2.0))
}

/// A value in its unit. `like` chooses the prefix, so that values of one axis can have the same; what differs by
/// `resolution` is written differently.
pub(super) fn written(unit: Unit, value: f64, like: f64, resolution: f64) -> String {
    let (factor, suffix) = match unit {
        Unit::Number => (1.0, ""),
        Unit::Share => (0.01, " %"),
        // A step of 1e3 begins a bit early: what rounding leaves below it is written 1.
        Unit::Time => match like.abs() * (1.0 + 1e-9) {
            ns if ns < 1e3 => (1.0, " ns"),
            ns if ns < 1e6 => (1e3, " µs"),
            ns if ns < 1e9 => (1e6, " ms"),
            _ => (1e9, " s"),
        },
    };
    let (value, like, resolution) = (value / factor, like.abs() / factor, resolution / factor);
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a float is below 400")]
    let decade = |of: f64| (of.abs().log10() + 1e-9).floor() as i32;
    let decimals = |count: i32| usize::try_from(count).unwrap_or(0).min(15);
    let text = if value != 0.0 && !(0.009..1e7).contains(&like) {
        format!("{value:.*e}", decimals(decade(value) - decade(resolution)))
    } else {
        format!("{value:.*}", decimals(-decade(resolution)))
    };
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(scale: Scale, unit: Unit) -> Axis {
        Axis { label: "x", scale, unit }
    }

    /// The labels of an axis on which a character takes a hundredth; of one that stands, on which a label takes a fifteenth.
    fn labels(scale: Scale, unit: Unit, values: &[f64]) -> String {
        let measures = values.iter().filter_map(|&value| scale.measure(value));
        let span = Span::of(axis(scale, unit), measures).unwrap();
        let ticks = span.ticks(|a, b| if scale == Scale::Nines { 1.0 / 15.0 } else { width(a, b) });
        ticks.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>().join(", ")
    }

    #[expect(clippy::cast_precision_loss, reason = "a few characters")]
    fn width(a: &str, b: &str) -> f64 {
        (a.chars().count() + b.chars().count()) as f64 / 200.0
    }

    #[test]
    fn labels_of_axes() {
        use Scale::{Linear, Log, Nines};
        use Unit::{Number, Share, Time};
        let cases: &[(Scale, Unit, &[f64], &str)] = &[
            (Log, Time, &[250.0, 9_000.0], "500 ns, 1 µs, 2 µs, 5 µs, 10 µs"),
            (Log, Time, &[200.0, 5e7], "1 µs, 10 µs, 100 µs, 1 ms, 10 ms"),
            (Log, Number, &[2e-9, 0.4], "1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1"),
            (Log, Number, &[0.1, 1e5], "0.1, 1, 10, 100, 1000, 10000, 100000"),
            (Log, Number, &[1e-60, 1e60], "1e-60, 1e-40, 1e-20, 1, 1e20, 1e40, 1e60"),
            (Log, Time, &[41_000.0, 44_000.0], "41 µs, 42 µs, 43 µs, 44 µs, 45 µs"),
            (Log, Time, &[7.0], "5 ns, 6 ns, 7 ns, 8 ns, 9 ns"),
            (Log, Share, &[1e-4, 0.5], "0.01 %, 0.1 %, 1 %, 10 %"),
            (Linear, Share, &[0.0, 1.0], "0 %, 20 %, 40 %, 60 %, 80 %, 100 %"),
            (Linear, Time, &[0.0, 3_100_000.0], "0.0 ms, 0.5 ms, 1.0 ms, 1.5 ms, 2.0 ms, 2.5 ms, 3.0 ms, 3.5 ms"),
            (Linear, Number, &[-3.0, 4.0], "-3, -2, -1, 0, 1, 2, 3, 4"),
            (Linear, Number, &[5.0], "3, 4, 5, 6, 7"),
            (Linear, Number, &[0.0], "-1.0, -0.5, 0.0, 0.5, 1.0"),
            (
                Linear,
                Time,
                &[1_000_000.0, 1_000_010.0],
                "1.000000 ms, 1.000002 ms, 1.000004 ms, 1.000006 ms, 1.000008 ms, 1.000010 ms",
            ),
            (Nines, Share, &[0.2, 0.9995, 1.0], "0 %, 50 %, 90 %, 99 %, 99.9 %, 100 %"),
            (Nines, Share, &[0.99999], "0 %, 90 %, 99 %, 99.9 %, 99.99 %, 99.999 %, 100 %"),
            (Nines, Share, &[0.999_999_999], "0 %, 90 %, 99.9 %, 99.999 %, 99.99999 %, 99.9999999 %, 100 %"),
        ];
        for &(scale, unit, values, expected) in cases {
            assert_eq!(labels(scale, unit, values), expected, "{scale:?} {values:?}");
        }
    }

    #[test]
    fn nothing_to_show() {
        assert_eq!(
            Span::of(axis(Scale::Log, Unit::Time), [0.0, -1.0].iter().filter_map(|&v| Scale::Log.measure(v))),
            None
        );
        assert_eq!(Span::of(axis(Scale::Nines, Unit::Share), [f64::INFINITY].into_iter()), None);
    }

    proptest! {
        #[test]
        fn labels_of_any_axis_are_apart_and_differ(
            scale in prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Nines]),
            unit in prop::sample::select(vec![Unit::Time, Unit::Share, Unit::Number]),
            values in prop::collection::vec(prop_oneof![any::<f64>(), 0.0..1.0, 0.0..1e9], 1..5),
        ) {
            let measures: Vec<f64> = values.iter().filter_map(|&value| scale.measure(value)).collect();
            let Some(span) = Span::of(axis(scale, unit), measures.iter().copied()) else { return Ok(()) };
            prop_assert!(span.low < span.high, "{span:?}");
            for &measure in &measures {
                prop_assert!((0.0..=1.0).contains(&span.place(measure)));
            }
            let ticks = span.ticks(width);
            prop_assert!((1..=MOST_TICKS).contains(&ticks.len()), "{span:?} {ticks:?}");
            for pair in ticks.windows(2) {
                prop_assert!(pair[1].at - pair[0].at >= width(&pair[0].label, &pair[1].label), "{ticks:?}");
                prop_assert_ne!(&pair[0].label, &pair[1].label);
            }
        }
    }
}
