# The short way to a pager and back (kernel/src/pager/again.rs). As on the other short ways the processor counts as being in user mode
# meanwhile: no interrupt is let in, nothing is waited for, and what there is to look at first or to be settled sends it the long way,
# with everything as it was.

.section .text
asks_pager:                                         # a page fault of a program, with the stack as `interrupt` has it
    swapgs
    save_interrupted
    cmpl $0, %gs:ATTENTION
    jne 1f
    cmpl $LAP_END, %gs:LAP
    jne 1f
    mov %gs:CONTEXT, %rdi
    mov -ERROR_BEFORE_END(%rdi), %rdi
    mov %cr2, %rsi
    call kernel_asks                                # the Registers to go on with, or none
    test %rax, %rax
    jz 1f
    tell STAYS
    jmp resume
1:  call trap_entry
    jmp resume

# `gate_return` by a frame with more to it, all of a thread's registers as that call has them: values in rdi and rsi. Who makes it at the
# doorstep has left nothing in others, and if that was a pager there is nothing of it to keep.
pager_out:
    movabs $RETURNED, %rax
    cmp %rax, %rcx
    jne out_other
    cmpl $LAP_END, %gs:LAP
    jne out_other
    mov %rsp, %rbx
    mov %gs:STACK, %rsp
    push %r11
    push %rcx
    push %rsi
    push %rdi
    xor %ebp, %ebp
    call kernel_answered
    test %rax, %rax
    jz 1f
    tell STAYS
    jmp resume
1:  pop %rdi
    pop %rsi
    pop %rcx
    pop %r11
    mov %rbx, %rsp
    xor %r8d, %r8d                                  # what the kernel has left in registers is nobody's
    xor %r9d, %r9d
    xor %r10d, %r10d
    jmp out_other
