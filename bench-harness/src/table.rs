//! A table for a human: names to the left, figures to the right.

use std::fmt::{self, Write};

use crate::experiment::Row;

/// A table. Every row has as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What the figures are, one line.
    pub title: String,
    /// The columns, the first one that of names. Two lines where a `\n` stands.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Table { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds what `row` found: of each figure its name in the JSON and how many decimals it gets. What it does not have is
    /// a dash.
    pub fn push(&mut self, row: &Row, figures: &[(&str, usize)]) {
        let cell = |&(name, decimals): &(&str, usize)| {
            row.figure(name).map_or("-".to_owned(), |figure| format!("{figure:.decimals$}"))
        };
        self.rows.push(std::iter::once(row.name.clone()).chain(figures.iter().map(cell)).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<Vec<&str>> = self.columns.iter().map(|column| column.split('\n').collect()).collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(i, head)| {
                let cells = self.rows.iter().filter_map(|row| row.get(i)).map(String::as_str);
                cells.chain(head.iter().copied()).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (i, (cell, width)) in cells.zip(&widths).enumerate() {
                match i {
                    0 => write!(text, "{cell:<width$}")?,
                    _ => write!(text, "  {cell:>width$}")?,
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        if !self.title.is_empty() {
            line(&mut std::iter::once(self.title.as_str()))?;
        }
        for i in 0..height {
            // Heads stand on the rows: the shorter ones begin lower.
            line(&mut heads.iter().map(|head| (i + head.len()).checked_sub(height).map_or("", |i| head[i])))?;
        }
        self.rows.iter().try_for_each(|row| line(&mut row.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new("per scenario", &["scenario", "lost\n%", "worst\nus"]);
        table.rows.push(vec!["alone".to_owned(), "0.05".to_owned(), "12".to_owned()]);
        table.rows.push(vec!["shared".to_owned(), "51".to_owned(), "4012.5".to_owned()]);
        let expected = "per scenario\n          lost   worst\nscenario     %      us\nalone     0.05      12\nshared      51  4012.5\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn figures_of_a_row() {
        let mut table = Table::new("", &["", "ns", "cycles", "p50"]);
        let row = Row::figures("getpid", [("ns", 115.25.into()), ("cycles", serde_json::Value::Null)]);
        table.push(&row, &[("ns", 1), ("cycles", 1), ("p50", 0)]);
        assert_eq!(table.rows, [["getpid", "115.2", "-", "-"]]);
    }
}
