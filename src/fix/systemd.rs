//! A drop-in for the service, and the units that do again at each boot what does not outlive one.
//!
//! `systemd-analyze verify` must have nothing to say of them. Sources: systemd.exec(5), systemd.service(5),
//! systemd.resource-control(5).

use super::{Situation, Text, runtime};

/// Those that the script of `--as runtime` answers.
const BY_SCRIPT: &[&str] = &["siblings", "irq_affinity", "governor", "cstate", "thp", "rt_throttle", "isolated"];

pub(super) fn print(situation: &Situation<'_>) -> String {
    let mut text = Text::default();
    situation.head(&mut text, "Units");
    if situation.needs().next().is_none() {
        return text.done();
    }
    text.comment("They last. Each file begins with its path; systemctl daemon-reload makes them known.");
    let has_helper = runtime::is_of_use_at_boot(situation);
    drop_in(situation, has_helper, &mut text);
    if has_helper {
        helper(situation, &mut text);
    }
    // An empty list would ban irqbalance from nothing.
    if let Some(need) = situation.need("irqbalance").filter(|_| !situation.hot.is_empty()) {
        text.blank();
        text.line("# /etc/systemd/system/irqbalance.service.d/quietcore.conf");
        text.comment(&need.headline());
        text.below("irqbalance 1.8.0 and newer; a variable in /etc/default/irqbalance or /etc/sysconfig/irqbalance goes before it. Or: systemctl disable --now irqbalance");
        text.line("[Service]");
        text.line(&format!("Environment=IRQBALANCE_BANNED_CPULIST={}", situation.hot));
    }
    situation.own_texts(&mut text, |remedy| &remedy.persistent);
    text.done()
}

fn drop_in(situation: &Situation<'_>, has_helper: bool, text: &mut Text) {
    let plan = situation.plan();
    text.blank();
    text.line("# /etc/systemd/system/SERVICE.service.d/quietcore.conf");
    if has_helper {
        text.line("[Unit]");
        text.line("Wants=quietcore-runtime.service");
        text.line("After=quietcore-runtime.service");
        text.blank();
    }
    text.line("[Service]");
    text.comment("The gate: the service does not start unless the audit passes. The plan has to lie there. No prefix before the path: with + the audit lacks the unit's limits, with - it is no gate.");
    text.line("ExecStartPre=/usr/bin/quietcore check --plan /etc/quietcore/plan.toml --strict --quiet");
    if !situation.hot.is_empty() {
        let roles = plan.hot.iter().map(|role| format!("{} {}", role.name, role.cpus)).collect::<Vec<_>>().join(", ");
        text.comment(&format!("The hot roles: {roles}. A service of one role takes that role's CPUs."));
        text.line(&format!("CPUAffinity={}", situation.hot));
    }
    if let Some(need) = situation.need("memlock") {
        text.comment(&need.headline());
        let exact =
            plan.locked_memory.map_or_else(String::new, |bytes| format!(" {} is what the plan locks;", bytes.0));
        text.below(format!("{exact} mlockall counts the whole address space, hence no limit").trim_start());
        text.line("LimitMEMLOCK=infinity");
    }
    if plan.realtime {
        text.comment("The plan is real-time. The audit runs under this policy too, on a hot CPU: it is short.");
        text.line("CPUSchedulingPolicy=fifo");
        text.line("CPUSchedulingPriority=50");
        text.line("LimitRTPRIO=50");
    }
    if let Some(need) = situation.need("isolated") {
        text.comment(&need.headline());
        text.below(&format!(
            "at boot: --as cmdline. Or by cpusets: AllowedCPUs={} here, AllowedCPUs={} for the slices of everything else, and the partition that the script below makes; a systemd that knows CPUSetPartition= (2026) can make it here",
            situation.hot, situation.housekeeping
        ));
    }
    for id in ["nohz_full", "rcu_nocbs"] {
        if let Some(need) = situation.need(id) {
            text.comment(&need.headline());
            text.below("no unit answers it: --as cmdline");
        }
    }
}

/// What would have to be typed again after each boot.
fn helper(situation: &Situation<'_>, text: &mut Text) {
    text.blank();
    text.line("# /etc/systemd/system/quietcore-runtime.service");
    for need in BY_SCRIPT.iter().filter_map(|id| situation.need(id)) {
        text.comment(&need.headline());
    }
    text.comment("What does not outlive a reboot, done at each boot: quietcore fix --as runtime > /etc/quietcore/runtime.sh, read, installed; then systemctl enable quietcore-runtime. Lines of drivers that come later are not in it: the gate says so.");
    text.line("[Unit]");
    text.line("Description=Host settings for the plan of quietcore");
    text.line("After=irqbalance.service network-online.target");
    text.line("Wants=network-online.target");
    text.blank();
    text.line("[Service]");
    text.line("Type=oneshot");
    text.line("RemainAfterExit=yes");
    text.line("ExecStart=/bin/sh /etc/quietcore/runtime.sh");
    text.blank();
    text.line("[Install]");
    text.line("WantedBy=multi-user.target");
}
