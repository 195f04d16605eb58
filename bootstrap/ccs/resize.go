package ccs

import (
	"encoding/binary"
	"slices"
)

// ResizeHandler is the handler of programs built with --enable-shrinkexpand that changes the number of
// processes. Only some load balancers have it.
const ResizeHandler = "set_bitmap"

// ResizeRequest returns the request that changes a program of processes with one PE each: the first kept
// of them continue, as part of next processes.
func ResizeRequest(processes, kept, next uint32) Request {
	data := make([]byte, processes, processes+5)
	for i := range kept {
		data[i] = 1
	}
	data = binary.NativeEndian.AppendUint32(data, next) // as the client's machine has an int
	return Request{Handler: ResizeHandler, Data: append(data, 0)}
}

// RestartArgs returns the arguments that a process needs besides argv to join a running program: they name
// the directory in which the other processes have left their state.
func RestartArgs(argv []string) []string {
	dir := "/dev/shm"
	if i := slices.Index(argv, "+shrinkexpand_basedir"); i >= 0 && i+1 < len(argv) {
		dir = argv[i+1]
	}
	return []string{"+restart", dir}
}
