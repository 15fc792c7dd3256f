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
        let Delivery::Handle { signal: USR1, mask, .. } = signals.take() else { panic!() };
        assert_eq!(mask, bit(3));
        assert_eq!(signals.mask, bit(3) | bit(20) | own);
    }
}

#[test]
fn handlers_that_are_used_once_or_lost() {
    let mut signals = Signals::default();
    signals.set_action(USR1, handled(u64::from(linux::SA_RESETHAND), 0)).unwrap();
    signals.raise(USR1, SENDER);
    assert!(matches!(signals.take(), Delivery::Handle { .. }));
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
    let record = frame::store(&before, USR1, &handled(0, 0), SENDER, 0x55, None);
    assert_eq!(record.len() as u64, frame::LEN);
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
    assert_eq!(frame::load(&record.try_into().unwrap(), &mut after), 0x55);
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
        let at = frame::address(rsp, &plain, alt);
        assert_eq!(at % 16, 8, "as after a call");
        assert!(at + frame::LEN <= rsp - 128, "the red zone is left alone");
    }
    let at = frame::address(0x7000_0000, &on_alt, alt);
    assert!((0x10000..0x14000).contains(&at) && at + frame::LEN <= 0x14000);
    let nested = frame::address(0x13000, &on_alt, alt);
    assert!(nested < 0x13000 - 128, "already on it: go on below");
}
