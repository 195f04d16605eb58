#include "textflag.h"

// The names have no package: debuggers look for them as they are.

GLOBL MPIR_being_debugged(SB), NOPTR, $4
GLOBL MPIR_debug_state(SB), NOPTR, $4
GLOBL MPIR_proctable(SB), NOPTR, $8
GLOBL MPIR_proctable_size(SB), NOPTR, $4
DATA MPIR_i_am_starter(SB)/4, $1
GLOBL MPIR_i_am_starter(SB), NOPTR, $4
DATA MPIR_partial_attach_ok(SB)/4, $1
GLOBL MPIR_partial_attach_ok(SB), NOPTR, $4
DATA MPIR_acquired_pre_main(SB)/4, $1
GLOBL MPIR_acquired_pre_main(SB), NOPTR, $4

// A debugger has its breakpoint here.
TEXT MPIR_Breakpoint(SB), NOSPLIT|NOFRAME, $0-0
	NOP
	RET

// func MPIRBreakpoint()
TEXT ·MPIRBreakpoint(SB), NOSPLIT, $0-0
	CALL MPIR_Breakpoint(SB)
	RET

// func addresses() (being, state, size, table unsafe.Pointer, flags uintptr)
//
// The linker keeps what is named here.
TEXT ·addresses(SB), NOSPLIT, $0-40
	MOVQ $MPIR_being_debugged(SB), AX
	MOVQ AX, being+0(FP)
	MOVQ $MPIR_debug_state(SB), AX
	MOVQ AX, state+8(FP)
	MOVQ $MPIR_proctable_size(SB), AX
	MOVQ AX, size+16(FP)
	MOVQ $MPIR_proctable(SB), AX
	MOVQ AX, table+24(FP)
	MOVQ $MPIR_i_am_starter(SB), AX
	MOVQ $MPIR_partial_attach_ok(SB), BX
	ORQ BX, AX
	MOVQ $MPIR_acquired_pre_main(SB), BX
	ORQ BX, AX
	MOVQ AX, flags+32(FP)
	RET
