//! The stages, in the order in which things depend on each other. A stage is a file that lists its tests.

mod bars;
mod boot_100;
mod crashes;
mod faults_linux;
mod hostile;
mod itc_figures;
mod naive;
mod peers;
mod s10_boot;
mod s15_front;
mod s20_sections;
mod s30_epc;
mod s35_entry;
mod s36_info;
mod s37_mbcf;
mod s38_trace;
mod s40_threads;
mod s42_sched;
mod s44_itc;
mod s45_programs;
mod s46_posts;
mod s47_services;
mod s48_placement;
mod s50_shell;
mod s55_files;
mod s57_supervision;
mod s58_processes;
mod s60_attacks;
mod s65_gate;
mod s66_mutants;
mod s70_linux;
mod s80_bench;
#[cfg(test)]
mod unplaced;

use crate::case::Case;

/// Those whose servers are run in each placement.
fn placed(cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().map(Case::placed).collect()
}

/// Those that are run in each placement as well, in a thorough run.
fn placed_thoroughly(cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().map(Case::placed_thoroughly).collect()
}

/// All tests.
pub fn all() -> Vec<Case> {
    let stages = [
        ("s10_boot", s10_boot::cases()),
        // Long ones of one processor each: at the end they would have the host to themselves.
        ("s80_bench", s80_bench::cases()),
        ("s15_front", s15_front::cases()),
        ("s20_sections", s20_sections::cases()),
        ("s30_epc", s30_epc::cases()),
        ("s35_entry", s35_entry::cases()),
        ("s36_info", s36_info::cases()),
        ("s37_mbcf", s37_mbcf::cases()),
        ("s38_trace", s38_trace::cases()),
        ("s40_threads", s40_threads::cases()),
        ("s42_sched", s42_sched::cases()),
        ("s44_itc", s44_itc::cases()),
        ("s45_programs", s45_programs::cases()),
        ("s46_posts", s46_posts::cases()),
        ("s47_services", s47_services::cases()),
        ("s48_placement", s48_placement::cases()),
        ("s50_shell", placed(s50_shell::cases())),
        ("s55_files", placed(s55_files::cases())),
        ("s57_supervision", s57_supervision::cases()),
        ("s58_processes", s58_processes::cases()),
        ("s60_attacks", placed_thoroughly(s60_attacks::cases())),
        ("s65_gate", placed_thoroughly(s65_gate::cases())),
        ("s66_mutants", s66_mutants::cases()),
        ("s70_linux", s70_linux::cases()),
        ("naive", naive::cases()),
        ("peers", peers::cases()),
        ("boot_100", boot_100::cases()),
    ];
    let mut all = Vec::new();
    for (stage, cases) in stages {
        all.extend(cases.into_iter().map(|mut case| {
            case.stage = stage;
            case
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_used_once() {
        let mut names: Vec<_> =
            super::all().iter().flat_map(|case| case.names().into_iter().map(|name| (case.stage, name))).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
