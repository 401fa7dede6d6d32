//! One measurement from its verdict on the host to its report: who runs where, what the host was like meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::caveat::Caveat;
use crate::cpus::{self, CpuList};
use crate::environment::{Environment, Observation, are_siblings};
use crate::experiment::{Effort, Experiment, Interrupted, Lab, Roles, Step};
use crate::gate::Audit;
use crate::report::Report;
use crate::witness;

/// What holds for every measurement of one invocation.
pub struct Session<'a> {
    /// The verdict on the host.
    pub audit: Audit,
    /// The CPUs that the user named.
    pub cpus: Option<CpuList>,
    /// How much to measure, as far as the user said.
    pub effort: Effort,
    /// Set when the user wants it to end.
    pub stop: &'a AtomicBool,
    /// Told what comes next.
    pub progress: &'a dyn Fn(Step<'_>),
}

/// The CPUs that the user named do not do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Miscast {
    /// One of them does not run.
    #[error("--cpus {asked}: CPU {cpu} is not online ({online})")]
    Offline {
        /// What was asked for.
        asked: CpuList,
        /// The first one that is not online.
        cpu: u32,
        /// Those that are.
        online: CpuList,
    },
    /// They are fewer than the measurement has roles, on a host that has more.
    #[error("--cpus {asked}: {measurement} needs {}: {}", roles.len(), roles.join(", "))]
    TooFew {
        /// What was asked for.
        asked: CpuList,
        /// Which measurement.
        measurement: &'static str,
        /// Its roles.
        roles: &'static [&'static str],
    },
    /// There is none among them.
    #[error("--cpus names no CPU")]
    Empty,
}

impl Session<'_> {
    /// Runs one measurement. An error is one that did not take place: [`Miscast`], [`Interrupted`], or a reason of its own.
    pub fn measure(&self, name: &'static str, experiment: &dyn Experiment) -> anyhow::Result<Report> {
        let allowed = witness::allowed_cpus(std::process::id())?;
        let cast = Cast::of(name, experiment.roles(), self.cpus.as_ref(), &self.audit.hot, &allowed)?;
        let lab = Lab {
            cpus: cast.chosen,
            effort: self.effort,
            locked_memory: self.audit.locked_memory,
            stop: self.stop,
            progress: self.progress,
        };
        let observation = Observation::begin(cast.played, self.audit.clone());
        // A terminal sends its Ctrl-C to the children too, and what ends first need not be this program.
        let findings = experiment.run(&lab);
        let mut findings =
            findings.map_err(|error| if self.stop.load(Ordering::Relaxed) { Interrupted.into() } else { error })?;
        let host = observation.end();
        findings.caveats.splice(0..0, caveats(&host, &lab, &allowed));
        Ok(Report::new(name, host, findings))
    }
}

/// Who plays what.
#[derive(Debug, PartialEq, Eq)]
struct Cast {
    /// The CPUs in the order of the roles.
    chosen: Vec<u32>,
    /// Which role is played where.
    played: BTreeMap<String, u32>,
}

impl Cast {
    fn of(
        measurement: &'static str,
        roles: Roles,
        asked: Option<&CpuList>,
        hot: &CpuList,
        allowed: &CpuList,
    ) -> Result<Cast, Miscast> {
        if let Some(asked) = asked {
            if asked.as_slice().is_empty() {
                return Err(Miscast::Empty);
            }
            if let Some(online) = cpus::online()
                && let Some(&cpu) = asked.as_slice().iter().find(|cpu| !online.as_slice().contains(cpu))
            {
                return Err(Miscast::Offline { asked: asked.clone(), cpu, online });
            }
        }
        match roles {
            Roles::Each(roles) => {
                let chosen = match asked {
                    None => cpus::choose(hot, allowed, roles.len()),
                    Some(asked) => match asked.as_slice().get(..roles.len()) {
                        Some(chosen) => chosen.to_vec(),
                        None if allowed.as_slice().len() < roles.len() => asked.as_slice().to_vec(),
                        None => return Err(Miscast::TooFew { asked: asked.clone(), measurement, roles }),
                    },
                };
                // Fewer CPUs than roles: the last role is the measured one.
                let played = roles.iter().rev().map(|&role| role.to_owned()).zip(chosen.iter().rev().copied());
                Ok(Cast { played: played.collect(), chosen })
            }
            Roles::Any(role) => {
                let chosen = match asked {
                    Some(asked) => asked.as_slice().to_vec(),
                    None => cpus::choose_any(hot, allowed),
                };
                let played = match chosen[..] {
                    [cpu] => BTreeMap::from([(role.to_owned(), cpu)]),
                    _ => chosen.iter().map(|&cpu| (format!("{role}-cpu{cpu}"), cpu)).collect(),
                };
                Ok(Cast { chosen, played })
            }
        }
    }
}

/// What every measurement has to admit.
fn caveats(host: &Environment, lab: &Lab<'_>, allowed: &CpuList) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if lab.effort.quick {
        caveats.push(Caveat::Quick);
    }
    caveats.extend(Caveat::of_audit(&host.audit));
    if lab.cpus.len() > 1 && lab.cpus.len() >= allowed.as_slice().len() {
        caveats.push(Caveat::FewCpus(lab.cpus.len()));
    }
    if let [a, b, ..] = lab.cpus[..]
        && are_siblings(a, b)
    {
        caveats.push(Caveat::Siblings(a, b));
    }
    if let Some(ms) = host.steal_ms.filter(|&ms| ms > 0) {
        caveats.push(Caveat::Steal(ms));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Roles = Roles::Each(&["sender", "receiver"]);

    /// The cast of a measurement `m`: of CPUs asked for, hot ones and allowed ones. CPU 0 is online everywhere.
    fn cast(roles: Roles, asked: Option<&str>, hot: &str, allowed: &str) -> Result<(Vec<u32>, String), String> {
        let asked: Option<CpuList> = asked.map(|text| text.parse().unwrap());
        Cast::of("m", roles, asked.as_ref(), &hot.parse().unwrap(), &allowed.parse().unwrap())
            .map(|cast| {
                let played: Vec<String> = cast.played.iter().map(|(role, cpu)| format!("{role} {cpu}")).collect();
                (cast.chosen, played.join(", "))
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_role_has_a_cpu() {
        assert_eq!(cast(PAIR, None, "", "0-7"), Ok((vec![6, 7], "receiver 7, sender 6".to_owned())));
        assert_eq!(cast(PAIR, None, "2,3", "0-7"), Ok((vec![2, 3], "receiver 3, sender 2".to_owned())));
    }

    #[test]
    fn on_one_cpu_the_last_role_is_played() {
        assert_eq!(cast(PAIR, None, "", "5"), Ok((vec![5], "receiver 5".to_owned())));
        assert_eq!(cast(PAIR, Some("0"), "", "0"), Ok((vec![0], "receiver 0".to_owned())));
    }

    #[test]
    fn too_few_where_there_are_more_is_a_mistake() {
        let error = "--cpus 0: m needs 2: sender, receiver".to_owned();
        assert_eq!(cast(PAIR, Some("0"), "", "0-7"), Err(error));
        assert_eq!(cast(PAIR, Some(""), "", "0-7"), Err("--cpus names no CPU".to_owned()));
        let error = cast(PAIR, Some("8000,0"), "", "0-7").unwrap_err();
        assert!(error.starts_with("--cpus 8000,0: CPU 8000 is not online ("), "{error}");
    }

    #[test]
    fn any_number_of_cpus_for_one_role() {
        let any = Roles::Any("meter");
        assert_eq!(cast(any, None, "", "0-7"), Ok((vec![7], "meter 7".to_owned())));
        assert_eq!(cast(any, None, "2,99", "0-7"), Ok((vec![2], "meter 2".to_owned())));
        assert_eq!(cast(any, None, "2-3", "0-7"), Ok((vec![2, 3], "meter-cpu2 2, meter-cpu3 3".to_owned())));
        assert_eq!(cast(any, Some("0"), "2-3", "0-7"), Ok((vec![0], "meter 0".to_owned())));
    }
}
