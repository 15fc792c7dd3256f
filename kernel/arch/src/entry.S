# The ways into the kernel and out of it. Every entry from user mode saves the whole context straight into the
# running thread's Registers (TSS.RSP0 and gs:CONTEXT point to its end) and goes on on the processor's own stack.
# Registers, lowest first: r15 r14 r13 r12 r11 r10 r9 r8 rdi rsi rbp rbx rdx rcx rax vector error rip cs rflags rsp ss.

.set CONTEXT, 0                                     # gs: end of the running thread's Registers
.set STACK, 8                                       # gs: top of this processor's kernel stack
.set SCRATCH, 16                                    # gs: user rsp during the first instructions of syscall
.set ROOT, 40                                       # gs: the page-table root that is loaded
.set ROOTS, 48                                      # gs: the running thread's roots, by domain
.set ATTENTION, 56                                  # gs: the way out must look around
.set CROSSINGS, 64                                  # gs: counters of the short way: calls and returns,
.set VIEWS, 72                                      # roots loaded,
.set KEYS, 80                                       # key registers written
.set FLAGS, 88                                      # gs: what the processor has
.set SAVED, 96                                      # gs: three words for plain_in
.set BEARER, 120                                    # gs: the running thread's card: pass.S
.set LAP, 128
.set SCHEDULER, 136
.set CARDS, 144
.set ENTRY_STACK, 152
.set SINCE, 160
.set PASSES, 168
.set RUNNING, 176
.set STAYS, 184
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
.set AT_VECTOR, 15 * 8

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

.section .text
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
    cmp $POST_CALL, %rax                            # a message, and a wait for the next one: post.S
    je post_on
    cmp $POST_ANSWER, %rax
    je post_on
    ja light_on                                     # all beyond: light.S
    cmp $POST_SEND, %rax                            # one of the two alone
    jae plain_on
syscall_slow:
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
    mov %gs:STACK, %rsp
    xor %ebp, %ebp
    call trap_entry                                 # returns the Registers to go on with
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
1:  pop %r15
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
interrupt:
    testb $3, 24(%rsp)                              # cs of the interrupted code
    jz 2f
    swapgs
interrupt_user:
    save
    mov %gs:STACK, %rsp
    xor %ebp, %ebp
    cld
    call trap_entry
    jmp resume
    # From the kernel: an interrupt in the idle loop, or a bug.
2:  save
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

# NMI, double fault and machine check, each on a stack of its own: never returns.
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
    push $0
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
    cld
    call kernel_fatal
    ud2
