// Command yield takes turns with another rank of its node on one CPU. While it is not its turn it calls
// sched_yield. It fails if that does not let the other rank run.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// In the same scheduling group each turn takes one call. In different ones it takes ten to hundreds,
// until the kernel takes the CPU away.
const (
	turns     = 1000
	mostCalls = 4 * turns
)

func main() {
	if err := run(os.Args[1], os.Getenv("IBRUN_RANK") == "1"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string, second bool) error {
	runtime.LockOSThread()
	if err := bind(); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Truncate(4); err != nil {
		return err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	turn := (*uint32)(unsafe.Pointer(&memory[0]))
	calls := 0
	for mine := uint32(0); mine < turns; mine++ {
		if mine == 1 {
			calls = 0 // the other rank had to start first
		}
		for atomic.LoadUint32(turn)/2 != mine || atomic.LoadUint32(turn)%2 == 1 != second {
			unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			calls++
		}
		atomic.AddUint32(turn, 1)
	}
	if calls > mostCalls {
		return fmt.Errorf("%d calls of sched_yield for %d turns: the other rank did not run", calls, turns)
	}
	return nil
}

// bind binds this thread to the first CPU that it may use.
func bind() error {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	cpu := 0
	for !may.IsSet(cpu) {
		cpu++
	}
	may.Zero()
	may.Set(cpu)
	return unix.SchedSetaffinity(0, &may)
}
