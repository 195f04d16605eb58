#include "textflag.h"

#define SYS_prlimit64 261

// func prlimit(resource uintptr, l *Limit)
TEXT ·prlimit(SB), NOSPLIT, $0-16
	MOVD ZR, R0
	MOVD resource+0(FP), R1
	MOVD ZR, R2
	MOVD l+8(FP), R3
	MOVD $SYS_prlimit64, R8
	SVC
	RET
