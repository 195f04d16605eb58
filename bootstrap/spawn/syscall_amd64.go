package spawn

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// waitingCalls holds the names of the system calls in which programs wait, by number. A call that continues after a
// stop, as by a debugger, appears as restart_syscall.
var waitingCalls = [...]string{
	unix.SYS_READ:            "read",
	unix.SYS_WRITE:           "write",
	unix.SYS_POLL:            "poll",
	unix.SYS_PPOLL:           "ppoll",
	unix.SYS_SELECT:          "select",
	unix.SYS_PSELECT6:        "pselect6",
	unix.SYS_EPOLL_WAIT:      "epoll_wait",
	unix.SYS_EPOLL_PWAIT:     "epoll_wait",
	unix.SYS_FUTEX:           "futex",
	unix.SYS_NANOSLEEP:       "nanosleep",
	unix.SYS_CLOCK_NANOSLEEP: "nanosleep",
	unix.SYS_WAIT4:           "wait4",
	unix.SYS_WAITID:          "wait4",
	unix.SYS_RECVFROM:        "recvmsg",
	unix.SYS_RECVMSG:         "recvmsg",
	unix.SYS_SENDTO:          "sendmsg",
	unix.SYS_SENDMSG:         "sendmsg",
	unix.SYS_ACCEPT:          "accept",
	unix.SYS_ACCEPT4:         "accept",
	unix.SYS_CONNECT:         "connect",
	unix.SYS_PAUSE:           "pause",
	unix.SYS_RT_SIGSUSPEND:   "sigsuspend",
	unix.SYS_OPEN:            "open",
	unix.SYS_OPENAT:          "open",
	unix.SYS_FSYNC:           "fsync",
	unix.SYS_FDATASYNC:       "fsync",
	unix.SYS_FLOCK:           "lock",
	unix.SYS_FCNTL:           "lock",
	unix.SYS_IOCTL:           "ioctl",
	unix.SYS_RESTART_SYSCALL: "restart_syscall",
	unix.SYS_SCHED_YIELD:     "sched_yield",
}

// syscallName returns the name of the system call with the given number, which must not be negative. If waitingCalls
// has no name for it, syscallName returns "syscall" and the number.
func syscallName(number int) string {
	if number < len(waitingCalls) && waitingCalls[number] != "" {
		return waitingCalls[number]
	}
	return "syscall " + strconv.Itoa(number)
}
