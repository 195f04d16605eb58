// Command firstthread ends its first thread, and stays with those that the runtime of Go has started.
package main

import (
	"runtime"
	"syscall"
)

func init() { runtime.LockOSThread() } // main runs on the first thread

func main() { _, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0) }
