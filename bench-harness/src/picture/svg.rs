//! Pictures as SVG: black on white, text as text, the same bytes for the same picture.
//!
//! Series are told apart by the dashes of their lines and by the shapes of their markers; colour says nothing that these
//! do not. Attributes carry the whole look, so that a drawing taken out of its page is still one.

use std::fmt::Write as _;

use super::axis::{Span, Tick, rounded};
use super::{Picture, Series, Shape};
use crate::counter::precise;
use crate::text::markup;

/// More series than this are drawn as several drawings with the same axes.
const MOST_SERIES: usize = LOOKS.len();

/// How a series looks. The colours are as dark as text and differ for every kind of colour vision (Okabe and Ito's, and two
/// darker ones).
struct Look {
    colour: &'static str,
    dashes: &'static str,
    marker: Marker,
}

#[derive(Clone, Copy)]
enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Point,
}

const LOOKS: [Look; 6] = [
    Look { colour: "#0072b2", dashes: "none", marker: Marker::Circle },
    Look { colour: "#d55e00", dashes: "9 4", marker: Marker::Square },
    Look { colour: "#000000", dashes: "2 3", marker: Marker::Triangle },
    Look { colour: "#007a5a", dashes: "12 3 2 3", marker: Marker::Diamond },
    Look { colour: "#a03c8c", dashes: "5 2", marker: Marker::Cross },
    Look { colour: "#7a5200", dashes: "12 3 2 3 2 3", marker: Marker::Point },
];

/// Sizes in user units; at 720 across a page, they are about pixels.
const WIDTH: f64 = 720.0;
const PLOT_HEIGHT: f64 = 320.0;
const FONT: f64 = 13.0;
/// A character on average, generously: how wide a text is, is known only to who draws it.
const CHARACTER: f64 = 8.0;
const LINE: f64 = 20.0;
/// Labels of the vertical axis are at least so far apart.
const APART: f64 = 14.5;
/// Room for the ends of strokes.
const LEFT: f64 = 2.0;
/// Half of a long label of the horizontal axis.
const RIGHT: f64 = 32.0;
const SWATCH: f64 = 44.0;
/// A marker every so much of a line.
const MARKER_EVERY: f64 = 110.0;

/// Draws a picture: one SVG element, or more where there are too many series for one. `id` is a name of its own on
/// the page, without blanks.
pub fn draw(picture: &Picture, id: &str) -> Vec<String> {
    let curves: Vec<Curve<'_>> = picture.series.iter().map(|series| Curve::of(picture, series)).collect();
    let axes = Axes::around(picture, &curves);
    let count = curves.len().div_ceil(MOST_SERIES).max(1);
    let each = curves.len().div_ceil(count).max(1);
    let mut parts: Vec<&[Curve<'_>]> = curves.chunks(each).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let of = parts.len();
    let drawings = (1..).zip(parts).map(|(part, curves)| {
        let (id, part) = match of {
            1 => (markup(id), String::new()),
            _ => (format!("{}-{part}", markup(id)), format!(" ({part} of {of})")),
        };
        Drawing { picture, curves, axes, id, part, out: String::new() }.svg()
    });
    drawings.collect()
}

/// A series in the measures of its axes.
struct Curve<'a> {
    name: &'a str,
    /// What is drawn without lifting the pen.
    strokes: Vec<Vec<(f64, f64)>>,
    /// Where a marker may stand, stroke by stroke.
    stands: Vec<Vec<(f64, f64)>>,
}

impl<'a> Curve<'a> {
    fn of(picture: &Picture, series: &'a Series) -> Curve<'a> {
        let mut curve = Curve { name: &series.name, strokes: Vec::new(), stands: Vec::new() };
        let measured: Vec<_> =
            series.points.iter().map(|&(x, y)| (picture.x.scale.measure(x), picture.y.scale.measure(y))).collect();
        match picture.shape {
            Shape::Line | Shape::Steps => {
                for run in measured.split(|(x, y)| x.is_none() || y.is_none()) {
                    let points: Vec<(f64, f64)> = run.iter().filter_map(|&(x, y)| x.zip(y)).collect();
                    if points.is_empty() {
                        continue;
                    }
                    let mut stroke = Vec::new();
                    for &(x, y) in &points {
                        if let (Shape::Steps, Some(&(_, held))) = (picture.shape, stroke.last()) {
                            stroke.push((x, held));
                        }
                        stroke.push((x, y));
                    }
                    curve.strokes.push(stroke);
                    curve.stands.push(points);
                }
            }
            Shape::Bars => {
                // Where the axis has no zero, bars stand on its end.
                let ground = picture.y.scale.measure(0.0).unwrap_or(f64::NEG_INFINITY);
                let bars: Vec<_> = measured
                    .windows(2)
                    .map(|ends| Some((ends[0].0?, ends[1].0?, ends[0].1?)).filter(|&(.., y)| y - ground != 0.0))
                    .collect();
                for run in bars.split(Option::is_none) {
                    let bars = || run.iter().flatten();
                    let Some((&(first, ..), &(_, last, _))) = bars().next().zip(bars().last()) else { continue };
                    let tops = bars().flat_map(|&(from, to, y)| [(from, y), (to, y)]);
                    curve.strokes.push([(first, ground)].into_iter().chain(tops).chain([(last, ground)]).collect());
                    curve.stands.push(bars().map(|&(from, to, y)| (f64::midpoint(from, to), y)).collect());
                }
            }
        }
        curve
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.strokes.iter().flatten()
    }
}

/// What is shown of the axes.
#[derive(Clone, Copy)]
struct Axes {
    x: Span,
    y: Span,
}

impl Axes {
    /// Axes that show every curve; `None` where there is nothing to show.
    fn around(picture: &Picture, curves: &[Curve<'_>]) -> Option<Axes> {
        let all = || curves.iter().flat_map(Curve::points);
        let is_groundless = picture.shape == Shape::Bars && picture.y.scale.measure(0.0).is_none();
        // Half of the lowest bar: it is to be seen, too.
        let ground = all().map(|point| point.1 - 2f64.log10()).filter(|_| is_groundless);
        Some(Axes {
            x: Span::of(picture.x, all().map(|point| point.0))?,
            y: Span::of(picture.y, all().map(|point| point.1).chain(ground))?,
        })
    }
}

/// One SVG element in the making.
struct Drawing<'a> {
    picture: &'a Picture,
    curves: &'a [Curve<'a>],
    axes: Option<Axes>,
    id: String,
    /// Which part of the picture this is, where there are several.
    part: String,
    out: String,
}

/// Where the plot lies on the drawing.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
}

impl Frame {
    const RIGHT: f64 = WIDTH - RIGHT;

    fn bottom(self) -> f64 {
        self.top + PLOT_HEIGHT
    }

    fn x(self, share: f64) -> f64 {
        self.left + share * (Frame::RIGHT - self.left)
    }

    fn y(self, share: f64) -> f64 {
        self.bottom() - share * PLOT_HEIGHT
    }
}

impl Drawing<'_> {
    fn svg(mut self) -> String {
        let legend_bottom = self.legend();
        let height = if let Some(axes) = self.axes {
            self.plot(axes, legend_bottom + 1.3 * LINE)
        } else {
            self.text(LEFT, legend_bottom + LINE, "start", "nothing to draw: no value that these axes can show");
            legend_bottom + 2.0 * LINE
        };
        let Drawing { picture, id, part, out, .. } = &self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\" font-family=\"system-ui, sans-serif\" font-size=\"{FONT}\" \
             fill=\"#000\">\n<title id=\"{id}-title\">{}{part}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{out}</svg>\n",
            number(height),
            markup(&picture.title),
            markup(&self.description()),
        )
    }

    /// The picture for those who do not see it.
    fn description(&self) -> String {
        let Picture { caption, x, y, .. } = self.picture;
        let mut text = format!("{caption} Across: {}; up: {}.", x.label, y.label);
        for curve in self.curves {
            let xs = || curve.points().map(|point| point.0).filter(|x| x.is_finite());
            let end = |measure| rounded(x.unit, x.scale.value(measure));
            let _ = match xs().reduce(f64::min).zip(xs().reduce(f64::max)) {
                Some((from, to)) => write!(text, " {}: {} to {}.", curve.name, end(from), end(to)),
                None => write!(text, " {}: nothing to draw.", curve.name),
            };
        }
        text
    }

    /// Which line is which, above the plot. Returns where it ends.
    fn legend(&mut self) -> f64 {
        let (mut x, mut y) = (LEFT, LINE);
        for (look, curve) in LOOKS.iter().zip(self.curves) {
            let why = if curve.strokes.is_empty() { ": nothing that these axes can show" } else { "" };
            let name = format!("{}{why}", curve.name);
            let width = SWATCH + 8.0 + text_width(&name);
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + LINE);
            }
            let middle = y - FONT * 0.35;
            self.stroke(look, &[(x, middle), (x + SWATCH, middle)]);
            self.marker(look, (x + SWATCH / 2.0, middle));
            self.text(x + SWATCH + 8.0, y, "start", &name);
            x += width + 24.0;
        }
        y
    }

    /// Axes and curves below `top`. Returns where the drawing ends.
    fn plot(&mut self, axes: Axes, top: f64) -> f64 {
        let Picture { x, y, .. } = self.picture;
        let y_ticks = axes.y.ticks(|_, _| APART / PLOT_HEIGHT);
        let left = y_ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max) + 12.0;
        let frame = Frame { left, top: top + 0.7 * LINE };
        let x_ticks = axes.x.ticks(|a, b| (text_width(a) / 2.0 + text_width(b) / 2.0 + 14.0) / (Frame::RIGHT - left));
        self.text(LEFT, top, "start", y.label);
        self.grid("#e4e4e4", frame, &axes.x.divisions(&x_ticks), &axes.y.divisions(&y_ticks));
        let places = |ticks: &[Tick]| ticks.iter().map(|tick| tick.at).collect::<Vec<_>>();
        self.grid("#b8b8b8", frame, &places(&x_ticks), &places(&y_ticks));
        for tick in &y_ticks {
            self.text(left - 8.0, frame.y(tick.at) + FONT * 0.35, "end", &tick.label);
        }
        for tick in &x_ticks {
            self.text(frame.x(tick.at), frame.bottom() + LINE, "middle", &tick.label);
        }
        self.text(frame.x(0.5), frame.bottom() + 2.0 * LINE, "middle", x.label);
        let (right, bottom, left) = (number(Frame::RIGHT), number(frame.bottom()), number(left));
        let _ = writeln!(
            self.out,
            "<path d=\"M{left} {}V{bottom}H{right}\" fill=\"none\" stroke=\"#000\"/>",
            number(frame.top)
        );
        let curves = self.curves;
        for (i, (look, curve)) in LOOKS.iter().zip(curves).enumerate() {
            // Where curves lie on each other, their markers do not.
            let ahead = MARKER_EVERY * precise(i as u64) / precise(curves.len() as u64);
            self.curve(axes, frame, look, curve, ahead);
        }
        frame.bottom() + 2.5 * LINE
    }

    /// Lines across the plot.
    fn grid(&mut self, colour: &str, frame: Frame, xs: &[f64], ys: &[f64]) {
        let mut path = String::new();
        for &x in xs {
            let _ = write!(path, "M{} {}V{}", number(frame.x(x)), number(frame.top), number(frame.bottom()));
        }
        for &y in ys {
            let _ = write!(path, "M{} {}H{}", number(frame.left), number(frame.y(y)), number(Frame::RIGHT));
        }
        if !path.is_empty() {
            let _ = writeln!(self.out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"0.7\"/>");
        }
    }

    /// A curve, the first of its markers after `ahead`.
    fn curve(&mut self, axes: Axes, frame: Frame, look: &Look, curve: &Curve<'_>, ahead: f64) {
        let place = |&(x, y): &(f64, f64)| (frame.x(axes.x.place(x)), frame.y(axes.y.place(y)));
        let mut markers: Vec<(f64, f64)> = Vec::new();
        for (stroke, stands) in curve.strokes.iter().zip(&curve.stands) {
            self.stroke(look, &stroke.iter().map(place).collect::<Vec<_>>());
            let mut to_go = ahead;
            let mut last: Option<(f64, f64)> = None;
            for stand in stands.iter().map(place) {
                to_go -= last.map_or(0.0, |(x, y)| f64::hypot(stand.0 - x, stand.1 - y));
                last = Some(stand);
                if to_go <= 0.0 {
                    markers.push(stand);
                    to_go = MARKER_EVERY;
                }
            }
            // The end of a curve is its worst case, and no other marker shall hide it.
            if let Some((x, y)) = last {
                markers.pop_if(|marker| f64::hypot(marker.0 - x, marker.1 - y) < MARKER_EVERY / 4.0);
                markers.push((x, y));
            }
        }
        for marker in markers {
            self.marker(look, marker);
        }
    }

    fn stroke(&mut self, look: &Look, points: &[(f64, f64)]) {
        let mut path = String::new();
        let mut pen: Option<(String, String)> = None;
        for &(x, y) in points {
            let (x, y) = (number(x), number(y));
            let _ = match &pen {
                None => write!(path, "M{x} {y}"),
                Some((at_x, at_y)) if *at_x == x && *at_y == y => Ok(()),
                Some((at_x, _)) if *at_x == x => write!(path, "V{y}"),
                Some((_, at_y)) if *at_y == y => write!(path, "H{x}"),
                Some(_) => write!(path, "L{x} {y}"),
            };
            pen = Some((x, y));
        }
        let Look { colour, dashes, .. } = look;
        let _ = writeln!(
            self.out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-dasharray=\"{dashes}\"/>"
        );
    }

    fn marker(&mut self, look: &Look, (x, y): (f64, f64)) {
        let path = match look.marker {
            Marker::Circle => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            Marker::Square => "m-3.6 -3.6h7.2v7.2h-7.2z",
            Marker::Triangle => "m0 -5l4.6 8.2h-9.2z",
            Marker::Diamond => "m0 -5.2l5.2 5.2l-5.2 5.2l-5.2 -5.2z",
            Marker::Cross => "m-4 -4l8 8m0 -8l-8 8",
            Marker::Point => "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z",
        };
        let colour = look.colour;
        let fill = if matches!(look.marker, Marker::Point) { colour } else { "#fff" };
        let _ = writeln!(
            self.out,
            "<path d=\"M{} {}{path}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
            number(x),
            number(y)
        );
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            number(x),
            number(y),
            markup(text)
        );
    }
}

/// A coordinate: a tenth of a pixel is finer than anyone sees.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn text_width(text: &str) -> f64 {
    CHARACTER * precise(text.chars().count() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roxmltree::{Document, Node};

    use super::super::{Axis, Scale, Unit};
    use super::*;

    const TIME: Axis = Axis { label: "gap", scale: Scale::Log, unit: Unit::Time };
    const RATE: Axis = Axis { label: "gaps a second", scale: Scale::Log, unit: Unit::Number };

    fn picture(shape: Shape, y: Axis, series: Vec<Vec<(f64, f64)>>) -> Picture {
        let series = (1..).zip(series).map(|(i, points)| Series { name: format!("arm-{i}"), points }).collect();
        let (name, title, caption) = ("p".to_owned(), "A & B".to_owned(), "See.".to_owned());
        Picture { name, title, caption, x: TIME, y, shape, series }
    }

    /// The data of the paths of strokes: those of the legend, and then those of the plot.
    fn strokes(svg: &str) -> Vec<String> {
        let document = Document::parse(svg).unwrap();
        let strokes = document.descendants().filter(|node| node.has_attribute("stroke-dasharray"));
        strokes.map(|node| node.attribute("d").unwrap().to_owned()).collect()
    }

    fn text(svg: &str, tag: &str) -> String {
        let document = Document::parse(svg).unwrap();
        let text = document.descendants().find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)));
        text.and_then(|node| node.text()).unwrap().to_owned()
    }

    #[test]
    fn it_is_named_and_described() {
        let drawn = draw(&picture(Shape::Line, RATE, vec![vec![(200.0, 1.0), (5e6, 0.1)], vec![(1e3, 0.0)]]), "id");
        assert_eq!(text(&drawn[0], "title"), "A & B");
        assert_eq!(
            text(&drawn[0], "desc"),
            "See. Across: gap; up: gaps a second. arm-1: 200 ns to 5.00 ms. arm-2: nothing to draw."
        );
        assert!(drawn[0].contains("role=\"img\" aria-labelledby=\"id-title id-desc\""));
        assert!(drawn[0].contains(">arm-2: nothing that these axes can show<"));
    }

    #[test]
    fn bars_stand_on_the_axis_and_empty_ones_are_left_out() {
        let points = vec![(1e3, 4.0), (1e4, 0.0), (1e5, 2.0), (1e6, 4.0), (1e7, 0.0)];
        let drawn = draw(&picture(Shape::Bars, RATE, vec![points]), "id");
        let strokes = strokes(&drawn[0]);
        assert_eq!(strokes.len(), 3, "{strokes:?}");
        let commands = |path: &str| path.chars().filter(char::is_ascii_alphabetic).collect::<String>();
        assert_eq!((commands(&strokes[1]).as_str(), commands(&strokes[2]).as_str()), ("MVHV", "MVHVHV"));
        let ground = |path: &str| path[1..].split(['V', 'H']).next().unwrap().split_once(' ').unwrap().1.to_owned();
        assert!(strokes[1].ends_with(&format!("V{}", ground(&strokes[1]))), "{strokes:?}");
    }

    #[test]
    fn steps_hold_their_value_and_lines_do_not() {
        let points = || vec![vec![(1e3, 1.0), (1e4, 2.0), (1e5, 3.0)]];
        let commands = |shape| {
            let drawn = draw(&picture(shape, RATE, points()), "id");
            strokes(&drawn[0])[1].chars().filter(char::is_ascii_alphabetic).collect::<String>()
        };
        assert_eq!((commands(Shape::Steps).as_str(), commands(Shape::Line).as_str()), ("MHVHV", "MLL"));
    }

    #[test]
    fn a_line_is_not_drawn_across_what_cannot_be_shown() {
        let points = vec![(1e3, 1.0), (2e3, 2.0), (1e4, 0.0), (1e5, 3.0), (1e6, 3.5)];
        assert_eq!(strokes(&draw(&picture(Shape::Line, RATE, vec![points]), "id")[0]).len(), 3);
    }

    #[test]
    fn many_series_are_several_drawings_with_the_same_axes() {
        let series = (1..=7).map(|i| vec![(1e3, f64::from(i)), (1e4, f64::from(i) + 1.0)]).collect();
        let drawn = draw(&picture(Shape::Line, RATE, series), "id");
        assert_eq!(
            drawn.iter().map(|svg| text(svg, "title")).collect::<Vec<_>>(),
            ["A & B (1 of 2)", "A & B (2 of 2)"]
        );
        assert!(
            drawn[1].contains("id=\"id-2-title\"") && drawn[1].contains(">arm-7<") && !drawn[1].contains(">arm-4<")
        );
        let labels = |svg: &str| {
            let document = Document::parse(svg).unwrap();
            let ticks = document.descendants().filter(|node| node.attribute("text-anchor") == Some("end"));
            ticks.map(|node| node.text().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(labels(&drawn[0]), labels(&drawn[1]));
    }

    #[test]
    fn no_series_at_all() {
        let drawn = draw(&picture(Shape::Line, RATE, Vec::new()), "id");
        assert_eq!(drawn.len(), 1);
        assert!(drawn[0].contains("nothing to draw"));
    }

    proptest! {
        /// Whatever the points: an XML element whose coordinates lie on it.
        #[test]
        fn any_points_give_a_drawing(
            shape in prop::sample::select(vec![Shape::Line, Shape::Steps, Shape::Bars]),
            scales in prop::array::uniform2(prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Nines])),
            series in prop::collection::vec(
                prop::collection::vec(prop::array::uniform2(prop_oneof![any::<f64>(), 0.0..=1.0, 0.0..1e9]), 0..5),
                0..9,
            ),
        ) {
            let series = series.into_iter().map(|points| points.into_iter().map(|[x, y]| (x, y)).collect()).collect();
            let picture = picture(shape, Axis { scale: scales[1], ..RATE }, series);
            let picture = Picture { x: Axis { scale: scales[0], ..TIME }, ..picture };
            let drawn = draw(&picture, "id");
            prop_assert_eq!(&drawn, &draw(&picture, "id"));
            for svg in &drawn {
                let document = Document::parse(svg).unwrap();
                let size = document.root_element().attribute("viewBox").unwrap();
                let height: f64 = size.strip_prefix("0 0 720 ").unwrap().parse().unwrap();
                for node in document.descendants().filter(Node::is_element) {
                    for (name, limit) in [("x", WIDTH), ("y", height)] {
                        let Some(at) = node.attribute(name) else { continue };
                        prop_assert!((0.0..=limit).contains(&at.parse::<f64>().unwrap()), "{at}");
                    }
                    // Absolute commands come first; markers go on with relative ones.
                    let path = node.attribute("d").unwrap_or_default().split(['m', 'a']).next().unwrap_or_default();
                    for number in path.split(['M', 'L', 'H', 'V', ' ']).filter(|number| !number.is_empty()) {
                        prop_assert!((0.0..=height.max(WIDTH)).contains(&number.parse::<f64>().unwrap()), "{path}");
                    }
                }
            }
        }
    }
}
