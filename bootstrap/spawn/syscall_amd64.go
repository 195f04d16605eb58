package spawn

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// syscallName names the system calls in which programs wait. One that goes on after a stop, as a
// debugger makes one, has lost its name.
func syscallName(number int) string {
	switch number {
	case unix.SYS_READ:
		return "read"
	case unix.SYS_WRITE:
		return "write"
	case unix.SYS_POLL:
		return "poll"
	case unix.SYS_PPOLL:
		return "ppoll"
	case unix.SYS_SELECT:
		return "select"
	case unix.SYS_PSELECT6:
		return "pselect6"
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT:
		return "epoll_wait"
	case unix.SYS_FUTEX:
		return "futex"
	case unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP:
		return "nanosleep"
	case unix.SYS_WAIT4, unix.SYS_WAITID:
		return "wait4"
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG:
		return "recvmsg"
	case unix.SYS_SENDTO, unix.SYS_SENDMSG:
		return "sendmsg"
	case unix.SYS_ACCEPT, unix.SYS_ACCEPT4:
		return "accept"
	case unix.SYS_CONNECT:
		return "connect"
	case unix.SYS_PAUSE:
		return "pause"
	case unix.SYS_RT_SIGSUSPEND:
		return "sigsuspend"
	case unix.SYS_OPENAT, unix.SYS_OPEN:
		return "open"
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return "fsync"
	case unix.SYS_FLOCK, unix.SYS_FCNTL:
		return "lock"
	case unix.SYS_IOCTL:
		return "ioctl"
	case unix.SYS_RESTART_SYSCALL:
		return "restart_syscall"
	case unix.SYS_SCHED_YIELD:
		return "sched_yield"
	}
	return "syscall " + strconv.Itoa(number)
}
