# The gate: bound calls from one program into another (abi::gate has the convention). First the page of user code that
# every thread finds at GATE_BASE, then the kernel's own short way for the same calls.
#
# Rules that both keep (docs/decisions/0006): nothing is read, written or jumped through at an address that came in a
# register; one store, to TOP, commits a crossing; until it, the inputs are intact and the crossing can be begun again
# (`open`), after it, everything needed can be found from TOP (`clean`). The kernel does just that when it finds a thread
# in between, and sets the key register to what the frame on top says.
#
# A frame: where the caller goes on, the callee's stack pointer at the entry, the record by which it was entered.
.set RIP, 0
.set SP_THEN, 8
.set REC, 16
.set FRAME, 32
# A record (abi::gate::Record).
.set DIRECT, 0
.set ENTRY, 8
.set CELL, 16
.set RECORDS, 24
.set GATES, 80
.set DOMAIN, 88
.set RECORDS_LEN, 92
.set REGISTER, 100
# A cell: where the domain's stack pointer was left, calls by the gate, calls until the kernel looks for itself.
.set COUNTDOWN, 12
.set SLOTS, 0x7ff80                                 # bits that a record's offset may have

.set GATE_BASE, 0x400000000000
.set ALIAS, 0xffff868000000000                      # the same pages for the kernel, slot 269
.set DELTA, ALIAS - GATE_BASE
.set HEAD_PAGE, 0x40001000                          # TOP; its last 32 bytes are the first frame
.set FULL, 0x2fe0                                   # low bits of the last frame's address
.set RETURN, 0x34
# The last plain calls (gate.rs, Plain), 64 of them by bits 4 to 9 of the address, in the head's page.
.set PLAIN_ADDRESS, 0x400
.set PLAIN_REC, 8
.set PLAIN_FROM, 16
.set PLAIN_INDEX, 20
.set PLAIN_MASK, 63 * 32
# What plain calls keep, 64 bytes by depth; twice the distance of the frame below from the first one leads there.
.set KEPT, ALIAS + 0x40004000 - 2 * (GATE_BASE + 0x40001fe0)

# core/keys's OPEN. Key 0 can be read, key 1 (the gate's) read and written, nothing else: no address of a program leads anywhere.
.set OPEN, 0xfffffff2
.set DEFAULT_MXCSR, 0x1f80
.set VECTORS, 7                                     # what XCR0 has: the key register is not among it

# An instruction without which calls are made all the same, and which keeps out who means harm. Its symbol has its length:
# tests/system/src/stages/s66_mutants.rs takes it out, and wants a check to tell.
.macro rule name, instruction:vararg
rule_\name:
    \instruction
.size rule_\name, . - rule_\name
.endm

.section .rodata
.balign 64
.globl gate_begin, gate_end, gate_ranges
gate_begin:
.set TOP, gate_begin + HEAD_PAGE

# --- GATE: r11 = offset of the record, r14 = index, the return address on the stack; arguments pass through.
    pop %r10
in_open:
    xor %ecx, %ecx
    xor %edx, %edx
    mov $OPEN, %eax
    wrpkru                                          # with other rights than OPEN nothing is gained: see the first rule
    mov TOP(%rip), %rbx
    mov REC(%rbx), %rbp
    rule own_slots, and $SLOTS, %r11d               # takes the next line back, if it is begun again
    add RECORDS(%rbp), %r11
    rule whole_index, cmp DIRECT(%r11), %r14
    jae in_kernel
    mov CELL(%rbp), %rbp
    mov %rsp, (%rbp)
    mov CELL(%r11), %rbp
    incl 8(%rbp)                                    # counts the calls of this callee
    mov (%rbp), %rbp
    mov %r10, FRAME+RIP(%rbx)
    mov %rbp, FRAME+SP_THEN(%rbx)
    mov %r11, FRAME+REC(%rbx)
    addq $FRAME, TOP(%rip)
in_clean:                                           # r11 = the record on top, ecx = edx = 0
    rule in_whole_state, mov $VECTORS, %eax         # not what wrpkru was given, which a jump to it can choose
    rule in_state, xrstor nothing(%rip)             # x87 (and so MMX), SSE, AVX and MXCSR as at a program's start
    rule in_direction, cld
    mov REGISTER(%r11), %eax
    rule in_shut, wrpkru
    mov TOP(%rip), %r10                             # again, and compared: who jumps to the instruction above with a value
    mov REC(%r10), %rbx                             # of his own gets no further
    cmp REGISTER(%rbx), %eax
    rule in_register, jne in_trap
    mov SP_THEN(%r10), %rsp
    rule stack_aligned, and $~15, %rsp              # a call by the kernel leaves it with the return address on top
    rule in_r15, xor %r15d, %r15d                   # the last one that is the caller's
in_jump:
    jmp *ENTRY(%rbx)
in_trap:
    ud2
in_kernel:                                          # the call has to be made by the kernel: shut, and enter it
    mov TOP(%rip), %rbx
    mov REC(%rbx), %rbx
    mov REGISTER(%rbx), %eax
    rule kernel_shut, wrpkru
    mov TOP(%rip), %rbx
    mov REC(%rbx), %rbx
    cmp REGISTER(%rbx), %eax
    rule kernel_register, jne in_kernel             # the kernel has changed it meanwhile, or somebody has jumped here
in_end:
    push %r10
    jmp enter

.org gate_begin + 0x100, 0xcc
# --- DONE: where a callee entered by the gate goes: values in rax and rdx.
    mov %rax, %rdi
    mov %rdx, %rsi
out_open:
    xor %ecx, %ecx
    xor %edx, %edx
    mov $OPEN, %eax
    wrpkru
    mov TOP(%rip), %rbx
    mov REC(%rbx), %r15
    mov CELL(%r15), %r15
    mov SP_THEN(%rbx), %r8
    rule stack_as_before, mov %r8, (%r15)
    subq $FRAME, TOP(%rip)
out_clean:                                          # rbx = TOP + FRAME, ecx = edx = 0
    rule out_whole_state, mov $VECTORS, %eax
    rule out_state, xrstor nothing(%rip)
    rule out_direction, cld
    mov REC-FRAME(%rbx), %r15
    mov REGISTER(%r15), %eax
    rule out_shut, wrpkru
    mov TOP(%rip), %rbx
    rule out_record, mov REC(%rbx), %r15            # not what a jump could bring
    cmp REGISTER(%r15), %eax
    rule out_register, jne out_trap
    mov CELL(%r15), %r15
    mov (%r15), %rsp
    rule out_rbp, xor %ebp, %ebp                    # what a procedure would have kept
    rule out_r12, xor %r12d, %r12d
    rule out_r13, xor %r13d, %r13d
    rule out_r14, xor %r14d, %r14d
    rule out_r8, xor %r8d, %r8d
    rule out_r9, xor %r9d, %r9d
    xor %r10d, %r10d                                # status: no error
    rule out_r11, xor %r11d, %r11d
out_jump:
    jmp *FRAME+RIP(%rbx)                            # a frame that the kernel made has no address here: a fault
out_trap:
    ud2
out_end:

.org gate_begin + 0x200, 0xcc
# --- ENTER: the same by the kernel.
enter:
    mov %r11d, %eax
    bts $32, %rax
    syscall
again:                                              # the return address of a plain call is taken from the caller's own
    ret                                             # stack, with the caller's own rights

.org gate_begin + 0x240, 0xcc
# --- DOORSTEP: where a callee goes when the kernel made the call.
    mov %rax, %rdi
    mov %rdx, %rsi
    mov $RETURN, %eax
    syscall
returned:
    ud2
.balign 64
nothing:                                            # for xrstor: every component in its initial state, and MXCSR
    .fill 24
    .long DEFAULT_MXCSR
    .fill 576 - 28
gate_end:

.balign 8
.set AGAIN, GATE_BASE + again - gate_begin
.set RETURNED, GATE_BASE + returned - gate_begin
gate_ranges:                                        # offsets; order known to gate.rs
    .quad in_open - gate_begin
    .quad in_clean - gate_begin
    .quad in_trap - gate_begin
    .quad in_kernel - gate_begin
    .quad in_end - gate_begin
    .quad out_open - gate_begin
    .quad out_clean - gate_begin
    .quad out_jump - gate_begin
    .quad out_end - gate_begin
    .quad again - gate_begin

# What is left of the last program must not reach the next: vector registers, x87, MXCSR.
.macro scrub
    testb $FLAG_AVX, %gs:FLAGS
    jz 2f
    mov $VECTORS, %eax
    xor %edx, %edx
    xrstor nothing(%rip)
3:
.pushsection .text.without_avx, "ax"
2:  xorps %xmm0, %xmm0
    xorps %xmm1, %xmm1
    xorps %xmm2, %xmm2
    xorps %xmm3, %xmm3
    xorps %xmm4, %xmm4
    xorps %xmm5, %xmm5
    xorps %xmm6, %xmm6
    xorps %xmm7, %xmm7
    xorps %xmm8, %xmm8
    xorps %xmm9, %xmm9
    xorps %xmm10, %xmm10
    xorps %xmm11, %xmm11
    xorps %xmm12, %xmm12
    xorps %xmm13, %xmm13
    xorps %xmm14, %xmm14
    xorps %xmm15, %xmm15
    fninit
    .rept 8
    fldz
    .endr
    fninit
    ldmxcsr default_mxcsr(%rip)
    jmp 3b
.popsection
.endm

# Loads the page-table root and key register of the domain whose record %r10 (alias) points to. Uses rax, rcx, rdx.
.macro become record
    mov DOMAIN(\record), %eax
    mov %gs:ROOTS, %rcx
    mov (%rcx,%rax,8), %rcx
    cmp %gs:ROOT, %rcx
    je 1f
    mov %rcx, %gs:ROOT                              # before cr3: who changes tables looks here (percpu.rs)
    mov %rcx, %cr3
    tell VIEWS
1:  incq %gs:CROSSINGS
    scrub
    testb $FLAG_KEYS, %gs:FLAGS
    jz 4f
    xor %ecx, %ecx
    rdpkru
    cmp REGISTER(\record), %eax
    je 4f
    mov REGISTER(\record), %eax
    xor %edx, %edx
    wrpkru
    tell KEYS
4:
.endm

.section .text
# A bound call by `syscall`: rax = CALL_BASE + offset of the record. Everything but rdi rsi r8 r9 r12 r13 r14 rax and rsp
# (the caller's) is free. What cannot be done here is left untouched for epc.rs.
epc_in:
    bt $46, %rcx                                    # a program in a window lies below, and may have anything in the upper half: not even
    jnc syscall_slow                                # its number is one of these
    cmpl $0, %gs:ATTENTION
    jne in_slow
    movabs $ALIAS + HEAD_PAGE, %rbx
    movabs $DELTA, %r15
    mov (%rbx), %rbp
    cmpw $FULL, %bp
    je in_slow
    mov REC(%rbp,%r15), %rdx
    mov %eax, %r10d
    and $SLOTS, %r10d
    cmp RECORDS_LEN(%rdx,%r15), %r10d
    jae in_slow
    add RECORDS(%rdx,%r15), %r10
    cmp GATES(%r10,%r15), %r14
    jae in_slow
    mov CELL(%rdx,%r15), %rdx
    mov %rsp, (%rdx,%r15)
    mov CELL(%r10,%r15), %rdx
    subl $1, COUNTDOWN(%rdx,%r15)                   # now and then, for a domain that may have earned a key, and until it is set again: epc.rs
    jle in_slow
    mov (%rdx,%r15), %rsp
    mov %rsp, FRAME+SP_THEN(%rbp,%r15)
    and $~15, %rsp
    bts $63, %rcx                                   # no address: the user-mode gate cannot return through this frame
    mov %rcx, FRAME+RIP(%rbp,%r15)
    mov %r10, FRAME+REC(%rbp,%r15)
    addq $FRAME, (%rbx)
    mov %r10, %rbx
    add %r15, %r10
    become %r10
    mov ENTRY(%r10), %rcx
    mov $0x202, %r11d
    xor %r15d, %r15d
    xor %eax, %eax
    xor %edx, %edx
    xor %ebp, %ebp
    xor %r10d, %r10d
    go_back
in_slow:
    xor %ebx, %ebx
    xor %edx, %edx
    xor %ebp, %ebp
    xor %r10d, %r10d
    xor %r15d, %r15d
    jmp syscall_slow

# The call `gate_return` with two values in rdi and rsi; everything else is free.
epc_out:
    cmpl $0, %gs:ATTENTION
    jne syscall_slow
    mov %rdx, %gs:SCRATCH                           # for who means another call by this number (foreign.rs)
    movabs ALIAS + HEAD_PAGE, %rax
    movabs $DELTA, %rdx
    testl $0x7fff8000, RIP+4(%rax,%rdx)             # the first frame, one with more to it (epc.rs), or no address
    jnz out_slow
    mov %rax, %rbp
    movabs $ALIAS + HEAD_PAGE, %rbx
    movabs $DELTA, %r15
    mov RIP(%rbp,%r15), %r8
    btr $63, %r8
    mov REC(%rbp,%r15), %rdx
    mov SP_THEN(%rbp,%r15), %r9
    mov CELL(%rdx,%r15), %rdx
    mov %r9, (%rdx,%r15)
    subq $FRAME, (%rbx)
    movq $0, RIP(%rbp,%r15)                         # gate.rs, rewind
    mov REC-FRAME(%rbp,%r15), %r10
    add %r15, %r10
    mov CELL(%r10), %rdx
    mov (%rdx,%r15), %rsp
    become %r10
    mov %r8, %rcx
    mov $0x202, %r11d
    xor %eax, %eax
    xor %ebx, %ebx
    xor %edx, %edx
    xor %ebp, %ebp
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d                                # status: no error
    xor %r12d, %r12d
    xor %r13d, %r13d
    xor %r14d, %r14d
    xor %r15d, %r15d
    go_back
out_slow:
    mov RIP+4(%rax,%rdx), %edx
    shr $15, %edx
    cmp $0x18000, %edx                              # bits 63 and 62 alone: a plain call
    je plain_out
    cmp $0x14000, %edx                              # bits 63 and 61: more to it than the frame holds
    je pager_out                                    # aside.S
out_other:
    mov %gs:SCRATCH, %rdx
    mov $RETURN, %eax
    jmp syscall_slow

# A fetch from where nothing is, with the stack as `interrupt` has it. If this thread has made the same plain call before and
# nothing has changed since, it is made; everything else is left untouched for fault.rs.
plain_in:
    swapgs
    mov %rax, %gs:SAVED
    mov %r10, %gs:SAVED + 8
    mov %r11, %gs:SAVED + 16
    cmpl $0, %gs:ATTENTION
    jne plain_slow
    mov %cr2, %rax
    cmp 16(%rsp), %rax
    jne plain_slow
    movabs $ALIAS + HEAD_PAGE, %r11
    lea (%rax,%rax), %r10d
    and $PLAIN_MASK, %r10d
    lea PLAIN_ADDRESS(%r11,%r10), %r10
    cmp (%r10), %rax
    jne plain_slow
    mov (%r11), %rax
    cmpw $FULL, %ax
    je plain_slow
    movabs $DELTA, %r11
    mov REC(%rax,%r11), %rax
    mov DOMAIN(%rax,%r11), %eax
    cmp PLAIN_FROM(%r10), %eax
    jne plain_slow
    mov PLAIN_REC(%r10), %rax
    add %r11, %rax
    mov PLAIN_INDEX(%r10), %r11d
    cmp GATES(%rax), %r11
    jae plain_slow
    mov %r11d, %gs:SAVED                            # from here on it is made
    movabs $ALIAS + HEAD_PAGE, %r10
    mov (%r10), %r10
    movabs $KEPT, %r11
    lea (%r11,%r10,2), %r11
    mov %rbx, (%r11)
    mov %rbp, 8(%r11)
    mov %r12, 16(%r11)
    mov %r13, 24(%r11)
    mov %r14, 32(%r11)
    mov %r15, 40(%r11)
    stmxcsr 48(%r11)
    fnstcw 52(%r11)
    mov %gs:SAVED, %r14d
    mov %rdx, %r12
    mov %rcx, %r13
    movabs $DELTA, %r15
    mov 40(%rsp), %rbx                              # the caller's stack pointer
    mov REC(%r10,%r15), %rbp
    mov CELL(%rbp,%r15), %rbp
    mov %rbx, (%rbp,%r15)
    mov CELL(%rax), %rbp
    mov (%rbp,%r15), %rsp
    mov %rsp, FRAME+SP_THEN(%r10,%r15)
    and $~15, %rsp
    movabs $AGAIN, %rcx
    bts $63, %rcx
    bts $62, %rcx
    mov %rcx, FRAME+RIP(%r10,%r15)
    mov %rax, %r11
    sub %r15, %rax
    mov %rax, FRAME+REC(%r10,%r15)
    movabs $ALIAS + HEAD_PAGE, %rcx
    addq $FRAME, (%rcx)
    mov %rax, %rbx
    mov %r11, %r10
    become %r10
    mov ENTRY(%r10), %rcx
    mov $0x202, %r11d
    xor %r15d, %r15d
    xor %eax, %eax
    xor %edx, %edx
    xor %ebp, %ebp
    xor %r10d, %r10d
    go_back
plain_slow:
    mov %gs:SAVED, %rax
    mov %gs:SAVED + 8, %r10
    mov %gs:SAVED + 16, %r11
    jmp interrupt_user

# Back from one: rax = TOP. A caller can give the gate a return address that looks like this, but not such a record: what
# another one has kept at this depth is not for him.
plain_out:
    movabs $DELTA, %rdx
    mov REC(%rax,%rdx), %rdx
    shr $19, %rdx
    cmp $(GATE_BASE + 0x80000000) >> 19, %edx       # of no domain (crossing.rs, LOOSE)
    jne out_other
    mov %rax, %rbp
    movabs $ALIAS + HEAD_PAGE, %rbx
    movabs $DELTA, %r15
    mov REC(%rbp,%r15), %rdx
    mov SP_THEN(%rbp,%r15), %r9
    mov CELL(%rdx,%r15), %rdx
    mov %r9, (%rdx,%r15)
    subq $FRAME, (%rbx)
    movq $0, RIP(%rbp,%r15)
    mov REC-FRAME(%rbp,%r15), %r10
    add %r15, %r10
    mov CELL(%r10), %rdx
    mov (%rdx,%r15), %rsp
    movabs $KEPT - 2 * FRAME, %r8
    lea (%r8,%rbp,2), %r8
    become %r10
    ldmxcsr 48(%r8)
    fldcw 52(%r8)
    mov (%r8), %rbx
    mov 8(%r8), %rbp
    mov 16(%r8), %r12
    mov 24(%r8), %r13
    mov 32(%r8), %r14
    mov 40(%r8), %r15
    movabs $AGAIN, %rcx
    mov $0x202, %r11d
    mov %rdi, %rax
    mov %rsi, %rdx
    xor %edi, %edi
    xor %esi, %esi
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d                                # status: no error
    go_back

.section .rodata
default_mxcsr:
    .long DEFAULT_MXCSR
