#include "textflag.h"

#define SYS_clone 56

// func clone(flags uintptr, stack unsafe.Pointer, run uintptr, b *birth) (pid uintptr)
//
// The child goes on with run(b) on a stack of its own, which ends at stack. It has this
// thread's g, which is no business of its. run is called as Go calls it, argument in AX
// (ABIInternal): a call by the assembler's rules goes through code that the race
// detector adds something to.
TEXT ·clone(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ run+16(FP), R13 // the kernel leaves R12 and R13 alone
	MOVQ b+24(FP), R12
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $SYS_clone, AX
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, pid+32(FP)
	RET
child:
	XORL BP, BP // no frame is above
	XORPS X15, X15
	SUBQ $16, SP // where run may put its argument
	MOVQ R12, AX
	CALL R13
	INT  $3 // it does not return

#define SYS_clone3 435

// func clone3(args *cloneArgs, size, run uintptr, b *birth) (pid uintptr)
//
// As clone. The kernel computes the end of the stack from args.
TEXT ·clone3(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ args+0(FP), DI
	MOVQ size+8(FP), SI
	MOVQ run+16(FP), R13
	MOVQ b+24(FP), R12
	MOVL $SYS_clone3, AX
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, pid+32(FP)
	RET
child:
	XORL BP, BP
	XORPS X15, X15
	SUBQ $16, SP
	MOVQ R12, AX
	CALL R13
	INT  $3
