//! Lists of CPUs: `isolcpus=`, `nohz_full=`, `rcu_nocbs=`, `irqaffinity=`.

use super::{Boot, Fate, hint, overridden};
use crate::cpuset::{BootGrammar, CpuSet};
use crate::fact::cmdline::housekeeping::{Asked, Feature, Taken};
use crate::fact::cmdline::{BAD_NOCBS_MEAN_ALL_SINCE, BOOT_CPU, Param, Refusal, kernel_bool, parse_nocbs};
use crate::fact::host::quoted;
use crate::fact::kernel::{self, BuildOption};
use crate::fact::{Cause, Doubt, Source, Value, cgroup, cpu, irq};
use crate::reading::{Reading, quote};

/// From this version on `rcu_nocbs` may stand without a list.
const BARE_NOCBS_SINCE: (u32, u32) = (5, 17);

/// What the files show of what was asked for.
#[derive(Debug)]
struct Effect {
    /// Each file shows the list that was asked for, and no other CPU.
    is_exact: bool,
    is_any_shown: bool,
    /// The kernel was built without the feature.
    is_not_built: bool,
    missing: Option<Missing>,
    doubt: Option<Doubt>,
}

#[derive(Debug)]
struct Missing {
    path: &'static str,
    shown: CpuSet,
    lacking: CpuSet,
}

impl Default for Effect {
    fn default() -> Self {
        Self { is_exact: true, is_any_shown: false, is_not_built: false, missing: None, doubt: None }
    }
}

impl Effect {
    /// All that shows is as it was asked for.
    fn is_full(&self) -> bool {
        self.is_any_shown && !self.is_not_built && self.missing.is_none() && self.doubt.is_none()
    }
}

/// Does what an occurrence asks for show in the files?
fn effect(boot: &mut Boot<'_, '_>, asked: &Asked) -> Effect {
    let mut effect = Effect::default();
    for feature in &asked.features {
        let path = match feature {
            Feature::Domain => cgroup::ISOLATED,
            Feature::Tick => cpu::NOHZ_FULL,
            Feature::ManagedIrq => continue,
        };
        match boot.look.read(path).parse(CpuSet::parse_list) {
            Reading::Value(shown) => {
                effect.is_exact &= shown == asked.cpus;
                effect.is_any_shown = true;
                let lacking = &asked.cpus - &shown;
                if !lacking.is_empty() {
                    effect.missing.get_or_insert(Missing { path, shown, lacking });
                }
            }
            Reading::NotExposed if path == cpu::NOHZ_FULL && boot.look.host.possible().is_some() => {
                effect.is_not_built = true;
            }
            other => effect.doubt = effect.doubt.take().or_else(|| Doubt::of(path, &other)),
        }
    }
    effect
}

/// Why a list is refused, with what is odd about it. `newest` says whether newer kernels take it.
fn list_refused(param: &Param, refusal: &Refusal, is_good_elsewhere: bool) -> String {
    let hint = match hint(param) {
        "" if matches!(refusal, Refusal::List(_)) && is_good_elsewhere => {
            " (newer kernels read it: strides from 4.11 on, N from 5.13, all from 5.14)"
        }
        hint => hint,
    };
    match refusal {
        Refusal::List(error) => format!("{error}{hint}, and one bad part voids the whole list"),
        other => format!("{other}{hint}"),
    }
}

pub(super) fn isolation(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    if param.value.is_none() {
        return Fate::ignored("without a list it is no parameter, and the kernel hands the word to init");
    }
    let newest = BootGrammar::newest(boot.grammar.last);
    let asked = Asked::of(param, newest, None).and_then(Result::ok);
    let effect = asked.as_ref().map(|asked| effect(boot, asked));
    let is_full = effect.as_ref().is_some_and(Effect::is_full);
    let place = |at: usize| quoted(&boot.param(at).to_string());
    let taken = boot.taken.iter().find(|(place, _)| *place == at).map(|(_, taken)| taken.clone());
    match taken {
        None => Fate::Unjudged,
        // Distributions carry grammars back to older kernels: the list that shows was taken.
        Some(Taken::Refused(_) | Taken::Shared(_)) if is_full => Fate::Shown,
        Some(Taken::Occupied(_)) if is_full && effect.as_ref().is_some_and(|effect| effect.is_exact) => Fate::Shown,
        Some(Taken::Refused(refusal)) => Fate::Ignored(list_refused(param, &refusal, asked.is_some())),
        Some(Taken::Occupied(first)) => {
            Fate::Ignored(format!("{} came first, and the kernel refuses a second list for what has one", place(first)))
        }
        Some(Taken::Shared(first)) => Fate::Ignored(format!(
            "{} came first, and up to Linux 5.17 isolcpus= and nohz_full= share one list",
            place(first)
        )),
        Some(Taken::Overridden(last)) => overridden(boot.param(last)),
        Some(Taken::Accepted(asked)) => accepted(boot, &asked, effect.unwrap_or_default()),
    }
}

fn accepted(boot: &Boot<'_, '_>, asked: &Asked, effect: Effect) -> Fate {
    if asked.features.contains(&Feature::Tick) {
        if effect.is_not_built {
            return Fate::ignored(
                "this kernel was built without adaptive ticks (no nohz_full file: CONFIG_NO_HZ_FULL)",
            );
        }
        if let Some((nohz, false)) = boot.line.last_accepted("nohz", kernel_bool) {
            return Fate::Ignored(format!("{} keeps the tick on every CPU", quoted(&nohz.to_string())));
        }
    }
    if let Some(Missing { path, shown, lacking }) = effect.missing {
        let shown = Value::Cpus(shown);
        if lacking == CpuSet::from_range(BOOT_CPU..=BOOT_CPU) {
            return Fate::Ignored(format!("the kernel takes out CPU {BOOT_CPU}, which boots, and leaves {shown}"));
        }
        return Fate::Ignored(format!("{path} has {shown}, and nothing on the line says why"));
    }
    if let Some(doubt) = effect.doubt {
        return Fate::Open(doubt);
    }
    if let Some(flag) = asked.skipped.first() {
        let meant = crate::problem::did_you_mean(flag, ["domain", "managed_irq", "nohz"]);
        let meant = meant.map_or_else(String::new, |meant| format!(" ({meant}?)"));
        return Fate::Ignored(format!("the kernel knows no flag `{}` and skips it{meant}", quote(flag)));
    }
    if effect.is_any_shown { Fate::Shown } else { Fate::Taken }
}

pub(super) fn rcu_nocbs(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    if let Some(last) = boot.line.all("rcu_nocbs").last().filter(|last| last.value != param.value) {
        return overridden(last);
    }
    let is_before = |version| boot.version.is_some_and(|ours| ours < version);
    let Some(value) = &param.value else {
        return Fate::ignored(if is_before(BARE_NOCBS_SINCE) {
            "without a list it is no parameter before Linux 5.17, and the kernel hands the word to init"
        } else {
            "without a list it readies the kernel to offload callbacks later, and offloads no CPU"
        });
    };
    match parse_nocbs(value, boot.grammar) {
        Ok(cpus) if cpus.is_empty() => Fate::ignored("the list is empty, and no CPU is offloaded"),
        Ok(_) => is_offloading_known(boot, param),
        Err(error) if is_before(BAD_NOCBS_MEAN_ALL_SINCE) => Fate::Ignored(format!(
            "{error}{}, and what stands before that is all that counts, if anything",
            hint(param)
        )),
        Err(error) => Fate::Ignored(format!("{error}{}, and of a bad list the kernel makes all CPUs", hint(param))),
    }
}

/// No file shows which CPUs are offloaded. That the kernel can do it at all shows in its threads, in how it was built, or in
/// what it did not hand to init.
fn is_offloading_known(boot: &mut Boot<'_, '_>, param: &Param) -> Fate {
    let not_built = "this kernel was built without offloading of RCU callbacks (CONFIG_RCU_NOCB_CPU)";
    let processes = boot.look.host.processes();
    if let Reading::Value(processes) = processes
        && processes.has_named(|name| name.starts_with("rcuo"))
    {
        boot.look.source(Source::summary("proc/*/comm", "threads named rcuo".to_owned()));
        return Fate::Shown;
    }
    match kernel::config(&mut boot.look, BuildOption::RcuNocbCpu) {
        Reading::Value(true) => return Fate::Taken,
        Reading::Value(false) => return Fate::ignored(not_built),
        _ => {}
    }
    // Where something of the line was handed over, this would have been too.
    if let Some(handed) = boot.handed.as_ref().filter(|handed| !handed.is_empty()) {
        return if handed.contains(&param.to_string()) { Fate::ignored(not_built) } else { Fate::Taken };
    }
    if let Reading::Value(processes) = processes
        && processes.has_named(|name| matches!(name, "rcu_sched" | "rcu_preempt" | "rcu_gp"))
    {
        boot.look.source(Source::summary("proc/*/comm", "no thread named rcuo".to_owned()));
        return Fate::Ignored(format!("no thread named rcuo runs, so {not_built}"));
    }
    let reason = "neither a thread named rcuo nor the kernel's configuration shows that it is in force".to_owned();
    Fate::Open(Doubt { cause: Cause::NotExposed, what: quote(&param.to_string()), reason })
}

pub(super) fn irqaffinity(boot: &mut Boot<'_, '_>, at: usize) -> Fate {
    let param = boot.param(at);
    let Some(value) = &param.value else {
        return Fate::ignored("without a list it is no parameter, and the kernel hands the word to init");
    };
    if let Some(last) = boot.line.all("irqaffinity").last().filter(|last| last.value != param.value) {
        return overridden(last);
    }
    let mut asked = match CpuSet::parse_boot_list(value, boot.grammar) {
        Ok(asked) => asked,
        Err(error) => {
            let hint = hint(param);
            return Fate::Ignored(format!(
                "{error}{hint}, and what stands before that and the boot CPU are all that counts"
            ));
        }
    };
    asked.insert(BOOT_CPU);
    let mask = boot.look.read(irq::DEFAULT).parse(CpuSet::parse_mask);
    let Reading::Value(mask) = mask.map(|mask| boot.look.host.within_possible(mask)) else {
        return Fate::open(irq::DEFAULT, &boot.look.host.text(irq::DEFAULT).parse(CpuSet::parse_mask));
    };
    let added = &mask - &asked;
    if added.is_empty() {
        return Fate::Shown;
    }
    Fate::Ignored(format!("{} has CPUs {added} too: it was changed since", irq::DEFAULT))
}
