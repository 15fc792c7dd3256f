# How a further processor starts: copied to a page below 1 MiB, entered there in real mode with cs = page >> 4.
# The words at its end are filled in by the first processor: page table, stack, index, and whom it has called. A processor that
# comes late, when another one has been called or the call was taken back, stays here for ever.

.section .rodata
.globl ap_begin, ap_end, ap_root, ap_stack, ap_index, ap_entry, ap_called, ap_open
.align 16
.code16
ap_begin:
    cli
    cld
    mov %cs, %ax
    mov %ax, %ds
    xor %ebx, %ebx
    mov %ax, %bx
    shl $4, %ebx                                    # ebx = where we are
    # far pointers and the GDT register need linear addresses
    lea (ap_gdt - ap_begin)(%ebx), %eax
    mov %eax, (ap_gdtr + 2 - ap_begin)
    lea (ap_32 - ap_begin)(%ebx), %eax
    mov %eax, (ap_far32 - ap_begin)
    lea (ap_64 - ap_begin)(%ebx), %eax
    mov %eax, (ap_far64 - ap_begin)
    lgdtl (ap_gdtr - ap_begin)
    mov %cr0, %eax
    or $1, %eax
    mov %eax, %cr0
    ljmpl *(ap_far32 - ap_begin)
.code32
ap_32:
    mov $16, %ax
    mov %ax, %ds
    mov %ax, %ss
    mov %ebx, %esi
    mov $1, %eax
    cpuid
    shr $24, %ebx                                   # who this is
    cmp %ebx, (ap_called - ap_begin)(%esi)
    jne 1f
    xor %eax, %eax
    xchg %eax, (ap_open - ap_begin)(%esi)
    test %eax, %eax
    jnz 2f
1:  hlt
    jmp 1b
2:  mov %esi, %ebx
    mov (ap_root - ap_begin)(%ebx), %eax
    mov %eax, %cr3
    mov %cr4, %eax
    or $0x620, %eax
    mov %eax, %cr4
    mov $0xc0000080, %ecx
    rdmsr
    or $0x901, %eax
    wrmsr
    mov %cr0, %eax
    or $0x80010022, %eax
    and $~0xc, %eax
    mov %eax, %cr0
    ljmp *(ap_far64 - ap_begin)(%ebx)
.code64
ap_64:
    mov (ap_stack - ap_begin)(%rbx), %rsp
    mov (ap_index - ap_begin)(%rbx), %rdi
    mov (ap_entry - ap_begin)(%rbx), %rax
    xor %ebp, %ebp
    call *%rax
1:  hlt
    jmp 1b
.align 8
ap_gdt:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff
ap_gdtr:
    .word 31
    .long 0
ap_far32:
    .long 0
    .word 24
.align 8
ap_far64:
    .long 0
    .word 8
.align 8
ap_root:
    .quad 0
ap_stack:
    .quad 0
ap_index:
    .quad 0
ap_entry:
    .quad 0
ap_called:
    .long 0
ap_open:
    .long 0
ap_end:
