package charm

import "ibrun/bootstrap/ccs"

// Frames of programs that change their number of processes. A program can do so if Charm++ was built with
// --enable-shrinkexpand, and does so when a client sends process 0 a ccs.ResizeRequest. The processes that continue
// execute their program file again, and each sends a new InitNode.
const (
	Realloc    = "realloc"     // from process 0, when all processes wait to continue: the new number of processes
	ReallocAck = "realloc_ack" // to all processes: continue, or end
)

// unhandled is the message that a program prints if it has no ccs.ResizeHandler (conv-ccs.C of Charm++). Such a program
// sends no reply.
const unhandled = "Unknown CCS handler name '" + ccs.ResizeHandler + "'"
