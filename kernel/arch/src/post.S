# The short way of `post_call` and `post_answer` (docs/decisions/0009): who sends and then waits hands the processor to the one
# who has received. Both lose all registers to the message, so there is nothing of them to keep but where they go on. As in
# pass.S, the rest of the kernel sees this when it settles. And the short way of `post_send` and `post_receive`: mostly the caller
# goes on.

# A Frame (post.rs) of the registers, and of these in the places of rsp and rdx.
.macro put_frame sp, rdx
    push \sp
    push %r11
    push %rcx
    push %rax
    push \rdx
    push %rsi
    push %rdi
    push %r15
    push %r14
    push %r13
    push %r12
    push %r9
    push %r8
    push %r10
    push %rbp
    push %rbx
.endm

# Calls this with the frame on the stack, the domain that the thread is in, and its card, which is in rdx. It comes back at
# `post_done`, with the stack as it is here and rax.
.macro ask_kernel function
    movabs $ALIAS + HEAD_PAGE, %rax                 # where it really is: the frame on top
    movabs $DELTA, %rcx
    mov (%rax), %rsi
    mov REC(%rsi,%rcx), %rsi
    mov DOMAIN(%rsi,%rcx), %esi
    mov %rsi, REST_DOMAIN(%rdx)
    mov %rsp, %rdi
    xor %ebp, %ebp
    call \function
.endm

# The registers of a message, and rax, from a Frame (post.rs) on the stack; behind them are rip, rflags and rsp.
.macro take_message
    pop %rbx
    pop %rbp
    pop %r10
    pop %r8
    pop %r9
    pop %r12
    pop %r13
    pop %r14
    pop %r15
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rax
.endm

.section .text
post_on:
    cmpl $0, %gs:ATTENTION
    jne syscall_slow
    cmp $-1, %rdx                                   # a limit of time is kept
    jne limited_on
    mov %gs:BEARER, %rdx                            # its card: where it goes on, if it rests
    mov %rcx, REST_RIP(%rdx)
    mov %rsp, REST_SP(%rdx)
    mov %gs:STACK, %rsp
    put_frame REST_SP(%rdx), $-1
    cmp $POST_CALL, %rax
    jne 2f
    test %rsi, %rsi                                 # where what comes next is expected; 0: it is an answer to this
    jz 1f
    ask_kernel kernel_sends_and_receives
1:  ask_kernel kernel_asks_for_answer
2:  test %rsi, %rsi
    jz 3f
    ask_kernel kernel_answers_and_receives
3:  xor %eax, %eax                                  # an answer alone: by the kernel proper
.globl post_done
post_done:
    cmp $3, %rax
    ja post_to
    je post_took
    cmp $1, %rax
    ja post_kernel
    je post_back
    take_message                                    # nothing has been done: the kernel proper does it
    pop %rcx
    pop %r11
    pop %rsp
    jmp syscall_slow
.globl post_again
post_again:                                         # nothing has been done, and what the call lacked is there now
    take_message
    pop %rcx
    pop %r11
    pop %rsp
    jmp post_calls
post_to:                                            # rax = the card of the one that comes; the stack begins with its registers
    mov %rax, %r8
    movabs $ALIAS + HEAD_PAGE, %r9
    movabs $DELTA, %r10
    take_up REST_DOMAIN
    scrub
post_on_from_there:                                 # rsp may be where a message is kept: nothing is pushed
    mov REST_RIP(%r8), %rcx
    mov REST_SP(%r8), %r8
    mov %r8, %gs:SCRATCH
    take_message
    mov $0x202, %r11d
    mov %gs:SCRATCH, %rsp
    go_back
post_resume:                                        # rsp = the Registers of one who has waited: where he goes on, and where his message lies
    mov AT_RIP(%rsp), %rcx
    mov AT_FLAGS(%rsp), %r11
    mov AT_RSP(%rsp), %rax
    mov %rax, %gs:SCRATCH
    mov AT_ERROR(%rsp), %rsp                        # nothing is pushed
    take_message
    mov %gs:SCRATCH, %rsp
    go_back
post_took:                                          # the caller goes on, with a message that was kept; it has said where when it called
    tell STAYS
    mov %gs:BEARER, %r8
    jmp post_on_from_there
post_back:
    tell STAYS
    take_message
    pop %rcx
    pop %r11
    pop %rsp
    go_back
plain_on:                                           # a message alone, or a wait for one
    je 1f
    cmp $POST_RECEIVE, %rax
    jne syscall_slow
1:  cmpl $0, %gs:ATTENTION
    jne syscall_slow
limited_on:
    mov %rsp, %gs:SCRATCH
    mov %gs:STACK, %rsp
    put_frame %gs:SCRATCH, %rdx                     # window code may have made this call, and keeps all of it
    mov %gs:BEARER, %rdx
    mov %rcx, REST_RIP(%rdx)
    mov %gs:SCRATCH, %rcx
    mov %rcx, REST_SP(%rdx)
    ask_kernel kernel_plain
post_kernel:                                        # the work of the pool is done, what is left is not
    mov %rsp, %rdi
    call post_left
    jmp resume
