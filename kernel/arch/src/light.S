# The light entry (SSS-39): for calls that never wait and come back to their caller. Nothing is saved but where that is: the kernel's
# code keeps what a procedure of the C ABI keeps, and uses no vector registers. That of memory operations (SSS-44) is a second one, with
# numbers and a table of its own.
#
# It counts as user mode to other processors (processor.rs, in_user): what there is to forget is forgotten when it is back there. What
# has to be seen to first makes it a full entry, where the same function serves the call (light.rs, mbcf.rs); what has to be seen to
# afterwards makes it leave as one.

.set LIGHT, 0x80
.set MBCF, 0x70
.set LAP_END, 1                                     # pass.rs

.macro serve_briefly table, slow
    cmp first_text(%rip), %rcx                      # a program in a window means another system's call by that number, also where it has
    jb \slow                                        # jumped to an instruction of the gate
    cmpl $0, %gs:ATTENTION
    jne \slow
    cmpl $LAP_END, %gs:LAP                          # else the rest of the kernel does not know who runs
    jne \slow
    tell STAYS
    mov %rsp, %gs:SCRATCH                           # no other entry comes in between
    mov %gs:STACK, %rsp
    push %r11
    push %rcx
    mov %r10, %rcx
    lea \table(%rip), %r10
    call *(%r10,%rax,8)                             # the status in rax, the value in rdx
    pop %rcx
    pop %r11
    mov %gs:SCRATCH, %rsp
    xor %edi, %edi                                  # what the kernel has left in registers is nobody's
    xor %esi, %esi
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d
    cmpl $0, %gs:ATTENTION                          # interrupts may have been let in, or others have left something to look at
    jne light_left
    go_back
.endm

.section .rodata
.balign 8
first_text:
    .quad {first_text}

.section .text
light_on:
    sub $LIGHT, %rax
    cmp ${light_count}, %rax
    jae mbcf_on
    serve_briefly kernel_light, light_slow
light_slow:
    add $LIGHT, %rax
    jmp syscall_slow

mbcf_on:
    add $(LIGHT - MBCF), %rax
    cmp ${mbcf_count}, %rax
    jae mbcf_slow
    serve_briefly kernel_mbcf, mbcf_slow
mbcf_slow:
    add $MBCF, %rax
    jmp syscall_slow

light_left:                                         # served, but the way out is that of a full entry
    save_call
    mov %gs:STACK, %rsp
    xor %ebp, %ebp
    call left_entry
    jmp resume
.globl ways_end
ways_end:
