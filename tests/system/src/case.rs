//! How a test is declared.

use crate::checks;
pub use crate::lab::File;
use crate::lab::{Failure, Lab};
use crate::text::{Text, excerpt, report};
use crate::variant::{self, Matrix, Placed, Variant};
use machine::{Finished, Options, Outcome, Via};
use std::time::Duration;

/// One test: a machine, a command line, and what is expected of it.
pub struct Case {
    pub stage: &'static str,
    pub name: &'static str,
    matrix: Matrix,
    pub placed: Placed,
    by_name: bool,
    by_stage: bool,
    pub long: bool,
    pub no_end_is_final: bool,
    times: u32,
    does: Does,
    pub options: Options,
    timeout: Duration,
    files: Vec<File>,
    out: Text,
    err: Text,
    status: u8,
    /// On a processor without protection keys, if that is another one.
    status_without_keys: Option<u8>,
}

/// What a test does.
enum Does {
    /// Runs these words, as `./musubi exec -- WORDS` does.
    Words(Vec<Vec<u8>>),
    /// Runs this command line of the guest program `check`, with the names of checks behind it; see [`crate::checks`].
    Checks(&'static str, Vec<&'static str>),
    /// Whatever the function does, with a result for each of these names.
    Several(Vec<&'static str>, Several),
    /// Whatever the function does; for what one command line cannot show.
    Function(Box<Function>),
}

type Function = dyn Fn(&Lab, &Options) -> Result<(), Failure> + Send + Sync;

/// Gives a result for each of the names, in any order; it may give others, too, which nobody asked for.
pub type Several = fn(&Lab, &Options, &[&'static str]) -> Result<Vec<checks::Found>, Failure>;

/// Why a test is skipped where there are no protection keys.
pub const ABOUT_KEYS: &str = "it is about protection keys";

/// What a test found, by the full name.
pub type Found = (String, Result<(), Failure>);

/// A test that runs one word as a command line of the guest's shell. It is expected to print nothing and to end
/// with status 0, unless said otherwise.
pub fn sh(name: &'static str, line: &str) -> Case {
    words(name, &[line])
}

/// A test that runs several words as one command.
pub fn words(name: &'static str, words: &[&str]) -> Case {
    Case::new(name, Does::Words(words.iter().map(|word| word.as_bytes().to_vec()).collect()))
}

/// Many tests of one theme in one machine: the guest program `check` runs them, each in a task of its own, and says for
/// each name how it went. The test of the name `name` is that the machine came through all of them.
pub fn checks(name: &'static str, line: &'static str, names: &[&'static str]) -> Case {
    Case::new(name, Does::Checks(line, names.to_vec()))
}

/// Many tests that one function does together. The test of the name `name` is that each of `names` has a result.
pub fn several(name: &'static str, names: &[&'static str], function: Several) -> Case {
    Case::new(name, Does::Several(names.to_vec(), function))
}

/// A test that does more than one command line can show.
pub fn function(
    name: &'static str,
    function: impl Fn(&Lab, &Options) -> Result<(), Failure> + Send + Sync + 'static,
) -> Case {
    Case::new(name, Does::Function(Box::new(function)))
}

impl Case {
    fn new(name: &'static str, does: Does) -> Self {
        Self {
            stage: "",
            name,
            matrix: Matrix::One,
            placed: Placed::Never,
            by_name: false,
            by_stage: false,
            long: false,
            no_end_is_final: false,
            times: 1,
            does,
            options: Options::default(),
            timeout: Duration::from_secs(120),
            files: Vec::new(),
            out: Text::Exact(Vec::new()),
            err: Text::Exact(Vec::new()),
            status: 0,
            status_without_keys: None,
        }
    }

    /// Runs on 1, 2 and 4 processors, each with and without protection keys in a thorough run; otherwise as [`Case::spread`].
    pub fn matrix(mut self) -> Self {
        self.matrix = Matrix::Full;
        self
    }

    /// Runs on 1, 2 and 4 processors, each only with protection keys or only without. Without keys in all three machines.
    pub fn spread(mut self) -> Self {
        self.matrix = Matrix::Spread;
        self
    }

    /// Runs with the servers in each placement besides (SSS-61 to 68): in a thorough run, and in each if it is a matrix of what one command line
    /// does. For what says what is done in a machine, and not how that is made.
    pub fn placed(mut self) -> Self {
        let is_a_line = matches!(self.does, Does::Words(_) | Does::Checks(..));
        self.placed = if is_a_line { Placed::Usually } else { Placed::Thoroughly };
        self
    }

    /// The same in a thorough run only.
    pub fn placed_thoroughly(mut self) -> Self {
        self.placed = Placed::Thoroughly;
        self
    }

    /// Runs only if its full name is asked for.
    pub fn by_name(mut self) -> Self {
        self.by_name = true;
        self
    }

    /// Runs only if it or its stage is asked for.
    pub fn by_stage(mut self) -> Self {
        self.by_stage = true;
        self
    }

    /// Its attack would have the machine stand still: that it does not end says so, once.
    pub fn no_end_is_final(mut self) -> Self {
        self.no_end_is_final = true;
        self
    }

    /// Takes long, and runs only if all are asked for, or it or its stage is.
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }

    /// Runs this many times, in a fresh machine each.
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    pub fn cpus(mut self, cpus: u32) -> Self {
        self.options.cpus = Some(cpus);
        self
    }

    pub fn mem(mut self, mem: &str) -> Self {
        self.options.mem = mem.into();
        self
    }

    pub fn icount(mut self) -> Self {
        self.options.icount = true;
        self
    }

    pub fn via(mut self, via: Via) -> Self {
        self.options.via = via;
        self
    }

    pub fn timeout(mut self, seconds: u64) -> Self {
        self.timeout = Duration::from_secs(seconds);
        self
    }

    /// Puts a file of the host in; where there is none, the test is skipped.
    pub fn put(mut self, host: &'static str, guest: &'static str) -> Self {
        self.files.push(File::Host { host, guest });
        self
    }

    /// Puts a program of ours in, in place of another one.
    pub fn ours(mut self, program: &'static str, guest: &'static str) -> Self {
        self.files.push(File::Ours { program, guest });
        self
    }

    /// Puts a file with these bytes in.
    pub fn file(mut self, guest: &'static str, data: impl Into<Vec<u8>>) -> Self {
        self.files.push(File::Made { guest, data: data.into(), executable: false });
        self
    }

    /// Standard output, exactly.
    pub fn out(mut self, out: impl Into<Vec<u8>>) -> Self {
        self.out = Text::Exact(out.into());
        self
    }

    /// Standard output has all of these in it.
    pub fn out_has(mut self, parts: &[&'static str]) -> Self {
        self.out = Text::Contains(parts.to_vec());
        self
    }

    /// Standard output satisfies this.
    pub fn out_check(mut self, check: fn(&str) -> bool) -> Self {
        self.out = Text::Check(check);
        self
    }

    /// Standard output satisfies this, which says what is wrong otherwise.
    pub fn out_judged(mut self, judge: fn(&str) -> Result<(), String>) -> Self {
        self.out = Text::Judged(judge);
        self
    }

    /// Standard output is what this command prints on the host, in a folder that holds the files put in.
    pub fn out_as_host(mut self, command: &[&'static str]) -> Self {
        self.out = Text::AsHost(command.to_vec());
        self
    }

    /// Standard error has all of these in it.
    pub fn err_has(mut self, parts: &[&'static str]) -> Self {
        self.err = Text::Contains(parts.to_vec());
        self
    }

    /// Standard error, exactly.
    pub fn err(mut self, err: impl Into<Vec<u8>>) -> Self {
        self.err = Text::Exact(err.into());
        self
    }

    /// Standard error satisfies this.
    pub fn err_check(mut self, check: fn(&str) -> bool) -> Self {
        self.err = Text::Check(check);
        self
    }

    pub fn err_any(mut self) -> Self {
        self.err = Text::Any;
        self
    }

    pub fn status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// Without protection keys it ends with another one.
    pub fn status_without_keys(mut self, status: u8) -> Self {
        self.status_without_keys = Some(status);
        self
    }

    /// Whether the user means this test: no names mean all, a name means what begins with it.
    pub fn is_meant(&self, names: &[String]) -> bool {
        let full = self.full_name(Variant::default());
        if self.by_name {
            return names.contains(&full);
        }
        if self.by_stage {
            return names.contains(&full) || names.contains(&format!("system::{}", self.stage));
        }
        let begins = |name: &String| {
            full.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        names.is_empty() || names.iter().any(begins)
    }

    /// The runs of it: if there are keys, in their variants with and without; otherwise in those without.
    pub fn variants(&self, keys: bool, thorough: bool) -> Vec<Variant> {
        let mut variants = self.matrix.variants(keys, thorough);
        if self.placed.is_now(self.matrix, thorough) {
            variants.extend(variant::placed(keys));
        }
        variants
    }

    pub fn full_name(&self, variant: Variant) -> String {
        variant.name(self.stage, self.name)
    }

    /// Leaves only those checks that are meant, if the user means some by their names. Whether anything is left.
    pub fn narrow(&mut self, names: &[String]) -> bool {
        let whole = self.is_meant(names);
        let stage = self.stage;
        if let (false, Does::Checks(_, checks) | Does::Several(checks, _)) = (whole, &mut self.does) {
            checks.retain(|check| names.contains(&format!("system::{stage}::{check}")));
            return !checks.is_empty();
        }
        whole
    }

    pub fn full_names(&self) -> impl Iterator<Item = String> {
        self.names().into_iter().map(|name| Variant::default().name(self.stage, name))
    }

    /// The names that this test has results for.
    pub fn names(&self) -> Vec<&'static str> {
        let checks: &[&str] = match &self.does {
            Does::Checks(_, checks) | Does::Several(checks, _) => checks,
            _ => &[],
        };
        [self.name].iter().chain(checks).copied().collect()
    }

    /// The machine of a run.
    pub fn options(&self, variant: Variant) -> Options {
        let mut options = self.options.clone();
        options.cpus = variant.cpus.or(options.cpus);
        options.pku = variant.pku.unwrap_or(options.pku);
        options
    }

    /// Whether it could fail because the host was busy: not where the machine's clock counts instructions.
    pub fn depends_on_the_host(&self) -> bool {
        !self.options.icount
    }

    /// `again`: what is to be found out once more, by full names; without any, all. Where checks share a machine they all run.
    pub fn run(&self, lab: &Lab, variant: Variant, again: &[String]) -> Vec<Found> {
        let found = match variant.placed {
            None => self.run_in(lab, variant, again),
            Some(placement) => lab.while_placed(placement, |lab| self.run_in(lab, variant, again)),
        };
        let found = found.unwrap_or_else(|failure| vec![(self.name, Err(failure))]);
        found.into_iter().map(|(name, result)| (variant.name(self.stage, name), result)).collect()
    }

    fn run_in(&self, lab: &Lab, variant: Variant, again: &[String]) -> Result<Vec<checks::Found>, Failure> {
        let options = &self.options(variant);
        match &self.does {
            Does::Several(names, function) => {
                let mut names = names.clone();
                names.retain(|name| again.is_empty() || again.contains(&variant.name(self.stage, name)));
                function(lab, options, &names).map(|found| checks::complete(self.name, &names, found))
            }
            Does::Checks(line, names) => self.run_checks(lab, options, line, names),
            Does::Function(function) => function(lab, options).map(|()| vec![(self.name, Ok(()))]),
            Does::Words(words) => self.run_words(lab, options, words).map(|()| vec![(self.name, Ok(()))]),
        }
    }

    fn run_checks(
        &self,
        lab: &Lab,
        options: &Options,
        line: &str,
        names: &[&'static str],
    ) -> Result<Vec<checks::Found>, Failure> {
        let folder = lab.folder(&self.files)?;
        let line = format!("{line} {}", names.join(" "));
        let finished = lab.exec(options, &folder, &[line.clone().into_bytes()], self.timeout)?;
        Ok(checks::judge(self.name, &line, names, &finished))
    }

    fn run_words(&self, lab: &Lab, options: &Options, words: &[Vec<u8>]) -> Result<(), Failure> {
        let folder = lab.folder(&self.files)?;
        for time in 1..=self.times {
            let finished = lab.exec(options, &folder, words, self.timeout)?;
            let without_keys = self.status_without_keys.filter(|_| !options.pku || !lab.keys);
            let status = without_keys.unwrap_or(self.status);
            let complaints = self.complaints(&finished, status, lab.host_out(&self.out, &folder)?);
            if !complaints.is_empty() {
                let report = report(words, time, &complaints, &finished);
                // Came to something else, which is more than that nothing came of it in time.
                let is_told = matches!(finished.outcome, Outcome::Exited(_) | Outcome::Panicked | Outcome::Died(_));
                return Err(if is_told { Failure::Told(report) } else { Failure::Failed(report) });
            }
        }
        Ok(())
    }

    /// A file with these bytes that may be executed.
    pub fn program(mut self, guest: &'static str, data: impl Into<Vec<u8>>) -> Self {
        self.files.push(File::Made { guest, data: data.into(), executable: true });
        self
    }

    /// What is not as expected.
    fn complaints(&self, finished: &Finished, status: u8, host: Option<Vec<u8>>) -> Vec<String> {
        let mut complaints = Vec::new();
        if finished.outcome.status() != status {
            complaints.push(format!("status {}, not {status}: {:?}", finished.outcome.status(), finished.outcome));
        }
        for (name, text, got) in
            [("standard output", &self.out, &finished.out), ("standard error", &self.err, &finished.err)]
        {
            let shown = String::from_utf8_lossy(got);
            let exact = |wanted: &[u8]| {
                (wanted != got).then(|| format!("{name} should be ({} bytes):\n{}", wanted.len(), excerpt(wanted)))
            };
            match text {
                Text::Any => {}
                Text::Exact(wanted) => complaints.extend(exact(wanted)),
                Text::AsHost(_) => complaints.extend(exact(host.as_deref().unwrap_or_default())),
                Text::Check(check) if check(&shown) => {}
                Text::Judged(judge) => complaints.extend(judge(&shown).err()),
                Text::Check(_) => complaints.push(format!("{name} is not as it should be")),
                Text::Contains(parts) => {
                    let absent = parts.iter().filter(|part| !shown.contains(**part));
                    complaints.extend(absent.map(|part| format!("{name} lacks {part:?}")));
                }
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Outcome;

    fn finished(out: &str, status: u8) -> Finished {
        let (outcome, out) = (Outcome::Exited(status), out.as_bytes().to_vec());
        Finished { outcome, out, err: Vec::new(), console: String::new(), took: Duration::ZERO }
    }

    fn staged(mut case: Case) -> Case {
        case.stage = "s10_boot";
        case
    }

    #[test]
    fn a_matrix_is_six_machines() {
        let case = staged(sh("echo", "echo").matrix());
        let names = |case: &Case, keys| -> Vec<String> {
            case.variants(keys, true).into_iter().map(|variant| case.full_name(variant)).collect()
        };
        let all = names(&case, true);
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], "system::s10_boot::echo[cpus=1,pku]");
        assert_eq!(all[5], "system::s10_boot::echo[cpus=4,no-pku]");
        let without: Vec<String> = all.into_iter().filter(|name| name.ends_with("no-pku]")).collect();
        assert_eq!(names(&case, false), without);
        let spread = staged(sh("echo", "echo").spread());
        let machines = ["cpus=1,pku", "cpus=2,no-pku", "cpus=4,pku"];
        assert_eq!(names(&spread, true), machines.map(|one| format!("system::s10_boot::echo[{one}]")));
        assert_eq!(names(&spread, false), without);
        // Placements of the servers besides: of a matrix always, of others in a thorough run.
        let placed = |case: Case, thorough| case.placed().variants(true, thorough).len();
        assert_eq!((placed(sh("echo", "echo").spread(), true), placed(sh("echo", "echo").spread(), false)), (5, 3));
        assert_eq!((placed(sh("echo", "echo"), true), placed(sh("echo", "echo"), false)), (3, 1));
        assert_eq!((placed(sh("echo", "echo").matrix(), true), placed(sh("echo", "echo").matrix(), false)), (8, 5));
        // What was added later, and what functions do: in a thorough run alone.
        let more = |case: Case, thorough| case.variants(true, thorough).len();
        let thoroughly = || sh("echo", "echo").matrix().placed_thoroughly();
        assert_eq!((more(thoroughly(), true), more(thoroughly(), false)), (8, 3));
        let does = || function("does", |_, _| Ok(())).matrix().placed();
        assert_eq!((more(does(), true), more(does(), false)), (8, 3));
        let one = staged(sh("echo", "echo"));
        assert_eq!(names(&one, true), ["system::s10_boot::echo"]);
        assert_eq!(names(&one, false), ["system::s10_boot::echo[no-pku]"]);
    }

    #[test]
    fn names_choose_whole_parts() {
        let case = staged(sh("echo", "echo"));
        let meant = |case: &Case, name: &str| case.is_meant(&[name.to_string()]);
        assert!(case.is_meant(&[]) && meant(&case, "system::s10_boot") && meant(&case, "system::s10_boot::echo"));
        assert!(!meant(&case, "system::s1") && !meant(&case, "system::s10_boot::ec"));
        let slow = staged(sh("slow", "echo").by_name());
        assert!(!slow.is_meant(&[]) && !meant(&slow, "system::s10_boot") && meant(&slow, "system::s10_boot::slow"));
    }

    #[test]
    fn what_is_not_as_expected_is_said() {
        let case = sh("echo", "echo hi").out("hi\n");
        assert!(case.complaints(&finished("hi\n", 0), 0, None).is_empty());
        assert_eq!(case.complaints(&finished("ho\n", 1), 0, None).len(), 2);
        let case = sh("ps", "ps").out_has(&["shell", "loader"]);
        assert_eq!(case.complaints(&finished("shell\n", 0), 0, None), ["standard output lacks \"loader\""]);
        assert_eq!(sh("x", "x").complaints(&finished("unasked", 0), 0, None).len(), 1);
    }
}
