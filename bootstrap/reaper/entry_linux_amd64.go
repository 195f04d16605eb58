package reaper

import "syscall"

// entry is where a binary begins that is linked with -E ibrun/bootstrap/reaper.entry.
//
//lint:ignore U1000 only the linker names it
func entry()

// held are USR1 and USR2, and what is passed on, a bit each from signal 1 on. The agent of a reaper
// that began before Go finds them blocked (internal/proc/signal.go).
//
//lint:ignore U1000 only the assembly names it
const held = 1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGUSR2-1) | (1<<(syscall.SIGUSR1-1)|1<<(syscall.SIGUSR2-1)|
	1<<(syscall.SIGTERM-1)|1<<(syscall.SIGCONT-1)|1<<(syscall.SIGURG-1))<<passedBy
