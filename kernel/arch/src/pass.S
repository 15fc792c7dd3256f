# The short way of `thread_next` (docs/decisions/0007): a thread that executes the scheduler's text passes the processor on to
# one that was put aside in the same way. What the rest of the kernel knows of threads does not change here: to it, both
# still run on this processor, until it is entered in full and settles (pass.rs).
#
# A card.
.set NUMBER, 0
.set PARKED, 8                                      # 1 + the processor that it is put aside on
.set LINK, 16
.set CARD_CONTEXT, 24
.set CARD_ROOTS, 32
.set CARD_DOMAIN, 40                                # where it is: the scheduler's text, among the thread's domains
.set CARD_TEXT, 48
.set CARD_SP, 56
.set CARD_RIP, 64
.set CARD_KEPT, 72                                  # rbx rbp r12 r13 r14 r15
.set TICKS, 120
.set REST_DOMAIN, 136                               # where it waits in a post: post.rs
.set REST_RIP, 144
.set REST_SP, 152
.set LAP_MAX, {lap_max}                             # pass.rs
.set LOOK_AROUND, {look_around}                     # percpu.rs

# Makes the thread of the card %r8 the one that runs here, where the card says in `domain`; %r9 and %r10 lead to the gate's head.
# Uses rax, rcx, rdx, rsi.
.macro take_up domain turn
    mov %r8, %gs:BEARER
    mov NUMBER(%r8), %rax
    mov %gs:RUNNING, %rdx
    mov %rax, (%rdx)
    .ifnb \turn
    mov %rax, 8(%rdx)                               # and on its own turn; a message hands over the one that there is
    .endif
    mov CARD_CONTEXT(%r8), %rax
    mov %rax, %gs:CONTEXT
    mov %gs:ENTRY_STACK, %rdx
    mov %rax, (%rdx)
    mov CARD_ROOTS(%r8), %rcx
    mov %rcx, %gs:ROOTS
    mov \domain(%r8), %rax
    mov (%rcx,%rax,8), %rcx
    cmp %gs:ROOT, %rcx
    je 2f
    mov %rcx, %gs:ROOT                              # before cr3: percpu.rs
    mov %rcx, %cr3
    tell VIEWS
2:  tell PASSES
    testb $FLAG_KEYS, %gs:FLAGS
    jz 3f
    mov (%r9), %rsi
    mov REC(%rsi,%r10), %rsi
    xor %ecx, %ecx
    rdpkru
    cmp REGISTER(%rsi,%r10), %eax
    je 3f
    mov REGISTER(%rsi,%r10), %eax
    xor %edx, %edx
    wrpkru
    tell KEYS
3:
.endm

.section .text
# rdi = thread, rsi = turn, rdx = ns. With turn 0 a caller keeps what a procedure keeps, as the C ABI has it; the control words
# have their defaults (docs/abi.md).
pass_on:
    mov %rsi, %rax
    or %rdx, %rax
    jnz pass_slow                                   # a turn of a queue, or another limit of time
    cmpl $0, %gs:ATTENTION
    jne pass_lost
    mov %gs:BEARER, %rax
    mov %gs:SCHEDULER, %rsi                         # window code may have made this call, and keeps all but these two, which are 0
    cmp CARD_TEXT(%rax), %rsi
    jne pass_lost
    movabs $ALIAS + HEAD_PAGE, %rsi                 # where it really is: the frame on top
    movabs $DELTA, %rdx
    mov (%rsi), %rsi
    mov REC(%rsi,%rdx), %rsi
    mov DOMAIN(%rsi,%rdx), %esi
    cmp CARD_DOMAIN(%rax), %rsi
    jne pass_lost
    mov %rdx, %r10                                  # the scheduler's text: a procedure need not keep these
    movabs $ALIAS + HEAD_PAGE, %r9
    mov %edi, %r8d
    and $63, %r8d
    shl $4, %r8d
    add %gs:CARDS, %r8
    cmp %rdi, (%r8)
    jne pass_none
    mov 8(%r8), %r8
    cmp %rdi, NUMBER(%r8)                           # cards are never freed, and used again
    jne pass_none
    mov %gs:INDEX, %rdx
    inc %rdx
    cmp %rdx, PARKED(%r8)
    jne pass_none
    # From here on it is done. The one that goes:
    mov %rdx, PARKED(%rax)
    mov %rcx, CARD_RIP(%rax)
    mov %rsp, CARD_SP(%rax)
    mov %rbx, CARD_KEPT(%rax)
    mov %rbp, CARD_KEPT+8(%rax)
    mov %r12, CARD_KEPT+16(%rax)
    mov %r13, CARD_KEPT+24(%rax)
    mov %r14, CARD_KEPT+32(%rax)
    mov %r15, CARD_KEPT+40(%rax)
    cmpq $0, LINK(%rax)
    jne 1f
    mov %gs:LAP, %rcx
    mov %rcx, LINK(%rax)
    mov %rax, %gs:LAP
    incq %gs:LAPPED
    cmpq $LAP_MAX, %gs:LAPPED
    jb 1f
    lock orq $LOOK_AROUND, %gs:ATTENTION            # no short way more until it is settled
1:  mov %rax, %rdi
    rdtsc
    shl $32, %rdx
    or %rdx, %rax
    mov %rax, %rdx
    sub %gs:SINCE, %rdx
    mov %rax, %gs:SINCE
    add %rdx, TICKS(%rdi)
    # The one that comes:
    movq $0, PARKED(%r8)
    take_up CARD_DOMAIN, own
    mov CARD_RIP(%r8), %rcx
    mov CARD_SP(%r8), %rsp
    mov CARD_KEPT(%r8), %rbx
    mov CARD_KEPT+8(%r8), %rbp
    mov CARD_KEPT+16(%r8), %r12
    mov CARD_KEPT+24(%r8), %r13
    mov CARD_KEPT+32(%r8), %r14
    mov CARD_KEPT+40(%r8), %r15
    mov $0x202, %r11d
    xor %eax, %eax                                  # no error
    xor %edx, %edx
    xor %edi, %edi
    xor %esi, %esi
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d
    go_back
pass_none:                                          # of the scheduler's own text
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d
pass_lost:                                          # rsi and rdx were 0
    xor %esi, %esi
    xor %edx, %edx
pass_slow:
    mov $THREAD_NEXT, %eax
    jmp syscall_slow
