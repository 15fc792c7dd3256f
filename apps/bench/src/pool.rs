//! Messages between two programs and back: 48 bytes by send-and-receive, by question and answer, and by rendezvous (K1-M1, M2); the
//! same while a clock server is sent a message with each tick (M3). The number of processors is the machine's (M4).

use crate::rendezvous::{Received, Rendezvous};
use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::{alone, backs, beside, clock, lending, many, service, told, two};
use alloc::format;
use alloc::string::String;
use musubi::abi::post::number;
use musubi::command::{Child, Command};
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::{info, task, time};
use musubi::{AclEntry, Error, Rights};

/// Rounds, as in the paper.
const ROUNDS: usize = 10_000;
/// Single rounds where each is known to be like the next one.
const FEW: usize = 500;
/// Rounds from one tick of the clock to the next, as in the paper: 10 000 took 385 ticks.
const TICK: usize = 26;
/// Rounds beside the machine's own clock: several quanta.
const TICKING_ROUNDS: usize = 5 * ROUNDS;
/// Bytes of a message.
pub const BYTES: usize = 48;
pub const OP: u32 = 7;
/// A limit of time that no wait comes to, in nanoseconds.
const LIMIT: u64 = 60_000_000_000;
/// Rounds with a processor that has nothing to do: that it hears of a message takes long where processors take turns.
const IDLE_ROUNDS: usize = 500;

/// Rounds after a pause in which all processors have become idle, and how long that is, in nanoseconds: longer than one waits for a message before.
const ASLEEP_ROUNDS: usize = 200;
const PAUSE: u64 = 2_000_000;

/// What a message carries.
type Words = [u64; 6];

pub fn run(report: &Report) -> Result<(), String> {
    play_of(report, ROUNDS, |game| {
        game.queued()?;
        game.ping_pong(true)?;
        service::run(report, game.posts)
    })?;
    many::run(report)
}

/// `bench messages`: single rounds only, and few of them; but for those after a pause, which take long.
pub fn in_short(report: &Report) -> Result<(), String> {
    play_of(report, FEW, |game| {
        game.queued()?;
        game.ping_pong(false)
    })
}

/// Single rounds of what posts offer, and nothing else.
pub fn single_rounds(report: &Report) -> Result<(), String> {
    play_of(report, ROUNDS, |game| game.by_posts(false))
}

fn play_of(report: &Report, rounds: usize, what: impl FnOnce(&Game) -> Result<(), String>) -> Result<(), String> {
    let posts = Posts::new().map_err(|e| format!("posts: {e}"))?;
    let outcome = what(&Game { report, posts: &posts, rounds });
    outcome.and(posts.free().map_err(|e| format!("freeing: {e}")))
}

/// What is played at these posts, and how many single rounds of each.
pub struct Game<'a> {
    pub report: &'a Report,
    pub posts: &'a Posts,
    pub rounds: usize,
}

/// Where messages go, where they come back, and where the clock hears. By rendezvous, where the tasks 0, 1 and 2 hear.
pub struct Posts {
    pub there: Post,
    pub back: Post,
    pub clock: Post,
}

impl Posts {
    pub fn new() -> Result<Posts, Error> {
        let posts = Posts { there: Post::any()?, back: Post::any()?, clock: Post::any()? };
        let everybody = AclEntry { rights: (Rights::CALL | Rights::READ).bits(), ..ANYBODY };
        posts.all().iter().try_for_each(|post| post.allow(&everybody))?;
        Ok(posts)
    }

    pub fn all(&self) -> [Post; 3] {
        [self.there, self.back, self.clock]
    }

    pub fn free(&self) -> Result<(), Error> {
        self.all().iter().try_for_each(|post| post.free(true))
    }

    /// Starts this program once more, as a partner who plays in this way.
    pub fn partner(&self, way: &str) -> Result<Child, String> {
        let words = self.all().map(|post| format!("{}", post.0));
        let command = Command::new(b"bin/bench").arg(b"partner").arg(way.as_bytes());
        let command = words.iter().fold(command, |command, word| command.arg(word.as_bytes()));
        command.spawn().map_err(|e| format!("bin/bench: {e}"))
    }
}

/// Tasks of the rendezvous.
const PARTNER: usize = 0;
const PLAYER: usize = 1;
pub const CLOCK: usize = 2;

impl Game<'_> {
    /// A message that nobody waits for: it is left in the post, and received by a call of its own.
    fn queued(&self) -> Result<(), String> {
        let there = self.posts.there;
        let mut failed = Ok(());
        let each = Plan::new(self.rounds).measure(|| {
            let sent = there.send(OP, [1, 2, 3, 4, 5, 6], None);
            let came = sent.and_then(|()| there.receive(FOR_EVER).map(drop));
            failed = failed.and(came);
        });
        self.report.case(Case { case: "queued", way: "pool", bytes: BYTES }, &each, &[]);
        failed.map_err(|e| format!("a message to oneself: {e}"))
    }

    fn ping_pong(&self, at_length: bool) -> Result<(), String> {
        self.by_posts(at_length)?;
        let Posts { there, back, .. } = *self.posts;
        self.play("limited", false, |words| there.send_and_receive(OP, words, back, LIMIT).map(|m| m.words))?;
        if task::processors().count() > 1 {
            self.beside_idle()?;
        }
        self.at_two_posts()?;
        backs::run(self)?;
        two::run(self)?;
        told::run(self)?;
        lending::run(self)?;
        alone::run(self)?;
        if at_length {
            self.after_a_pause()?;
        }
        let tasks = self.posts.all();
        let me = Rendezvous { tasks: &tasks, me: PLAYER };
        self.play("rendezvous", at_length, |words| me.send_and_receive(PARTNER, OP, words))?;
        beside::run(self)
    }

    /// By one step on either side, by a question and its answer, and by plain messages, each of which wakes whoever has begun to wait by a call of its own.
    fn by_posts(&self, at_length: bool) -> Result<(), String> {
        let Posts { there, back, .. } = *self.posts;
        self.play("pool", at_length, |words| there.send_and_receive(OP, words, back, FOR_EVER).map(|m| m.words))?;
        self.play("question", at_length, |words| there.ask(OP, words, FOR_EVER).map(|answer| answer.words))?;
        self.play("woken", false, |words| {
            there.send(OP, words, None)?;
            back.receive(FOR_EVER).map(|m| m.words)
        })
    }

    /// Both wait for the message at two posts.
    fn at_two_posts(&self) -> Result<(), String> {
        let Posts { there, back, clock } = *self.posts;
        self.play("several", false, |words| {
            there.send(OP, words, None)?;
            post::receive_of(&[back, clock], FOR_EVER).map(|m| m.words)
        })
    }

    /// The first message after a pause, and what is said to it.
    fn after_a_pause(&self) -> Result<(), String> {
        self.woken("asleep", Plan::new(ASLEEP_ROUNDS).first(&|| time::sleep_ns(PAUSE)))
    }

    /// Plain messages to and fro by this plan, whatever is there besides, which the way is called after.
    pub fn woken(&self, way: &str, plan: Plan) -> Result<(), String> {
        let Posts { there, back, .. } = *self.posts;
        self.beside_woken(way, plan, |words| {
            there.send(OP, words, None)?;
            back.receive(FOR_EVER).map(|m| m.words)
        })
    }

    /// Plain messages, whose sender goes on with something else: so a processor that has nothing to do takes whoever they wake.
    fn beside_idle(&self) -> Result<(), String> {
        let Posts { there, back, .. } = *self.posts;
        let about = info::all().map_err(|e| format!("the info section: {e}"))?;
        let number = number(task::identity().node, back.0).ok_or("a post without a number")?;
        self.beside_woken("idle", Plan::new(IDLE_ROUNDS), |words| {
            there.send(OP, words, None)?;
            while about.messages(number.into()) == 0 {
                core::hint::spin_loop();
            }
            back.receive(FOR_EVER).map(|m| m.words)
        })
    }

    /// Rounds of a plan of their own, with a partner who sends and receives by a call each.
    pub fn beside_woken(
        &self,
        way: &str,
        plan: Plan,
        exchange: impl Fn(Words) -> Result<Words, Error>,
    ) -> Result<(), String> {
        self.beside("woken", way, exchange, |round| {
            round();
            let each = plan.measure(round);
            self.report.case(Case { case: "ping-pong", way, bytes: BYTES }, &each, &[]);
            Ok(())
        })
    }

    fn play(
        &self,
        way: &'static str,
        at_length: bool,
        exchange: impl Fn(Words) -> Result<Words, Error>,
    ) -> Result<(), String> {
        self.beside(
            way,
            way,
            exchange,
            |round| if at_length { self.at_length(way, round) } else { self.single(way, round) },
        )
    }

    /// Starts a partner who plays in his way, and measures rounds in ours.
    pub fn beside(
        &self,
        partner: &str,
        way: &str,
        exchange: impl Fn(Words) -> Result<Words, Error>,
        measure: impl FnOnce(&mut dyn FnMut()) -> Result<(), String>,
    ) -> Result<(), String> {
        let partner = self.posts.partner(partner)?;
        let mut failed = Ok(());
        let mut words = [1, 2, 3, 4, 5, 6];
        let measured = measure(&mut || match exchange(words) {
            Ok(came) => words = came,
            Err(error) => failed = Err(error),
        });
        end(partner)?;
        failed.map_err(|e| format!("a round by {way}: {e}"))?;
        measured
    }

    fn single(&self, way: &str, round: &mut dyn FnMut()) -> Result<(), String> {
        round();
        let each = Plan::new(self.rounds).measure(round);
        self.report.case(Case { case: "ping-pong", way, bytes: BYTES }, &each, &[]);
        Ok(())
    }

    fn at_length(&self, way: &'static str, round: &mut dyn FnMut()) -> Result<(), String> {
        let Game { report, posts, .. } = *self;
        self.single(way, round)?;
        // All of them at a stretch, as the paper has it.
        let (began, began_ns) = (time::ticks(), time::now_ns());
        (0..ROUNDS).for_each(|_| round());
        let (without, without_ns) = (time::ticks() - began, time::now_ns() - began_ns);
        let clock = clock::Clock::start(posts, way)?;
        let said = |e| format!("a tick: {e}");
        let before = clock.settle().map_err(said)?;
        let (began, mut failed) = (time::ticks(), Ok(()));
        for n in 0..ROUNDS {
            if n % TICK == 0 {
                failed = failed.and(clock.tick((n / TICK) as u64));
            }
            round();
        }
        let heard = clock.settle();
        let with = time::ticks() - began;
        clock.stop()?;
        failed.map_err(said)?;
        // As its server has received them.
        let messages = heard.map_err(said)?.saturating_sub(before);
        let case = |case| Case { case, way, bytes: BYTES };
        report.average(case("ping-pong-without-clock"), without, ROUNDS as u64);
        let tell = |name, of, with: u64, messages: u64, rounds: usize| {
            report.average(case(name), with, rounds as u64);
            report.count(case(name), "messages", messages);
            let more = with.saturating_sub(without * rounds as u64 / ROUNDS as u64);
            report.count(case(of), "per-message", more / messages.max(1));
        };
        if messages == 0 {
            return Err(format!("{way}: no message has come to the clock"));
        }
        tell("ping-pong-with-clock", "clock", with, messages, ROUNDS);
        // And the machine's own clock, as often, whatever the player does.
        let clock = clock::Clock::beside(posts, TICK as u64 * without_ns / ROUNDS as u64)?;
        let before = clock.settle().map_err(said)?;
        let began = time::ticks();
        (0..TICKING_ROUNDS).for_each(|_| round());
        let with = time::ticks() - began;
        let messages = clock.settle().map_err(said)?.saturating_sub(before);
        clock.stop()?;
        tell("ping-pong-with-ticks", "ticks", with, messages, TICKING_ROUNDS);
        Ok(())
    }
}

/// A partner is needed no more. One whose last message's receiver has ended may have ended, too.
pub fn end(partner: Child) -> Result<(), String> {
    let killed = partner.kill().or_else(|error| if error == Error::NotFound { Ok(()) } else { Err(error) });
    killed.and_then(|()| partner.wait()).map(drop).map_err(|e| format!("a partner's end: {e}"))
}

/// The partner's main function.
pub fn partner(way: &str, words: &[&str]) -> i32 {
    let mut posts = [Post(0); 3];
    for (post, word) in posts.iter_mut().zip(words) {
        let Ok(address) = word.parse() else { return 2 };
        *post = Post(address);
    }
    let played = match way {
        "pool" => by_pool(&posts),
        "limited" => by_pool_within(&posts, LIMIT),
        "question" => by_question(&posts),
        "woken" => by_plain_sends(&posts),
        "several" => by_several(&posts),
        "rendezvous" => by_rendezvous(&posts),
        "asks" => alone::by_asking(&posts),
        _ => match way.split_once('-') {
            Some(("clock", way)) => clock::serve(way, &posts),
            Some(("ticks", every)) => clock::hear(every, &posts),
            Some(("crowd", threads)) => many::serve(threads, &posts),
            Some(("service", threads)) => service::serve(threads, &posts),
            Some(("requests", threads)) => service::serve_soon(threads, &posts),
            _ => return 2,
        },
    };
    played.err().map_or(0, |error| error.word() as i32)
}

pub fn one_more(words: Words) -> Words {
    words.map(|word| word + 1)
}

fn by_pool(posts: &[Post; 3]) -> Result<(), Error> {
    by_pool_within(posts, FOR_EVER)
}

fn by_pool_within(&[there, back, _]: &[Post; 3], limit: u64) -> Result<(), Error> {
    let mut message = there.receive(limit)?;
    loop {
        message = back.send_and_receive(OP, one_more(message.words), there, limit)?;
    }
}

fn by_plain_sends(&[there, back, _]: &[Post; 3]) -> Result<(), Error> {
    loop {
        let message = there.receive(FOR_EVER)?;
        back.send(OP, one_more(message.words), None)?;
    }
}

fn by_several(&[there, back, clock]: &[Post; 3]) -> Result<(), Error> {
    loop {
        let message = post::receive_of(&[there, clock], FOR_EVER)?;
        back.send(OP, one_more(message.words), None)?;
    }
}

fn by_question(&[there, ..]: &[Post; 3]) -> Result<(), Error> {
    let mut message = there.receive(FOR_EVER)?;
    loop {
        message = post::answer_and_receive(message.back, OP, one_more(message.words), there, FOR_EVER)?;
    }
}

fn by_rendezvous(tasks: &[Post; 3]) -> Result<(), Error> {
    let me = Rendezvous { tasks, me: PARTNER };
    let mut received: Received = me.receive()?;
    loop {
        received = me.answer_and_receive(received.from(), received.op, one_more(received.words))?;
    }
}
