#include "go_asm.h"
#include "textflag.h"

// The reaper before Go. A binary linked with -E ibrun/bootstrap/reaper.entry begins
// here, on the stack that execve(2) has made (System V ABI for x86-64, 3.4.1):
//
//	0(SP) argc   8(SP) argv[0]   16(SP) argv[1] ...   NULL   environment ...   NULL
//
// Any program but a reaper and an agent goes on to Go at once, with nothing changed but
// the timer slack. A reaper forks here: its child goes on to Go as the agent, and it itself
// never starts Go's runtime, unless there is something to clean up. reaper.go does the same
// in Go, and says why; it also takes over when a call here fails, and reports it.
//
// Registers that the kernel leaves alone (it takes RCX and R11): R12 is the
// agent's pid; R13 the seconds that it has (0: as long as it likes), then its exit
// code; R14 and R15 the pipe's ends for reading and writing, and when the first has
// been closed R14 is a signalfd. Below SP lie, as nothing here is called: -8 status,
// -16 the pipe's descriptors, -24 signals, -40 what is polled, -176 what a signalfd
// tells, and later, at -64, the words of an exec.

#define SYS_read 0
#define SYS_close 3
#define SYS_poll 7
#define SYS_rt_sigprocmask 14
#define SYS_dup2 33
#define SYS_clone 56
#define SYS_execve 59
#define SYS_exit 60
#define SYS_wait4 61
#define SYS_kill 62
#define SYS_setsid 112
#define SYS_prctl 157
#define SYS_signalfd4 289
#define SYS_pipe2 293

#define CALL0(number) MOVL $number, AX; SYSCALL
#define CALL1(number, a) MOVQ a, DI; CALL0(number)
#define CALL2(number, a, b) MOVQ b, SI; CALL1(number, a)

// Blocks signals, a bit each, by SIG_BLOCK (0) and a set of 8 bytes.
#define BLOCK(signals) MOVQ $signals, AX; MOVQ AX, -24(SP); XORL DX, DX; LEAQ -24(SP), SI; MOVL $8, R10; \
	CALL1(SYS_rt_sigprocmask, $0)

#define PR_SET_TIMERSLACK 29
#define SLACK 1000000 // ns
#define PR_SET_CHILD_SUBREAPER 36
#define O_CLOEXEC 0x80000
#define SIGCHLD 17
#define PASSED 0x424a00 // a bit each for SIGUSR1 (10), SIGUSR2 (12), SIGTERM (15), SIGCONT (18) and SIGURG (23)
#define TAKEN 0x10000435a03 // those, and SIGHUP (1), SIGINT (2), SIGPIPE (13), SIGCHLD (17) and 41
#define RELINKED 41 // relinkSignal of reaper.go
#define WNOHANG 1
#define CHANGES 11 // WNOHANG, WUNTRACED and WCONTINUED
#define STOPPED 0x7f // the low byte of the status of a child that was stopped
#define CONTINUED 0xffff
#define ECHILD 10
#define KILLED 137 // 128 and SIGKILL
#define WATCHED_LINK 0x200000000000 // struct pollfd: descriptor 0, POLLRDHUP
#define WATCHED_NOTHING 0xffffffff // descriptor -1: the link has ended
#define WATCHED_ELSEWHERE 0xfffffffe // descriptor -2: the agent has another link
#define POLLIN 0x100000000 // as an addend to a descriptor
#define SECOND 1000 // ms

// The words, as they lie in memory: a NUL ends each, REAPER_0 from byte 0, REAPER_4 from byte 4.
#define REAPER_0 0x6165723a // ":rea"
#define REAPER_4 0x00726570 // "per" and the end
#define AGENT_0 0x6567613a // ":age"
#define AGENT_4 0x0000746e // "nt" and the end

TEXT ·entry(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	// Go's monitor thread sleeps for 20 us at a time while anything runs. Its threads inherit this
	// slack, by which such sleeps become long. internal/proc gives programs the kernel's default.
	CALL2(SYS_prctl, $PR_SET_TIMERSLACK, $SLACK)
	CMPQ 0(SP), $2
	JLT  program
	MOVQ 16(SP), BX
	CMPL (BX), $REAPER_0
	JNE  program
	CMPL 4(BX), $REAPER_4
	JNE  program

	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	CALL2(SYS_prctl, $PR_SET_CHILD_SUBREAPER, $1)
	TESTQ AX, AX
	JNE  program
	LEAQ -16(SP), DI
	MOVL $O_CLOEXEC, SI
	CALL0(SYS_pipe2)
	TESTQ AX, AX
	JNE  program
	MOVLQSX -16(SP), R14
	MOVLQSX -12(SP), R15
	XORL DX, DX // a fork: own memory, and no thread identifiers
	XORL R10, R10
	XORL R8, R8
	CALL2(SYS_clone, $SIGCHLD, $0)
	TESTQ AX, AX
	JLT  failed
	JEQ  agent
	MOVQ AX, R12

	BLOCK(TAKEN)
	// Of the link only standard input is kept, to see its end. Go would open
	// /dev/null on descriptors that it finds closed.
	CALL1(SYS_close, R14)
	CALL1(SYS_close, $1)
	CALL1(SYS_close, $2)

	XORL R13, R13
	MOVQ $WATCHED_LINK, AX
	MOVQ AX, -40(SP)
	MOVL $8, DX
	MOVL $O_CLOEXEC, R10
	LEAQ -24(SP), SI
	CALL1(SYS_signalfd4, $-1)
	MOVQ AX, R14
	TESTQ AX, AX
	JLT  deaf
	MOVQ $POLLIN, CX
	ADDQ CX, AX
	MOVQ AX, -32(SP)

	// Any change is seen here, whichever signals it came with.
look:
	MOVL $CHANGES, DX
	XORL R10, R10
	LEAQ -8(SP), SI
	CALL1(SYS_wait4, $-1)
	CMPQ AX, R12
	JEQ  changed
	TESTQ AX, AX
	JGT  look // an orphan

	MOVQ $-1, DX
	TESTL R13, R13
	JEQ  poll
	MOVL $SECOND, DX
poll:
	LEAQ -40(SP), DI
	MOVL $2, SI
	CALL0(SYS_poll)
	TESTQ AX, AX
	JLT  look
	JEQ  second
	CMPW -26(SP), $0 // of the signalfd
	JEQ  link
	MOVL $128, DX // one signal: none may be pending when Go begins, which would die of it
	LEAQ -176(SP), SI
	CALL1(SYS_read, R14)
	MOVLQZX -176(SP), CX
	CMPL CX, $RELINKED
	JEQ  relinked
	LEAL -1(CX), AX
	MOVQ $PASSED, DX
	BTQ  AX, DX
	JCC  link
	LEAQ const_passedBy(CX), SI
	CALL1(SYS_kill, R12)
	JMP  link
relinked:
	XORL R13, R13
	MOVL $WATCHED_ELSEWHERE, AX
	MOVQ AX, -40(SP)
	CALL1(SYS_close, $0)
	JMP  look
link:
	CMPW -34(SP), $0 // of the link
	JEQ  look
	MOVL $WATCHED_NOTHING, AX
	MOVQ AX, -40(SP)
	CALL1(SYS_close, $0)
	SUBL $1, R13 // what has no end is the longest
	CMPL R13, $const_secondsWithoutLink
	JCS  less
	MOVL $const_secondsWithoutLink, R13
	JMP  look
less:
	ADDL $1, R13
	JMP  look

second:
	SUBL $1, R13
	JNE  look
	MOVL $KILLED, R13
	JMP  sweep

changed:
	MOVL -8(SP), AX
	CMPL AX, $CONTINUED
	JEQ  continued
	CMPB AX, $STOPPED
	JNE  ended
	TESTL R13, R13
	JNE  look
	MOVL $const_secondsStopped, R13
	JMP  look
continued:
	CMPL -40(SP), $-1 // the link has ended, too
	JEQ  look
	XORL R13, R13
	JMP  look

	// Without a signalfd there is the agent's end to wait for, and no more.
deaf:
	CALL1(SYS_close, $0)
wait:
	XORL DX, DX
	XORL R10, R10
	LEAQ -8(SP), SI
	CALL1(SYS_wait4, $-1)
	CMPQ AX, R12
	JNE  wait // an orphan, or a signal came between

ended:
	CALL1(SYS_close, $0) // who is at the other end need not wait for what follows
	MOVL -8(SP), R13
	MOVL R13, AX
	ANDL $0x7f, AX
	JNE  killed
	SHRL $8, R13
	ANDL $0xff, R13
	JMP  orphans
killed:
	LEAL 128(AX), R13

orphans:
	MOVL $WNOHANG, DX
	XORL R10, R10
	XORL SI, SI
	CALL1(SYS_wait4, $-1)
	CMPQ AX, $0
	JGT  orphans
	JEQ  sweep
	CMPQ AX, $-ECHILD
	JNE  orphans
	CMPL R13, $128 // an agent that was killed may have left files
	JGE  sweep
	CALL1(SYS_exit, R13)

	// Something lives on, or may be left: exec ibrun :sweep CODE, whose children they stay. The
	// code takes three digits, at the status' place.
sweep:
	MOVL R13, AX
	MOVL $10, CX
	MOVL $0, -8(SP)
	XORL DX, DX
	DIVL CX
	ADDB $'0', DX
	MOVB DX, -6(SP)
	XORL DX, DX
	DIVL CX
	ADDB $'0', DX
	MOVB DX, -7(SP)
	ADDB $'0', AX
	MOVB AX, -8(SP)
	MOVQ 8(SP), AX
	MOVQ AX, -64(SP)
	LEAQ ·sweepWord(SB), AX
	MOVQ AX, -56(SP)
	LEAQ -8(SP), AX
	MOVQ AX, -48(SP)
	MOVQ $0, -40(SP)
	MOVQ 0(SP), AX
	LEAQ 16(SP)(AX*8), DX // the environment
	LEAQ -64(SP), SI
	LEAQ ·selfPath(SB), DI
	CALL0(SYS_execve)
	CALL1(SYS_exit, R13)

agent:
	// Block these signals, so that one that arrives before Go can receive it stays pending (internal/proc/signal.go).
	BLOCK(const_held)
	CALL0(SYS_setsid)
	CALL1(SYS_close, R15)
	CMPQ R14, $3
	JEQ  named
	CALL2(SYS_dup2, R14, $3)
named:
	MOVL $AGENT_0, (BX)
	MOVL $AGENT_4, 4(BX) // and two zero bytes: the old word is one letter longer
	// The environment gets a first word, oneThread of reaper.go: what lies before it
	// moves down, and the word takes the place of the NULL.
	MOVQ 0(SP), CX
	ADDQ $2, CX
	LEAQ 0(SP), SI
	SUBQ $8, SP
	MOVQ SP, DI
	CLD
	REP; MOVSQ
	LEAQ ·oneThreadWord(SB), AX
	MOVQ AX, (DI)
	JMP  program

failed:
	CALL1(SYS_close, R14)
	CALL1(SYS_close, R15)

program:
	JMP _rt0_amd64_linux(SB)

DATA ·oneThreadWord+0(SB)/8, $"GOMAXPRO"
DATA ·oneThreadWord+8(SB)/8, $"CS=1\x00\x00\x00\x00"
GLOBL ·oneThreadWord(SB), RODATA, $16
DATA ·sweepWord+0(SB)/8, $":sweep\x00\x00"
GLOBL ·sweepWord(SB), RODATA, $8
DATA ·selfPath+0(SB)/8, $"/proc/se"
DATA ·selfPath+8(SB)/8, $"lf/exe\x00\x00"
GLOBL ·selfPath(SB), RODATA, $16
