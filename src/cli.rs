//! The command line: what a user types, and its help.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::cpuset::MAX_CPU;
use crate::exit;
use crate::fix::Form;
use crate::output::{DiffFormat, Format};
use crate::preflight::{Options, Packs};
use crate::rule::pack::{self, PACKS};

const EXAMPLES: &str = "\
Examples:
  quietcore check                               this host, for a suggested plan
  quietcore check --plan plan.toml              this host, for your plan
  quietcore check --plan plan.toml --root DIR   a captured tree
  quietcore plan suggest > plan.toml            a plan to begin with
  quietcore capture host.tar                    this host, as far as it is read";

/// The table of exit codes and some examples.
fn after_help() -> String {
    let codes = exit::TABLE.iter().map(|(code, meaning)| format!("  {code}  {meaning}\n"));
    format!("Exit codes:\n{}\n{EXAMPLES}", codes.collect::<String>())
}

/// Is this host tuned for the latency-critical process that it is about to run?
///
/// A plan says which CPUs are hot, rules say what a hot CPU needs. quietcore reads the host's own /proc and /sys, or a
/// tree with their layout, and gives a verdict per rule with its evidence. It changes nothing.
#[derive(Debug, Parser)]
#[command(name = "quietcore", version, after_help = after_help(), max_term_width = 79, arg_required_else_help = true)]
pub struct Cli {
    /// Colour: auto, always or never; auto heeds NO_COLOR and CLICOLOR_FORCE
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        display_order = 900
    )]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Audit a host for a plan
    Check(CheckArgs),
    /// Audit a host for a plan, then become the command, or refuse to
    ///
    /// When the audit passes, the command takes over the process: same pid, standard streams, signal mask and dispositions.
    /// Standard error gets one line before, standard output nothing. When it does not pass, the exit code is the audit's and
    /// nothing is started; standard error says what did not pass.
    Gate(GateArgs),
    /// Make a plan for a host, or hold one against it
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Look at the rules and what they are made of
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Copy what an audit reads of a host into a tree that audits like it
    Capture(CaptureArgs),
    /// Audit two trees for one plan and show what changed
    ///
    /// The exit code is 1 when a required rule got worse.
    Diff(DiffArgs),
    /// Explain a rule, or map what may happen on a CPU
    Explain(ExplainArgs),
    /// Print how to mend what fails, for this host and plan; nothing is applied
    Fix(FixArgs),
    /// Measure what tuning is worth: runs quietcore-bench, which has its own --help
    #[command(disable_help_flag = true)]
    Bench {
        /// The arguments of quietcore-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
        args: Vec<OsString>,
    },
    /// Print the parts of the documentation that are made from the program
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

/// An element of a list: `--only 'thp, cstate'` has blanks that belong to none.
#[expect(clippy::unnecessary_wraps, reason = "what clap takes for a parser returns a result")]
fn trimmed(element: &str) -> Result<String, Infallible> {
    Ok(element.trim().to_owned())
}

/// What may stand in `--packs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackArg {
    /// `all`.
    All,
    /// The name of a pack.
    Named(&'static str),
}

/// The word for all packs.
const ALL_PACKS: &str = "all";

impl PackArg {
    fn parse(word: &str) -> Result<Self, String> {
        let word = word.trim();
        if word == ALL_PACKS {
            return Ok(Self::All);
        }
        pack::find(word).map(|pack| Self::Named(pack.name)).ok_or_else(|| pack::hint(word))
    }

    /// The names; none where all packs are meant.
    fn names(these: &[Self]) -> Option<Vec<&'static str>> {
        let name = |arg: &Self| match arg {
            Self::All => None,
            Self::Named(name) => Some(*name),
        };
        these.iter().map(name).collect()
    }
}

/// The packs and what they are about, for the help of `check` and `gate`.
fn packs_help() -> String {
    let width = PACKS.iter().map(|pack| pack.name.len()).max().unwrap_or(0);
    let line = |pack: &pack::Pack| {
        let text = textwrap::fill(pack.about, textwrap::Options::new(75 - width));
        let mut lines = text.lines();
        let first = format!("  {:width$}  {}\n", pack.name, lines.next().unwrap_or_default());
        lines.fold(first, |text, line| format!("{text}  {:width$}  {line}\n", ""))
    };
    format!("Packs:\n{}", PACKS.iter().map(line).collect::<String>().trim_end())
}

/// The packs of rules that a host is held against.
#[derive(Args, Debug)]
pub struct PackArgs {
    /// Judge only the rules of these packs, and those that the plan requires. Default: all
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = PackArg::parse)]
    pub packs: Vec<PackArg>,
}

impl PackArgs {
    /// As the library takes them.
    pub fn packs(&self) -> Packs {
        match PackArg::names(&self.packs) {
            Some(names) if !names.is_empty() => Packs::These(names),
            _ => Packs::All,
        }
    }
}

/// What a host is held against.
#[derive(Args, Debug)]
pub struct AuditArgs {
    /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
    /// Judge only these rules, whatever their packs
    #[arg(long, value_name = "ID,...", value_delimiter = ',', value_parser = trimmed)]
    pub only: Vec<String>,
    /// Leave these rules out
    #[arg(long, value_name = "ID,...", value_delimiter = ',', value_parser = trimmed)]
    pub skip: Vec<String>,
    /// A file of waivers: failures that are accepted, by whom, why and until when
    #[arg(long, value_name = "FILE")]
    pub waivers: Option<PathBuf>,
    /// Exit with 3 when nothing failed but a required rule could not be judged
    #[arg(long)]
    pub strict: bool,
}

impl AuditArgs {
    /// As the library takes them, for one root.
    pub fn options(&self, root: &Path, packs: Packs) -> Options {
        Options {
            root: root.to_owned(),
            rules: self.rules.clone(),
            packs,
            only: self.only.clone(),
            skip: self.skip.clone(),
            waivers: self.waivers.clone(),
            strict: self.strict,
        }
    }
}

/// `quietcore check`.
#[derive(Args, Debug)]
#[command(after_help = packs_help())]
pub struct CheckArgs {
    /// The plan; without one the host is judged for a plan made for it
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// The folder to read instead of the live host; may be repeated: a report each, and all verdicts side by side
    #[arg(long = "root", value_name = "DIR", default_value = "/")]
    pub roots: Vec<PathBuf>,
    /// By which packs.
    #[command(flatten)]
    pub packs: PackArgs,
    /// By which rules and waivers.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// The format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: Format,
    /// Write the report to this file, as a whole or not at all, and nothing to standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only what did not pass, and the summary
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also each file with the text read
    #[arg(long, short)]
    pub verbose: bool,
}

const GATE_HELP: &str = "\
Further exit codes, of a command that could not be started:
  126  it is there and cannot be run, or the process cannot be pinned
  127  it was not found

Examples:
  quietcore gate --plan plan.toml -- /usr/bin/feed --config feed.toml
  quietcore gate --plan plan.toml --strict --role feed -- /usr/bin/feed";

/// The packs, and what is to know of the command.
fn gate_help() -> String {
    format!("{}\n\n{GATE_HELP}", packs_help())
}

/// `quietcore gate`.
#[derive(Args, Debug)]
#[command(after_help = gate_help())]
pub struct GateArgs {
    /// The plan
    #[arg(long, value_name = "PLAN")]
    pub plan: PathBuf,
    /// The folder to read instead of the live host
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Judge the rules of these packs too, or all. Default: only what can decide, the base and what the plan requires
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = PackArg::parse)]
    pub packs: Vec<PackArg>,
    /// By which rules and waivers.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Pin to the CPUs of this role of the plan before becoming the command
    #[arg(long, value_name = "NAME")]
    pub role: Option<String>,
    /// The format of the report; one for machines goes to standard output when the audit does not pass
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: Format,
    /// Write the report to this file, as a whole or not at all, whether the audit passes or not
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Say nothing when the audit passes
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// The whole report on standard error, also each file with the text read
    #[arg(long, short)]
    pub verbose: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl GateArgs {
    /// The packs, as the library takes them.
    pub fn packs(&self) -> Packs {
        PackArg::names(&self.packs).map_or(Packs::All, Packs::Deciding)
    }
}

/// `quietcore capture`.
#[derive(Args, Debug)]
pub struct CaptureArgs {
    /// A new or empty folder, or a new file whose name ends in .tar
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// The folder to copy from instead of the live host
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Leave the host's name where it stands in what is copied, as on the boot line
    #[arg(long)]
    pub keep_hostname: bool,
}

/// `quietcore diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The tree before: a folder, not an archive
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The tree after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// The plan
    #[arg(long, value_name = "PLAN")]
    pub plan: PathBuf,
    /// By which packs.
    #[command(flatten)]
    pub packs: PackArgs,
    /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
    /// The format of the comparison
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: DiffFormat,
}

/// `quietcore plan`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Print a plan made for the host: one physical core a hot role, its siblings idle, the rest housekeeping
    Suggest {
        /// The interface that the hot path serves: its NUMA node is used
        #[arg(long, value_name = "IFACE")]
        nic: Option<String>,
        /// The hot roles, one core each. Default: at most two, on the node of --nic or of the default route
        #[arg(long, value_name = "ROLE,...", value_delimiter = ',', value_parser = trimmed)]
        hot: Vec<String>,
        /// Roles that share the highest housekeeping CPU
        #[arg(long, value_name = "ROLE,...", value_delimiter = ',', value_parser = trimmed)]
        cold: Vec<String>,
        /// The folder to read instead of the live host
        #[arg(long, value_name = "DIR", default_value = "/")]
        root: PathBuf,
    },
    /// Check a plan, alone and against the CPUs, cores and nodes of a host
    Check {
        /// The plan
        plan: PathBuf,
        /// The folder to read instead of the live host
        #[arg(long, value_name = "DIR", default_value = "/")]
        root: PathBuf,
        /// A folder of rule files that the plan names rules of; may be repeated
        #[arg(long, value_name = "DIR")]
        rules: Vec<PathBuf>,
    },
    /// Print the JSON Schema of plans, for editors
    Schema,
}

/// `quietcore rules`.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// List the rules by packs, with their levels and titles
    List {
        /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
        #[arg(long, value_name = "DIR")]
        rules: Vec<PathBuf>,
    },
    /// Print the file of a rule
    Show {
        /// The rule's id
        id: String,
        /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
        #[arg(long, value_name = "DIR")]
        rules: Vec<PathBuf>,
    },
    /// Check the rule files of a folder, or the built-in ones
    Lint {
        /// The folder
        dir: Option<PathBuf>,
    },
    /// List the facts that rules may name, with their types
    Facts,
    /// Print the JSON Schema of rule files, for editors
    Schema,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  quietcore explain isolated
  quietcore explain cpu 21 --plan plan.toml";

/// `quietcore explain`.
#[derive(Args, Debug)]
#[command(
    after_help = EXPLAIN_EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct ExplainArgs {
    /// The rule's id
    #[arg(required = true)]
    pub id: Option<String>,
    /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
    /// What to explain instead of a rule.
    #[command(subcommand)]
    pub of: Option<ExplainCommand>,
}

/// What can be explained beside rules.
#[derive(Debug, Subcommand)]
pub enum ExplainCommand {
    /// Map what may run, fire, tick or call back on a CPU, and which rule is about it
    Cpu(ExplainCpuArgs),
}

/// `quietcore explain cpu`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quietcore explain cpu 21 --plan plan.toml")]
pub struct ExplainCpuArgs {
    /// The CPU's number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_CPU)))]
    pub cpu: u32,
    /// The plan
    #[arg(long, value_name = "PLAN")]
    pub plan: PathBuf,
    /// The folder to read instead of the live host
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
}

const FIX_EXAMPLES: &str = "\
Examples:
  quietcore fix --plan plan.toml                 everything, in four parts
  quietcore fix --plan plan.toml --as runtime > fix.sh
  quietcore fix --plan plan.toml --as cmdline    the boot line

Read what it prints before you run it. quietcore applies nothing.";

/// `quietcore fix`.
#[derive(Args, Debug)]
#[command(after_help = FIX_EXAMPLES)]
pub struct FixArgs {
    /// The plan
    #[arg(long, value_name = "PLAN")]
    pub plan: PathBuf,
    /// The folder to read instead of the live host
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Only this form
    #[arg(long = "as", value_name = "FORM")]
    pub form: Option<Form>,
    /// By which packs.
    #[command(flatten)]
    pub packs: PackArgs,
    /// A folder of rule files that add to the built-in rules or shadow one by id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,
    /// A file of waivers: failures that are accepted need no mending
    #[arg(long, value_name = "FILE")]
    pub waivers: Option<PathBuf>,
}

/// `quietcore generate`: for maintainers, and for packages that ship the documentation.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// The facts as a Markdown table
    Vocabulary,
    /// The built-in rules as a Markdown table
    Rules,
    /// The manual pages, one a subcommand, into a folder that is there
    Man {
        /// The folder
        dir: PathBuf,
    },
    /// The completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}
