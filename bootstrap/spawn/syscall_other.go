//go:build !amd64

package spawn

import "strconv"

// syscallName is the number of a system call, which differs between machines.
func syscallName(number int) string { return "syscall " + strconv.Itoa(number) }
