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
    // delivery
    // boot
    // power
    // memory
    // clock
    // smt
    // process
    // realtime
    // information
];

/// How many of them are the base: required, and named in the documentation.
pub const BASE: usize = 11;
