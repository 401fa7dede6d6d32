//! A TuneD profile.
//!
//! Source: the plugins cpu, vm, irqbalance, scheduler, sysctl and bootloader of TuneD 2.2x.

use super::{Situation, Text, cmdline};
use crate::fact::Value;
use crate::reading::Reading;

pub(super) fn print(situation: &Situation<'_>) -> String {
    let mut text = Text::default();
    situation.head(&mut text, "A TuneD profile");
    if situation.needs().next().is_none() {
        return text.done();
    }
    text.comment("It lasts. As /etc/tuned/quietcore/tuned.conf, then: tuned-adm profile quietcore");
    text.comment("No parent: each line answers a failure. include=network-latency adds what quietcore does not judge; this profile's own lines go before it.");
    text.blank();
    text.line("[main]");
    text.line("summary=Host settings for the plan of quietcore");
    cpu(situation, &mut text);
    thp(situation, &mut text);
    interrupts(situation, &mut text);
    if let Some(need) = situation.need("rt_throttle") {
        section(&mut text, "sysctl", &need.headline());
        text.below("fair_server (6.12) is no sysctl and comes after it: --as systemd");
        text.line("kernel.sched_rt_runtime_us=-1");
    }
    bootloader(situation, &mut text);
    for (id, instead) in [("memlock", "a limit of the process: --as systemd"), ("siblings", SIBLINGS)] {
        if let Some(need) = situation.need(id) {
            text.blank();
            text.comment(&need.headline());
            text.below(instead);
        }
    }
    situation.own_texts(&mut text, |remedy| &remedy.persistent);
    text.done()
}

const SIBLINGS: &str = "no plugin takes CPUs offline: isolated by the boot line above, or offline by --as systemd";

fn section(text: &mut Text, name: &str, headline: &str) {
    text.blank();
    text.line(&format!("[{name}]"));
    text.comment(headline);
}

fn cpu(situation: &Situation<'_>, text: &mut Text) {
    let governor = situation.need("governor");
    let cstate = situation.need("cstate");
    if governor.is_none() && cstate.is_none() {
        return;
    }
    text.blank();
    text.line("[cpu]");
    if let Some(need) = governor {
        text.comment(&need.headline());
        text.below("of every CPU, not of hot ones alone");
        text.line("governor=performance");
    }
    if let Some(need) = cstate {
        let limit = match situation.observe("plan.max_wakeup_latency").map(|limit| limit.reading.clone()) {
            Some(Reading::Value(Value::Micros(limit))) => limit.0,
            _ => 0,
        };
        text.comment(&need.headline());
        text.below("a request that tuned holds for all CPUs as long as it runs, in microseconds");
        text.line(&format!("force_latency={limit}"));
    }
}

fn thp(situation: &Situation<'_>, text: &mut Text) {
    let Some(need) = situation.need("thp") else { return };
    section(text, "vm", &need.headline());
    if situation.word("thp.enabled").is_none_or(|mode| mode == "always") {
        text.below("ignored where the boot line has a transparent_hugepage=");
        text.line("transparent_hugepages=madvise");
    }
    if situation.word("thp.defrag").is_none_or(|mode| mode == "always") {
        text.line("transparent_hugepage.defrag=madvise");
    }
}

fn interrupts(situation: &Situation<'_>, text: &mut Text) {
    // An empty list of banned CPUs means that none is.
    if situation.hot.is_empty() {
        return;
    }
    if let Some(need) = situation.need("irqbalance") {
        section(text, "irqbalance", &need.headline());
        text.below("needs /etc/sysconfig/irqbalance; elsewhere: --as systemd");
        text.line(&format!("banned_cpus={}", situation.hot));
    }
    if let Some(need) = situation.need("irq_affinity") {
        section(text, "scheduler", &need.headline());
        text.below("takes tasks, lines that can be moved and the default mask off these CPUs");
        text.line(&format!("isolated_cores={}", situation.hot));
    }
}

fn bootloader(situation: &Situation<'_>, text: &mut Text) {
    let wanted = cmdline::wanted(situation);
    let parameters = wanted.parameters();
    if parameters.is_empty() {
        return;
    }
    text.blank();
    text.line("[bootloader]");
    text.comment(&format!("{}: after a reboot; what --as cmdline says of each", wanted.answers().join(", ")));
    text.below("TuneD adds and takes nothing away: what stands in the boot loader's own configuration goes first, and of two isolcpus= the kernel refuses the second");
    text.line(&format!("cmdline_quietcore={parameters}"));
}
