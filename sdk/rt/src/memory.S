# Copying, filling and comparing memory: memmove, memset and memcmp, with the C ABI (memory.rs).
#
# Little is a few overlapping moves. All is loaded before anything is stored, so that it does not matter how source and
# destination overlap. Much goes by 16 registers at a turn, of 32 bytes if the processor has AVX: few instructions for each
# byte, since a `rep` is slow for little, and under a translator for much.

.section .bss.musubi_avx, "aw", @nobits
.globl musubi_avx
musubi_avx:                                         # whether programs may use AVX: found out at their start
    .zero 1

.section .text.musubi_memory, "ax", @progbits

# Copies a register for each number, at their places behind rcx: all loads, then all stores.
.macro through move, register, width, numbers:vararg
    .irp n, \numbers
    \move \register\()\n, [rsi + rcx + \n * \width]
    .endr
    .irp n, \numbers
    \move [rdi + rcx + \n * \width], \register\()\n
    .endr
.endm

# A step of `registers` many, if rdx has this bit.
.macro step move, register, width, registers, numbers:vararg
    test edx, \registers * \width
    jz 1f
    through \move, \register, \width, \numbers
    add rcx, \registers * \width
1:
.endm

# From the front: more than 16 bytes, and the destination does not begin inside of the source.
.macro forwards move, register, width
    mov rcx, rdx
    and rcx, -16 * \width
    jz 3f
    add rsi, rcx
    add rdi, rcx
    neg rcx
    .balign 16
2:  through \move, \register, \width, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    add rcx, 16 * \width
    jnz 2b
3:  and edx, 16 * \width - 1                        # rcx = 0: how far the rest is done
    jz 4f
    step \move, \register, \width, 8, 0, 1, 2, 3, 4, 5, 6, 7
    step \move, \register, \width, 4, 0, 1, 2, 3
    step \move, \register, \width, 2, 0, 1
    step \move, \register, \width, 1, 0
    add rsi, rcx
    add rdi, rcx
    and edx, \width - 1
4:
.endm

# From the end, down to less than 128 bytes.
.macro backwards move, register, width, numbers:vararg
    lea rcx, [rdx - 128]
2:  through \move, \register, \width, \numbers
    sub rcx, 128
    jae 2b
    lea rdx, [rcx + 128]
.endm

.balign 64
.globl musubi_copy
.type musubi_copy, @function
musubi_copy:                                        # rdi = to, rsi = from, rdx = how much; returns to
    mov rax, rdi
copy_little:
    cmp rdx, 16
    ja 20f
    cmp edx, 8
    jb 11f
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
11: cmp edx, 4
    jb 12f
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
12: test edx, edx
    jz 13f
    movzx ecx, byte ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    mov r9d, edx
    shr r9d
    movzx r10d, byte ptr [rsi + r9]
    mov [rdi], cl
    mov [rdi + r9], r10b
    mov [rdi + rdx - 1], r8b
13: ret
20: cmp rdx, 128
    ja copy_much
    cmp edx, 32
    ja 21f
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    ret
21: movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + rdx - 32]
    movups xmm3, [rsi + rdx - 16]
    cmp edx, 64
    jbe 22f
    movups xmm4, [rsi + 32]
    movups xmm5, [rsi + 48]
    movups xmm6, [rsi + rdx - 64]
    movups xmm7, [rsi + rdx - 48]
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
    movups [rdi + rdx - 64], xmm6
    movups [rdi + rdx - 48], xmm7
22: movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    ret

copy_much:
    mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jb copy_back
    cmp byte ptr [rip + musubi_avx], 0
    jz 30f
    forwards vmovdqu, ymm, 32
    vzeroupper
    jnz copy_little                                 # vzeroupper keeps the flags
    ret
30: forwards movups, xmm, 16
    jnz copy_little
    ret
copy_back:
    cmp byte ptr [rip + musubi_avx], 0
    jz 31f
    backwards vmovdqu, ymm, 32, 0, 1, 2, 3
    vzeroupper
    jmp copy_little
31: backwards movups, xmm, 16, 0, 1, 2, 3, 4, 5, 6, 7
    jmp copy_little
.size musubi_copy, . - musubi_copy

# Stores the same register at the places of the numbers behind rdi.
.macro over move, register, width, numbers:vararg
    .irp n, \numbers
    \move [rdi + \n * \width], \register
    .endr
.endm

.macro fill_step move, register, width, registers, numbers:vararg
    test edx, \registers * \width
    jz 1f
    over \move, \register, \width, \numbers
    add rdi, \registers * \width
1:
.endm

# The last register may lie over what is filled already.
.macro fill_forwards move, register, width
    lea r8, [rdi + rdx]
    mov rcx, rdx
    and rcx, -16 * \width
    jz 3f
    add rcx, rdi
    .balign 16
2:  over \move, \register, \width, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    add rdi, 16 * \width
    cmp rdi, rcx
    jne 2b
3:  and edx, 16 * \width - 1
    jz 4f
    fill_step \move, \register, \width, 8, 0, 1, 2, 3, 4, 5, 6, 7
    fill_step \move, \register, \width, 4, 0, 1, 2, 3
    fill_step \move, \register, \width, 2, 0, 1
    fill_step \move, \register, \width, 1, 0
    \move [r8 - \width], \register
4:
.endm

.balign 64
.globl musubi_fill
.type musubi_fill, @function
musubi_fill:                                        # rdi = where, sil = with what, rdx = how much; returns where
    mov rax, rdi
    movzx esi, sil
    movabs rcx, 0x0101010101010101
    imul rcx, rsi
    cmp rdx, 16
    ja 20f
    cmp edx, 8
    jb 11f
    mov [rdi], rcx
    mov [rdi + rdx - 8], rcx
    ret
11: cmp edx, 4
    jb 12f
    mov [rdi], ecx
    mov [rdi + rdx - 4], ecx
    ret
12: test edx, edx
    jz 13f
    mov r9d, edx
    shr r9d
    mov [rdi], cl
    mov [rdi + r9], cl
    mov [rdi + rdx - 1], cl
13: ret
20: movq xmm0, rcx
    punpcklqdq xmm0, xmm0
    cmp rdx, 128
    ja 30f
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm0
    cmp edx, 32
    jbe 22f
    movups [rdi + 16], xmm0
    movups [rdi + rdx - 32], xmm0
    cmp edx, 64
    jbe 22f
    movups [rdi + 32], xmm0
    movups [rdi + 48], xmm0
    movups [rdi + rdx - 64], xmm0
    movups [rdi + rdx - 48], xmm0
22: ret
30: cmp byte ptr [rip + musubi_avx], 0
    jz 31f
    vinsertf128 ymm0, ymm0, xmm0, 1
    fill_forwards vmovdqu, ymm0, 32
    vzeroupper
    ret
31: fill_forwards movups, xmm0, 16
    ret
.size musubi_fill, . - musubi_fill

.balign 64
.globl musubi_compare
.type musubi_compare, @function
musubi_compare:                                     # rdi, rsi = where, rdx = how much; returns < 0, 0, > 0
    cmp rdx, 16
    jb 20f
    lea r8, [rdx - 16]                              # where the last 16 begin
    xor ecx, ecx
    cmp rdx, 64
    jb 11f
10: movups xmm0, [rdi + rcx]                        # 64 at a turn
    movups xmm1, [rdi + rcx + 16]
    movups xmm2, [rdi + rcx + 32]
    movups xmm3, [rdi + rcx + 48]
    movups xmm4, [rsi + rcx]
    movups xmm5, [rsi + rcx + 16]
    movups xmm6, [rsi + rcx + 32]
    movups xmm7, [rsi + rcx + 48]
    pcmpeqb xmm0, xmm4
    pcmpeqb xmm1, xmm5
    pcmpeqb xmm2, xmm6
    pcmpeqb xmm3, xmm7
    pand xmm0, xmm1
    pand xmm2, xmm3
    pand xmm0, xmm2
    pmovmskb eax, xmm0
    cmp eax, 0xffff
    jne 11f                                         # where exactly: below
    add rcx, 64
    lea r9, [rcx + 48]
    cmp r9, r8
    jbe 10b
11: cmp rcx, r8                                     # 16 at a turn, the last of which may overlap the one before
    jb 12f
    mov rcx, r8
12: movups xmm0, [rdi + rcx]
    movups xmm4, [rsi + rcx]
    pcmpeqb xmm0, xmm4
    pmovmskb eax, xmm0
    xor eax, 0xffff
    jnz 13f
    add rcx, 16
    lea r9, [r8 + 16]
    cmp rcx, r9
    jb 11b
    ret                                             # eax = 0
13: bsf eax, eax
    add rcx, rax
    movzx eax, byte ptr [rdi + rcx]
    movzx ecx, byte ptr [rsi + rcx]
    sub eax, ecx
    ret
20: cmp edx, 8
    jb 21f
    mov rax, [rdi]
    mov rcx, [rsi]
    cmp rax, rcx
    jne 22f
    mov rax, [rdi + rdx - 8]
    mov rcx, [rsi + rdx - 8]
    cmp rax, rcx
    jne 22f
    xor eax, eax
    ret
21: cmp edx, 4
    jb 24f
    mov eax, [rdi]
    mov ecx, [rsi]
    cmp eax, ecx
    jne 22f
    mov eax, [rdi + rdx - 4]
    mov ecx, [rsi + rdx - 4]
    cmp eax, ecx
    jne 22f
    xor eax, eax
    ret
22: bswap rax                                       # the first byte decides
    bswap rcx
    cmp rax, rcx
    sbb eax, eax
    or eax, 1
    ret
24: xor eax, eax
    xor r8d, r8d
25: cmp r8d, edx
    je 26f
    movzx eax, byte ptr [rdi + r8]
    movzx ecx, byte ptr [rsi + r8]
    inc r8d
    sub eax, ecx
    jz 25b
26: ret
.size musubi_compare, . - musubi_compare
