#include "textflag.h"

#define SYS_prlimit64 302

// func prlimit(resource uintptr, l *Limit)
TEXT ·prlimit(SB), NOSPLIT, $0-16
	XORL DI, DI
	MOVQ resource+0(FP), SI
	XORL DX, DX
	MOVQ l+8(FP), R10
	MOVL $SYS_prlimit64, AX
	SYSCALL
	RET
