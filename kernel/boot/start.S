# From power-on to the kernel's first line. Two ways in, both in 32-bit protected mode without paging:
# PVH (qemu -kernel; ebx = hvm_start_info) and multiboot2 (GRUB; eax = magic, ebx = information).
# Builds a first page table (identity, direct map and image, 4 GiB of 2 MiB pages) and jumps up.

.section .multiboot2, "a", @progbits
.align 8
header:
    .long 0xe85250d6, 0, header_end - header, -(0xe85250d6 + (header_end - header))
    .align 8
    .short 5, 1                                     # framebuffer: any size, 32 bits a pixel preferred, optional
    .long 20, 1024, 768, 32
    .align 8
    .short 6, 0                                     # modules on page borders
    .long 8
    .align 8
    .short 0, 0
    .long 8
header_end:

.section .note.pvh, "a", @note
.align 4
    .long 4, 4, 18                                  # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_start

.section .boot, "awx", @progbits
.code32
.globl pvh_start, multiboot_start
pvh_start:
    mov $0x48564d21, %eax                           # our own mark for kmain: "HVM!"
multiboot_start:
    cli
    cld
    mov %eax, %esi
    mov $boot_stack, %esp
    # four page directories of 2 MiB pages
    mov $boot_pd, %edi
    mov $0x83, %eax
    xor %ecx, %ecx
1:  mov %eax, (%edi,%ecx,8)
    add $0x200000, %eax
    inc %ecx
    cmp $2048, %ecx
    jne 1b
    mov $boot_pml4, %eax
    mov %eax, %cr3
    mov %cr4, %eax
    or $0x620, %eax                                 # PAE, OSFXSR, OSXMMEXCPT
    mov %eax, %cr4
    mov $0xc0000080, %ecx
    rdmsr
    or $0x901, %eax                                 # SCE, LME, NXE
    wrmsr
    mov %cr0, %eax
    or $0x80010022, %eax                            # PG, WP, NE, MP
    and $~0xc, %eax                                 # no EM, no TS
    mov %eax, %cr0
    lgdt boot_gdtr
    ljmp $8, $2f
.code64
2:  mov $16, %eax
    mov %eax, %ss
    mov %eax, %ds
    mov %eax, %es
    xor %eax, %eax
    mov %eax, %fs
    mov %eax, %gs
    movabs $first_stack_top, %rsp
    mov %esi, %edi
    mov %ebx, %esi
    xor %ebp, %ebp
    movabs $kmain, %rax
    call *%rax
3:  hlt
    jmp 3b

.align 8
.globl boot_gdt
boot_gdt:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff
boot_gdtr:
    .word 31
    .long boot_gdt
.align 4096
boot_pml4:
    .quad boot_pdpt + 3
    .fill 255, 8, 0
    .quad boot_pdpt + 3                             # slot 256: direct map
    .fill 14, 8, 0
    .quad boot_pdpt + 3                             # slot 271: image
    .fill 240, 8, 0
boot_pdpt:
    .quad boot_pd + 3, boot_pd + 0x1003, boot_pd + 0x2003, boot_pd + 0x3003
    .fill 508, 8, 0
boot_pd:
    .fill 2048, 8, 0
    .fill 64, 8, 0
boot_stack:

.section .bss
.align 4096
.skip 65536
first_stack_top:
