use abi::frame::{Frame, Vectors};

use super::*;

const USR1: u64 = linux::SIGUSR1 as u64;
const SENDER: Sender = Sender { code: 0, task: 42, user: 7 };

fn handled(flags: u64, mask: u64) -> Action {
    Action { handler: 0x40_1000, flags: flags | u64::from(linux::SA_RESTORER), restorer: 0x40_2000, mask }
}

#[test]
fn actions_are_stored_as_linux_does() {
    let action = Action { handler: 1, flags: 2, restorer: 3, mask: 4 };
    let bytes = action.store();
    assert_eq!(bytes.len(), 32);
    assert_eq!((bytes[0], bytes[8], bytes[16], bytes[24]), (1, 2, 3, 4));
    assert_eq!(Action::load(&bytes), action);
    let once = Action { flags: i64::from(linux::SA_RESETHAND as i32) as u64, ..action };
    assert_eq!(Action::load(&once.store()).unknown_flags(), 0);
}

#[test]
fn what_cannot_be_caught() {
    let mut signals = Signals::default();
    for signal in [0, u64::from(linux::SIGKILL), u64::from(linux::SIGSTOP), 65, u64::MAX] {
        assert_eq!(signals.set_action(signal, handled(0, 0)), None);
    }
    assert_eq!(signals.action(0), None);
    assert_eq!(signals.action(65), None);
    signals.set_mask(u64::MAX);
    assert_eq!(signals.mask, !UNTOUCHABLE);
    signals.raise(u64::from(linux::SIGKILL), SENDER);
    assert_eq!(signals.take(), Delivery::End(9));
}

#[test]
fn default_actions() {
    let mut signals = Signals::default();
    signals.raise(u64::from(linux::SIGCHLD), SENDER);
    assert_eq!(signals.take(), Delivery::Nothing);
    signals.raise(u64::from(linux::SIGTERM), SENDER);
    assert_eq!(signals.take(), Delivery::End(15));
    signals.set_action(USR1, Action { handler: IGNORE, ..Action::default() }).unwrap();
    signals.raise(USR1, SENDER);
    assert_eq!(signals.take(), Delivery::Nothing);
    assert_eq!(signals.pending(), 0);
}

#[test]
fn a_blocked_signal_waits_and_waits_once() {
    let mut signals = Signals::default();
    signals.set_mask(bit(USR1));
    signals.raise(USR1, SENDER);
    signals.raise(USR1, SENDER);
    assert_eq!(signals.take(), Delivery::Nothing);
    assert_eq!(signals.pending(), bit(USR1));
    signals.set_mask(0);
    assert_eq!(signals.take(), Delivery::End(USR1));
    assert_eq!(signals.take(), Delivery::Nothing);
}

#[test]
fn masks_while_a_handler_runs() {
    for (flags, own) in [(0, bit(USR1)), (u64::from(linux::SA_NODEFER), 0)] {
        let mut signals = Signals::default();
        signals.set_mask(bit(3));
        signals.set_action(USR1, handled(flags, bit(20))).unwrap();
        signals.raise(USR1, SENDER);
        let Delivery::Handle(Handling { signal: USR1, mask, .. }) = signals.take() else { panic!() };
        assert_eq!(mask, bit(3));
        assert_eq!(signals.mask, bit(3) | bit(20) | own);
    }
}

#[test]
fn handlers_that_are_used_once_or_lost() {
    let mut signals = Signals::default();
    signals.set_action(USR1, handled(u64::from(linux::SA_RESETHAND), 0)).unwrap();
    signals.raise(USR1, SENDER);
    assert!(matches!(signals.take(), Delivery::Handle(_)));
    assert_eq!(signals.action(USR1), Some(Action::default()));
    signals.set_action(USR1, handled(0, 0)).unwrap();
    signals.set_action(1, Action { handler: IGNORE, ..Action::default() }).unwrap();
    signals.exec();
    assert_eq!(signals.action(USR1).unwrap().handler, DEFAULT);
    assert_eq!(signals.action(1).unwrap().handler, IGNORE);
}

#[test]
fn a_record_gives_back_every_register() {
    let mut before = Frame::default();
    for (i, register) in [
        &mut before.rax,
        &mut before.rbx,
        &mut before.rcx,
        &mut before.rdx,
        &mut before.rsi,
        &mut before.rdi,
        &mut before.rbp,
        &mut before.rsp,
        &mut before.r8,
        &mut before.r9,
        &mut before.r10,
        &mut before.r11,
        &mut before.r12,
        &mut before.r13,
        &mut before.r14,
        &mut before.r15,
        &mut before.rip,
        &mut before.rflags,
    ]
    .into_iter()
    .enumerate()
    {
        *register = 0x1001 + i as u64;
    }
    let handling = Handling { signal: USR1, action: handled(0, 0), origin: Origin::Sent(SENDER), mask: 0x55 };
    let mut vectors = Vectors::clean();
    (0..416).filter(|i| !(24..32).contains(i)).for_each(|i| vectors.0[i] = i as u8);
    vectors.0[576..].fill(9);
    vectors.0[Vectors::PRESENT] = 7;
    let record = frame::store(0x7008, &before, &handling, None, &vectors);
    let word = |at: u64| u64::from_le_bytes(record[at as usize..][..8].try_into().unwrap());
    assert_eq!(word(0), 0x40_2000, "where the handler returns to");
    assert_eq!(word(frame::INFO_AT), USR1);
    assert_eq!(word(frame::INFO_AT + 16), 42 | 7 << 32);
    // struct ucontext of Linux: registers from 40, r8 first and the instruction pointer at 168, the mask at 296.
    assert_eq!(word(frame::CONTEXT_AT + 40), before.r8);
    assert_eq!(word(frame::CONTEXT_AT + 160), before.rsp);
    assert_eq!(word(frame::CONTEXT_AT + 168), before.rip);
    assert_eq!(word(frame::CONTEXT_AT + 296), 0x55);
    let mut after = Frame::default();
    let (mask, at) = frame::load(record[..frame::LEN as usize].try_into().unwrap(), &mut after);
    assert_eq!((mask, at % 64), (0x55, 0));
    let saved = (at - 0x7008) as usize;
    assert_eq!(record.len(), saved + frame::VECTORS_LEN);
    let read = |record: &[u8]| {
        frame::load_vectors(|offset, to| {
            to.copy_from_slice(&record[saved + offset..][..to.len()]);
            Ok::<(), ()>(())
        })
        .unwrap()
    };
    let same = |a: &Vectors, b: &Vectors, len: usize| a.0[..416] == b.0[..416] && a.0[512..len] == b.0[512..len];
    assert!(same(&read(&record), &vectors, Vectors::LEN));
    // A program that puts there what FXSAVE has means only that.
    let mut old = record.clone();
    old[saved + 464] = 0;
    assert!(same(&read(&old), &Vectors { ..vectors }, 512) && read(&old).0[512..] == Vectors::clean().0[512..]);
    let list = |f: &Frame| {
        [
            f.rax, f.rbx, f.rcx, f.rdx, f.rsi, f.rdi, f.rbp, f.rsp, f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14,
            f.r15, f.rip, f.rflags,
        ]
    };
    assert_eq!(list(&after), list(&before));
}

#[test]
fn where_the_record_goes() {
    let plain = handled(0, 0);
    let alt = Some(AltStack { address: 0x10000, len: 0x4000 });
    let on_alt = handled(u64::from(linux::SA_ONSTACK), 0);
    for rsp in 0x7000_0000..0x7000_0020u64 {
        let at = frame::address(rsp, &plain, alt).unwrap();
        assert_eq!(at % 16, 8, "as after a call");
        assert!(at + frame::LEN <= rsp - 128, "the red zone is left alone");
    }
    let at = frame::address(0x7000_0000, &on_alt, alt).unwrap();
    assert!((0x10000..0x14000).contains(&at) && at + frame::LEN <= 0x14000);
    let nested = frame::address(0x13000, &on_alt, alt).unwrap();
    assert!(nested < 0x13000 - 128, "already on it: go on below");
    for action in [&plain, &on_alt] {
        assert_eq!(frame::address(0x10100, action, alt), None, "it is full");
    }
    let small = Some(AltStack { address: 0x10000, len: 1000 });
    assert_eq!(frame::address(0x7000_0000, &on_alt, small), None);
}

#[test]
fn a_fault_does_not_wait() {
    const SEGV: u64 = linux::SIGSEGV as u64;
    let fault = Fault { signal: SEGV, ..Fault::default() };
    let mut signals = Signals::default();
    assert_eq!(signals.fault(fault), None);
    signals.set_action(SEGV, handled(0, bit(20))).unwrap();
    signals.set_mask(bit(3));
    let handling = signals.fault(fault).unwrap();
    assert_eq!((handling.origin, handling.mask), (Origin::Fault(fault), bit(3)));
    assert_eq!(signals.mask, bit(3) | bit(20) | bit(SEGV));
    assert_eq!((signals.fault(fault), signals.pending()), (None, 0), "blocked now");
    signals.set_mask(0);
    signals.set_action(SEGV, Action { handler: IGNORE, ..Action::default() }).unwrap();
    assert_eq!(signals.fault(fault), None);
}
