//! The rules that are built in, in report order: by packs, the base eleven first.

/// Ids and texts.
pub static FILES: &[(&str, &str)] = &[
    // base
    ("isolated", include_str!("../../rules/isolated.toml")),
    ("siblings", include_str!("../../rules/siblings.toml")),
    ("nohz_full", include_str!("../../rules/nohz_full.toml")),
    ("rcu_nocbs", include_str!("../../rules/rcu_nocbs.toml")),
    ("irq_affinity", include_str!("../../rules/irq_affinity.toml")),
    ("irqbalance", include_str!("../../rules/irqbalance.toml")),
    ("governor", include_str!("../../rules/governor.toml")),
    ("cstate", include_str!("../../rules/cstate.toml")),
    ("thp", include_str!("../../rules/thp.toml")),
    ("memlock", include_str!("../../rules/memlock.toml")),
    ("rt_throttle", include_str!("../../rules/rt_throttle.toml")),
    // topology
    ("plan_topology", include_str!("../../rules/plan_topology.toml")),
    ("nic_node", include_str!("../../rules/nic_node.toml")),
    // delivery
    ("effective_irq", include_str!("../../rules/effective_irq.toml")),
    ("managed_irq", include_str!("../../rules/managed_irq.toml")),
    ("workqueue_mask", include_str!("../../rules/workqueue_mask.toml")),
    ("writeback_mask", include_str!("../../rules/writeback_mask.toml")),
    ("rps_xps", include_str!("../../rules/rps_xps.toml")),
    ("watchdog", include_str!("../../rules/watchdog.toml")),
    ("timer_migration", include_str!("../../rules/timer_migration.toml")),
    ("rcuo_placement", include_str!("../../rules/rcuo_placement.toml")),
    ("strangers", include_str!("../../rules/strangers.toml")),
    // boot
    ("boot_line", include_str!("../../rules/boot_line.toml")),
    ("boot_consistency", include_str!("../../rules/boot_consistency.toml")),
    // power
    ("idle_latency", include_str!("../../rules/idle_latency.toml")),
    ("epp", include_str!("../../rules/epp.toml")),
    ("epb", include_str!("../../rules/epb.toml")),
    ("frequency_floor", include_str!("../../rules/frequency_floor.toml")),
    ("turbo", include_str!("../../rules/turbo.toml")),
    ("uncore", include_str!("../../rules/uncore.toml")),
    // memory
    ("numa_balancing", include_str!("../../rules/numa_balancing.toml")),
    ("ksm", include_str!("../../rules/ksm.toml")),
    ("swap", include_str!("../../rules/swap.toml")),
    ("khugepaged", include_str!("../../rules/khugepaged.toml")),
    ("compaction", include_str!("../../rules/compaction.toml")),
    ("zone_reclaim", include_str!("../../rules/zone_reclaim.toml")),
    ("stat_interval", include_str!("../../rules/stat_interval.toml")),
    ("hugepages", include_str!("../../rules/hugepages.toml")),
    // clock
    ("clocksource", include_str!("../../rules/clocksource.toml")),
    // smt
    ("smt", include_str!("../../rules/smt.toml")),
    // process
    ("cpu_quota", include_str!("../../rules/cpu_quota.toml")),
    ("cpuset", include_str!("../../rules/cpuset.toml")),
    ("rtprio", include_str!("../../rules/rtprio.toml")),
    ("rt_cgroup", include_str!("../../rules/rt_cgroup.toml")),
    // realtime
    ("rt_kernel", include_str!("../../rules/rt_kernel.toml")),
    // information
    ("mitigations", include_str!("../../rules/mitigations.toml")),
    ("guest", include_str!("../../rules/guest.toml")),
    ("console", include_str!("../../rules/console.toml")),
    ("bench_ready", include_str!("../../rules/bench_ready.toml")),
];

/// How many of them are the base: required, and named in the documentation.
pub const BASE: usize = 11;
