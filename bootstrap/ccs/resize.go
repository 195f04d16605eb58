package ccs

import (
	"encoding/binary"
	"slices"
)

// ResizeHandler is the name of the handler that changes the number of processes of a Charm++ program. A program has it
// if Charm++ was built with --enable-shrinkexpand and the program uses a load balancer that supports the change.
const ResizeHandler = "set_bitmap"

// ResizeRequest returns the request that changes the number of processes of a program from processes to next. Each
// process has one PE. Processes with a number below kept continue, and the other processes end.
func ResizeRequest(processes, kept, next uint32) Request {
	data := make([]byte, processes, processes+5)
	for i := range kept {
		data[i] = 1
	}
	data = binary.NativeEndian.AppendUint32(data, next) // int in the byte order of the client's machine
	return Request{Handler: ResizeHandler, Data: append(data, 0)}
}

// RestartArgs returns the arguments that must be added to argv so that a new process joins a running program. They name
// the directory to which the running processes have written their state: that of +shrinkexpand_basedir, or /dev/shm.
func RestartArgs(argv []string) []string {
	dir := "/dev/shm"
	if i := slices.Index(argv, "+shrinkexpand_basedir"); i >= 0 && i+1 < len(argv) {
		dir = argv[i+1]
	}
	return []string{"+restart", dir}
}
