//! What is typed after `./musubi`.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};
use machine::{Options, Put, Via, Wish};
use measure::{BENCHES, Bench, Peer};
use std::ffi::OsString;
use std::path::PathBuf;

/// Musubi: an address is enough.
#[derive(Debug, Parser)]
#[command(name = "musubi", bin_name = "./musubi", max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build, and boot to a prompt in this terminal
    Run(MachineArgs),
    /// Run one command line in a fresh machine; print what it prints, exit with its status
    Exec(ExecArgs),
    /// Run one command line in a fresh machine, and write what its processors did meanwhile: for Perfetto, and as a picture
    Trace(TraceArgs),
    /// Run the tests, or some: all (the long ones, too); house, host, system, system::s10_boot; peers (Linux, to compare with: fetches 70 MB); naive (kernels without one rule each, an hour); bare (on a bare Debian, slow, as root)
    Test {
        stages: Vec<String>,
        /// Machines without protection keys only
        #[arg(long)]
        no_pku: bool,
    },
    /// Make a disk image that boots under BIOS and UEFI
    Image { file: PathBuf },
    /// Build the kernel and the programs
    Build,
    /// Run a benchmark, in exact instructions, beside the published figures and another system
    Bench(BenchArgs),
    /// Measure only the other system, by all its ways
    BenchPeer(BenchPeerArgs),
    /// Show what is promised, and which test shows it
    Requirements {
        /// A system (cubix, sss, ninja, k1), a state (works, in-part, not-yet, replaced, fact), or both
        words: Vec<String>,
        /// Only the rows of this state
        #[arg(long)]
        state: Option<String>,
    },
    /// Say what this machine lacks, and which versions were tested
    Doctor,
    /// Remove everything that was built
    Clean,
}

#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// Number of processors [default: 2; 1 with --icount]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Memory: 512M, 2G
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    mem: String,
    /// Processors without protection keys
    #[arg(long)]
    no_pku: bool,
    /// Instructions are time: exact and repeatable
    #[arg(long)]
    icount: bool,
    /// Put a file of the host into the machine (repeatable)
    #[arg(long, value_name = "HOSTFILE[:GUESTPATH]")]
    put: Vec<OsString>,
    /// Use hardware virtualisation, or fail
    #[arg(long, conflicts_with = "tcg")]
    kvm: bool,
    /// Do not use hardware virtualisation
    #[arg(long)]
    tcg: bool,
    /// Boot by QEMU's own loader, or from a disk image
    #[arg(long, value_enum, default_value = "kernel")]
    via: ViaArg,
    /// The scheduler that the processors have from the start: ageing, share, deadline, gang, initial [default: the kernel's round robin]
    #[arg(long, value_name = "NAME")]
    sched: Option<String>,
    /// Leave servers out of the machine (a wrong name is told which there are)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    without: Vec<String>,
    /// A further word for the kernel's command line
    #[arg(long, value_name = "WORD", hide = true)]
    append: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ViaArg {
    #[default]
    Kernel,
    Bios,
    Uefi,
}

#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Seconds until the machine is stopped (status 124)
    #[arg(long, value_name = "S", default_value = "120")]
    pub timeout: f64,
    /// One word is a command line for the guest's shell; several are the words of one command
    #[arg(last = true, required = true, value_name = "COMMAND LINE")]
    pub words: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub exec: ExecArgs,
    /// The Chrome trace, for Perfetto [default: trace.json, unless a picture is asked for]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A picture: a row for each processor
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(BENCHES.map(|bench| bench.name)))]
    pub name: String,
    /// For programs: an object a line
    #[arg(long)]
    pub json: bool,
    /// Who is measured beside us; without this Linux by `apps`, `entry`, `ipc`, `memory`, `pager` and `pool`, and nobody by the others
    #[arg(long, value_enum)]
    pub peer: Option<PeerArg>,
    /// Cycles of a real processor by hardware virtualisation, instead of instructions
    #[arg(long, conflicts_with = "peer")]
    pub kvm: bool,
    /// Also nanoseconds of this host, in machines of their own; `apps`, `ipc` and `pool` have them without this
    #[arg(long, conflicts_with = "kvm")]
    pub wall: bool,
    /// A processor without protection keys
    #[arg(long)]
    pub no_pku: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PeerArg {
    Linux,
    None,
}

impl BenchArgs {
    pub fn bench(&self) -> Bench {
        Bench::find(&self.name).expect("the parser takes the names of benchmarks only")
    }

    /// Whether wall time is measured, too.
    pub fn wall(&self) -> bool {
        self.wall || self.is_of(&["apps", "ipc", "pool"])
    }

    /// Whether what is to be shown is what others take for the same: these are measured in the same run, without being asked for.
    fn is_compared(&self) -> bool {
        self.is_of(&["apps", "ipc", "pool", "entry", "memory", "pager"])
    }

    fn is_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str()) && !self.kvm
    }

    pub fn peer(&self) -> Peer {
        match self.peer {
            Some(PeerArg::Linux) => Peer::Linux,
            None if self.is_compared() => Peer::Linux,
            Some(PeerArg::None) | None => Peer::None,
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct BenchPeerArgs {
    /// Without any: all
    #[arg(value_name = "NAME", value_parser = peers::BENCHES)]
    pub names: Vec<String>,
    /// For programs: an object a line
    #[arg(long)]
    pub json: bool,
    /// Nanoseconds of this host instead of instructions
    #[arg(long)]
    pub wall: bool,
    /// By hardware virtualisation, or not at all
    #[arg(long, requires = "wall")]
    pub kvm: bool,
}

impl MachineArgs {
    pub fn options(&self) -> Options {
        Options {
            via: match self.via {
                ViaArg::Kernel => Via::Kernel,
                ViaArg::Bios => Via::Bios,
                ViaArg::Uefi => Via::Uefi,
            },
            cpus: self.cpus,
            mem: self.mem.clone(),
            pku: !self.no_pku,
            vendor: None,
            icount: self.icount,
            turn_us: machine::TURN_US,
            wish: match (self.kvm, self.tcg) {
                (true, _) => Wish::Kvm,
                (_, true) => Wish::Tcg,
                _ => Wish::Any,
            },
            without: self.without.clone(),
            append: self.append.clone(),
        }
    }

    pub fn sched(&self) -> Option<&str> {
        self.sched.as_deref()
    }

    pub fn puts(&self) -> Result<Vec<Put>> {
        self.put.iter().map(|argument| Put::parse(argument)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(line: &[&str]) -> Result<ExecArgs, clap::Error> {
        let parsed = Args::try_parse_from(["musubi", "exec"].iter().chain(line));
        parsed.map(|args| match args.command {
            Command::Exec(exec) => exec,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn everything_after_the_dashes_is_the_guests() {
        let args = exec(&["--cpus", "4", "--no-pku", "--timeout", "5", "--", "ls", "--cpus", "--", "a b"]).unwrap();
        assert_eq!(args.words, ["ls", "--cpus", "--", "a b"]);
        assert_eq!(args.timeout, 5.0);
        let options = args.machine.options();
        assert_eq!((options.cpus(), options.pku, options.mem.as_str()), (4, false, "512M"));
    }

    #[test]
    fn what_does_not_make_sense_is_refused() {
        assert!(exec(&[]).is_err(), "no command line");
        assert!(exec(&["--"]).is_err(), "an empty command line");
        assert!(exec(&["echo"]).is_err(), "a word before the dashes");
        assert!(exec(&["--kvm", "--tcg", "--", "true"]).is_err());
        assert!(exec(&["--cpus", "two", "--", "true"]).is_err());
        assert!(exec(&["--sched", "--", "true"]).is_err());
    }

    #[test]
    fn a_trace_is_an_exec_with_files() {
        let line = ["musubi", "trace", "--cpus", "4", "-o", "t.json", "--svg", "t.svg", "--", "ls", "-o"];
        match Args::try_parse_from(line).unwrap().command {
            Command::Trace(trace) => {
                assert_eq!((trace.out, trace.svg), (Some("t.json".into()), Some("t.svg".into())));
                assert_eq!(trace.exec.words, ["ls", "-o"]);
            }
            other => panic!("{other:?}"),
        }
        assert!(Args::try_parse_from(["musubi", "trace"]).is_err());
    }

    #[test]
    fn a_scheduler_may_be_named() {
        assert_eq!(exec(&["--sched", "share", "--", "true"]).unwrap().machine.sched(), Some("share"));
        assert_eq!(exec(&["--", "true"]).unwrap().machine.sched(), None);
    }

    #[test]
    fn servers_may_be_left_out() {
        let without = |line: &[&str]| exec(line).unwrap().machine.options().without;
        assert_eq!(
            without(&["--without", "files,console", "--without", "pipes", "--", "true"]),
            ["files", "console", "pipes"]
        );
        assert!(without(&["--", "true"]).is_empty() && exec(&["--without", "--", "true"]).is_err());
    }

    #[test]
    fn tests_may_be_on_machines_without_keys() {
        let test = |line: &[&str]| match Args::try_parse_from(["musubi", "test"].iter().chain(line)).unwrap().command {
            Command::Test { stages, no_pku } => (stages, no_pku),
            other => panic!("{other:?}"),
        };
        assert_eq!(test(&[]), (vec![], false));
        assert_eq!(test(&["system::s65_gate", "--no-pku"]), (vec!["system::s65_gate".to_string()], true));
    }

    #[test]
    fn a_benchmark_has_a_name() {
        let bench = |line: &[&str]| match Args::try_parse_from(["musubi", "bench"].iter().chain(line))?.command {
            Command::Bench(bench) => Ok(bench),
            other => panic!("{other:?}"),
        };
        let parsed = bench(&["calls", "--json", "--peer", "linux"]).unwrap();
        assert_eq!((parsed.bench().name, parsed.json, parsed.peer()), ("calls", true, Peer::Linux));
        for (line, peer) in [
            (&["sizes"][..], Peer::None),
            (&["ipc"], Peer::Linux),
            (&["ipc", "--kvm"], Peer::None),
            (&["ipc", "--peer", "none"], Peer::None),
            (&["pool"], Peer::Linux),
            (&["pool", "--kvm"], Peer::None),
            (&["pool", "--peer", "none"], Peer::None),
            (&["apps"], Peer::Linux),
            (&["entry"], Peer::Linux),
            (&["memory"], Peer::Linux),
            (&["pager"], Peer::Linux),
            (&["pager", "--kvm"], Peer::None),
        ] {
            assert_eq!(bench(line).unwrap().peer(), peer, "{line:?}");
        }
        for (line, wall) in [
            (&["sizes"][..], false),
            (&["sizes", "--wall"], true),
            (&["ipc"], true),
            (&["ipc", "--kvm"], false),
            (&["pool"], true),
            (&["apps"], true),
        ] {
            assert_eq!(bench(line).unwrap().wall(), wall, "{line:?}");
        }
        for bad in [
            &[][..],
            &["ipc", "--kvm", "--wall"],
            &["nosuch"],
            &["calls", "sizes"],
            &["calls", "--peer"],
            &["calls", "--peer", "mach"],
        ] {
            let error: clap::Error = bench(bad).unwrap_err();
            assert!(error.use_stderr(), "{bad:?}");
        }
    }

    #[test]
    fn a_peer_is_measured_in_time_only_if_asked() {
        let parse = |line: &[&str]| Args::try_parse_from(["musubi", "bench-peer"].iter().chain(line));
        assert!(parse(&[]).is_ok() && parse(&["sizes", "sched", "--wall", "--json"]).is_ok());
        assert!(parse(&["nosuch"]).is_err() && parse(&["calls", "--kvm"]).is_err());
    }

    #[test]
    fn the_parser_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
