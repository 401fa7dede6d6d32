//! All measurements in order, one result: each with its report, and what was expected beside what came.

pub mod compare;
pub mod orders;

use std::fmt;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::experiment::{Experiment, Interrupted, MEASUREMENTS, Measurement};
use crate::gate::Audit;
use crate::options;
use crate::page::{self, Overview};
use crate::report::{Report, SCHEMA, make_folder, write_file};
use crate::session::Session;
use crate::table::Table;
use crate::text;
use orders::{ORDERS, Outcome};

/// What a measurement is asked for in the lab where that is not its default.
const ASKED: &[(&str, &[&str])] = &[("hiccups", &["--scenario", "all"])];

/// The result of a lab.
#[derive(Debug, Serialize)]
pub struct Lab {
    schema: u32,
    measurement: &'static str,
    audit: Audit,
    /// The reports, in the order in which they were measured.
    pub measurements: Vec<Report>,
    /// The measurements that did not take place.
    pub broken: Vec<Broken>,
    /// What was expected of these measurements.
    pub orders: Vec<Outcome>,
}

/// A measurement that did not take place.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    /// Which.
    pub measurement: &'static str,
    /// Why.
    pub error: String,
}

/// The measurements that are neither left out by `only` nor by `skip`, in the order of the table. The error is a name that
/// there is not.
pub fn choose(only: &[String], skip: &[String]) -> Result<Vec<&'static Measurement>, String> {
    let is_known = |name: &&String| MEASUREMENTS.iter().any(|row| row.name == name.as_str());
    if let Some(name) = only.iter().chain(skip).find(|name| !is_known(name)) {
        let names: Vec<&str> = MEASUREMENTS.iter().map(|row| row.name).collect();
        return Err(format!("no measurement `{name}`; there are {}", names.join(", ")));
    }
    let has = |names: &[String], row: &Measurement| names.iter().any(|name| name == row.name);
    let chosen = MEASUREMENTS.iter().filter(|row| only.is_empty() || has(only, row)).filter(|row| !has(skip, row));
    Ok(chosen.collect())
}

/// Makes a measurement as the lab asks for it.
fn build(row: &Measurement) -> Result<Box<dyn Experiment>, clap::Error> {
    let asked = ASKED.iter().find(|(name, _)| *name == row.name).map_or(&[][..], |(_, asked)| asked);
    (row.build)(&options::command(row).no_binary_name(true).try_get_matches_from(asked)?)
}

impl Lab {
    /// Runs `chosen` one after the other. A measurement that breaks off does not keep the others from running; the user does.
    pub fn run(chosen: &[&'static Measurement], session: &Session<'_>) -> anyhow::Result<Lab> {
        let (mut measurements, mut broken) = (Vec::new(), Vec::new());
        for row in chosen {
            match session.measure(row.name, build(row)?.as_ref()) {
                Ok(report) => measurements.push(report),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => broken.push(Broken { measurement: row.name, error: format!("{error:#}") }),
            }
        }
        let orders = ORDERS.iter().filter_map(|order| order.look(&measurements)).collect();
        let audit = session.audit.clone();
        Ok(Lab { schema: SCHEMA, measurement: "lab", audit, measurements, broken, orders })
    }

    /// Did everything take place, and hold that a run depends on?
    pub fn holds(&self) -> bool {
        self.measurements.iter().all(Report::holds)
    }

    /// The JSON text, with a line break at the end.
    pub fn json(&self) -> serde_json::Result<String> {
        text::json(self)
    }

    /// Writes `lab.json`, the page `lab.html` and the files of each report into `folder`, which is made where it is missing.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        make_folder(folder)?;
        for report in &self.measurements {
            report.save(folder)?;
        }
        write_file(&folder.join("lab.json"), |out| out.write_all(self.json()?.as_bytes()))?;
        write_file(&folder.join("lab.html"), |out| out.write_all(self.page().as_bytes()))
    }

    /// All reports on one page.
    fn page(&self) -> String {
        let reports: Vec<&Report> = self.measurements.iter().collect();
        let overview = Overview { table: self.overview(), remarks: self.remarks() };
        page::html(self.measurement, &reports, Some(&overview))
    }

    /// What did not take place, and why something differs from what was expected.
    fn remarks(&self) -> Vec<String> {
        let broken = self
            .broken
            .iter()
            .map(|Broken { measurement, error }| format!("{measurement}: did not take place: {error}"));
        let differ = self.orders.iter().filter(|outcome| !outcome.holds);
        broken.chain(differ.map(|outcome| format!("{} differs: {}", outcome.what, outcome.reason))).collect()
    }

    /// What was expected beside what came, as a table for a human.
    pub fn overview(&self) -> Table {
        let mut table = Table::new(
            "expected on 3-4 GHz x86-64 without a hypervisor, and measured here",
            &["", "expected", "measured", ""],
        );
        for outcome in &self.orders {
            let word = if outcome.holds { "holds" } else { "differs" };
            table.rows.push(vec![
                outcome.what.to_owned(),
                outcome.expected.clone(),
                outcome.measured.clone(),
                word.to_owned(),
            ]);
        }
        table
    }
}

impl fmt::Display for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.measurements {
            writeln!(f, "{report}")?;
        }
        if !self.orders.is_empty() {
            writeln!(f, "{}", self.overview())?;
        }
        self.remarks().iter().try_for_each(|remark| writeln!(f, "{remark}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str], skip: &[&str]) -> Result<Vec<&'static str>, String> {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        choose(&own(only), &own(skip)).map(|chosen| chosen.iter().map(|row| row.name).collect())
    }

    #[test]
    fn chosen_in_the_order_of_the_table() {
        let all: Vec<_> = MEASUREMENTS.iter().map(|row| row.name).collect();
        assert_eq!(names(&[], &[]).unwrap(), all);
        assert_eq!(names(&["echo", "hiccups"], &[]).unwrap(), ["hiccups", "echo"]);
        assert_eq!(names(&[], &["echo"]).unwrap(), all[..all.len() - 1]);
        assert!(names(&["hickups"], &[]).unwrap_err().starts_with("no measurement `hickups`; there are hiccups, "));
    }

    #[test]
    fn every_measurement_can_be_made_as_the_lab_asks() {
        for row in MEASUREMENTS {
            assert!(build(row).is_ok(), "{}", row.name);
        }
        assert!(ASKED.iter().all(|(name, _)| MEASUREMENTS.iter().any(|row| row.name == *name)));
    }
}
