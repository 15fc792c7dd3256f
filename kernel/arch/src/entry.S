# The ways into the kernel and out of it. Every entry from user mode saves the whole context straight into the
# running thread's Registers (all vectors' stack in the TSS and gs:CONTEXT point to its end) and goes on on the processor's own stack.
# Registers, lowest first: r15 r14 r13 r12 r11 r10 r9 r8 rdi rsi rbp rbx rdx rcx rax vector error rip cs rflags rsp ss.

.set CONTEXT, 0                                     # gs: end of the running thread's Registers
.set STACK, 8                                       # gs: top of this processor's kernel stack
.set SCRATCH, 16                                    # gs: user rsp during the first instructions of syscall
.set ROOT, 40                                       # gs: the page-table root that is loaded
.set ROOTS, 48                                      # gs: the running thread's roots, by domain
.set ATTENTION, 56                                  # gs: the way out must look around
.set CROSSINGS, 4104                                # gs: counters of the short way: calls and returns,
.set VIEWS, 4128                                    # roots loaded,
.set KEYS, 4136                                     # key registers written
.set FLAGS, 64                                      # gs: what the processor has
.set SAVED, 72                                      # gs: three words for plain_in
.set BEARER, 96                                     # gs: the running thread's card: pass.S
.set LAP, 104
.set SCHEDULER, 112
.set CARDS, 120
.set ENTRY_STACK, 128
.set SINCE, 136
.set PASSES, 4112
.set RUNNING, 144
.set LAPPED, 176
.set STAYS, 4120
.set INDEX, 24                                      # gs: number of this processor
.set THREAD_NEXT, 0x15
.set POST_SEND, 0x62
.set POST_RECEIVE, 0x64
.set POST_CALL, 0x65
.set POST_ANSWER, 0x66
.set FETCH_FROM_NOTHING, 0x14                       # a page fault's error code: user mode, fetch, not present
.set FLAG_AVX, 1
.set FLAG_KEYS, 2
.set GATE_RETURN, 0x34
.set VECTOR_SYSCALL, 0x100
.set SUPERVISOR, 1                                   # in a root: its view is one of a text in supervisor mode (tables.rs)
.set IMAGE_HALF, 0xffff8780                         # upper half of all addresses of the kernel's code
.set AT_VECTOR, 15 * 8
.set AT_ERROR, 16 * 8
.set AT_RIP, 17 * 8
.set AT_FLAGS, 19 * 8
.set AT_RSP, 20 * 8
.set ERROR_BEFORE_END, 48                           # from the end of Registers back

# One more of what only programs read, if they are told (shown.rs).
.set TOLD, {told}
.macro tell counter
    .if TOLD
    incq %gs:\counter
    .endif
.endm

.macro save
    push %rax
    push %rcx
    push %rdx
    push %rbx
    push %rbp
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %r12
    push %r13
    push %r14
    push %r15
.endm

# The same, and the kernel's own stack and flags after an interrupt of a program.
.macro save_interrupted
    save
    mov %gs:STACK, %rsp
    xor %ebp, %ebp
    push $2                                         # no flag is left: DF, and AC, which would open the program's pages to
    popf                                            # the kernel and which an interrupt, unlike syscall, leaves as it is
.endm

# The whole context of a thread that has come by `syscall`.
.macro save_call
    mov %rsp, %gs:SCRATCH
    mov %gs:CONTEXT, %rsp
    push $0x1b                                      # ss: user data
    push %gs:SCRATCH
    push %r11                                       # rflags
    push $0x23                                      # cs: user code
    push %rcx                                       # rip
    push $0
    push $VECTOR_SYSCALL
    save
.endm

.section .text
.globl ways_begin                                   # so far are the ways in and out: host/measure counts them apart
ways_begin:
.globl syscall_entry
.align 16
syscall_entry:                                      # interrupts are off and DF, TF, AC are clear: SFMASK
    swapgs
    bt $32, %rax
    jc epc_in                                       # a bound call, and its return: gate.S
    cmp $GATE_RETURN, %rax
    je epc_out
    cmp $THREAD_NEXT, %rax                          # one thread passes the processor on to another: pass.S
    je pass_on
post_calls:
    cmp $POST_CALL, %rax                            # a message, and a wait for the next one: post.S
    je post_on
    cmp $POST_ANSWER, %rax
    je post_on
    ja light_on                                     # all beyond: light.S
    cmp $POST_SEND, %rax                            # one of the two alone
    jae plain_on
syscall_slow:
    save_call
    mov %gs:STACK, %rsp
    xor %ebp, %ebp
    call kernel_call                                # returns the Registers to go on with
.globl resume
resume:
    mov %rax, %rsp
    cmpq $VECTOR_SYSCALL, AT_VECTOR(%rsp)
    jne 1f
    # sysret: rcx and r11 are lost by contract. rip of a syscall is below 2^47, so it is canonical.
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rbp
    pop %rbx
    pop %rdx
    pop %rcx
    pop %rax
    mov 16(%rsp), %rcx
    mov 32(%rsp), %r11
    mov 40(%rsp), %rsp
    swapgs
    sysretq
1:  jo post_resume                                  # with a message that lies elsewhere: post.S (context.rs, VECTOR_MESSAGE)
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rbp
    pop %rbx
    pop %rdx
    pop %rcx
    pop %rax
    add $16, %rsp
    swapgs
    iretq

# Vectors 0 to 255. Stubs are 16 bytes apart; each leaves vector and error code as Registers has them.
.align 16
.globl vectors
vectors:
.set i, 0
.rept 256
    .align 16
    .if (i == 8) || ((i >= 10) && (i <= 14)) || (i == 17) || (i == 21) || (i == 29) || (i == 30)
    .else
    push $0
    .endif
    push $i
    .if i == 14
    jmp page_fault
    .else
    jmp interrupt
    .endif
    .set i, i + 1
.endr

.align 16
page_fault:
    cmpl $FETCH_FROM_NOTHING, 8(%rsp)
    je plain_in                                     # perhaps a plain call: gate.S
    testb $3, 24(%rsp)
    jz supervisor
    jmp asks_pager                                  # perhaps one like the one before: aside.S
interrupt:
    testb $3, 24(%rsp)                              # cs of the interrupted code
    jz supervisor
from_program:
    swapgs
interrupt_user:
    save_interrupted
    call trap_entry
    jmp resume
supervisor:                                         # a text that is placed there, wherever it has jumped to; or the kernel
    cmpl $IMAGE_HALF, 20(%rsp)
    jne from_program
    cmpq $32, (%rsp)
    jb kernel_fault
    # An interrupt in the idle loop, or where the kernel lets them in.
    save
    mov %rsp, %rdi
    mov %rsp, %rbx
    and $~15, %rsp
    cld
    call kernel_interrupt
    mov %rbx, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rbp
    pop %rbx
    pop %rdx
    pop %rcx
    pop %rax
    add $16, %rsp
    iretq

kernel_fault:                                       # what is left of the thread's registers is shown, on another stack
    save
    mov $0xc0000101, %ecx                           # as below
    rdmsr
    test %edx, %edx
    js 1f
    swapgs
1:  mov %rsp, %rdi
    mov %gs:ENTRY_STACK, %rsp
    mov -16(%rsp), %rsp
    cld
    call kernel_fatal
    ud2

# The end of every short way: rip in rcx, flags in r11, everything else as the program is to have it. A text in supervisor mode goes
# on there: its flags are what a procedure leaves, and no interrupt comes between the last two instructions.
.macro go_back
    testb $SUPERVISOR, %gs:ROOT
    jnz to_supervisor
    swapgs
    sysretq
.endm
.align 16
to_supervisor:
    swapgs
    sti
    jmp *%rcx

# NMI, double fault and machine check, each on a stack of its own: never returns, but for a machine check in a program.
.globl fatal_vectors
.align 16
fatal_vectors:
    push $0
    push $2
    jmp fatal
    .align 16
    push $8                                         # #DF pushed an error code already
    jmp fatal
    .align 16
    testb $3, 8(%rsp)
    jnz 1f
    cmpl $IMAGE_HALF, 4(%rsp)                       # a machine check in the kernel: who knows whose stack and GS that were
    je 2f
1:  swapgs                                          # in a program, wherever it is placed: as any other exception of its
    push %rax
    push %rbx
    mov %gs:CONTEXT, %rax
    .irp at, 48, 40, 32, 24, 16                     # ss rsp rflags cs rip
    mov \at(%rsp), %rbx
    sub $8, %rax
    mov %rbx, (%rax)
    .endr
    movq $0, -8(%rax)
    movq $18, -16(%rax)
    sub $16, %rax
    mov %rax, %gs:SCRATCH
    pop %rbx
    pop %rax
    mov %gs:SCRATCH, %rsp
    jmp interrupt_user
2:  push $0
    push $18
fatal:
    save
    mov $0xc0000101, %ecx                           # GS base: the user's, if it came from user mode or from the first
    rdmsr                                           # instructions of an entry. The kernel's is in the upper half.
    test %edx, %edx
    js 1f
    swapgs
1:
    mov %rsp, %rdi
    and $~15, %rsp
    push $2                                         # as in interrupt_user
    popf
    call kernel_fatal
    ud2
