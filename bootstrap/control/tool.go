package control

import "net"

// What libibruntool asks, and is answered (docs/dev/decisions/0035-tools.md).

// ToolRequest is a part of Request.
type ToolRequest struct {
	// Of the verb session, with Command: members are started and know each other. The answer goes
	// on until all have ended; a caller that goes ends them, but after keep.
	On  []Members `json:"on,omitempty"`  // empty: one on each node that has ranks
	Env []string  `json:"env,omitempty"` // NAME=value

	Session uint32 `json:"session,omitempty"` // of the verbs send, keep and input
	Data    []byte `json:"data,omitempty"`    // of send: a piece of a message for member 0; of input
	Last    bool   `json:"last,omitempty"`    // of its message, or of the input
}

// Members is a host, and how many members of a session it has.
type Members struct {
	Host  string `json:"host"`
	Count uint32 `json:"count"`
}

// ToolResponse is a part of Response.
type ToolResponse struct {
	Session   *Session  `json:"session,omitempty"`
	Message   *Message  `json:"message,omitempty"`
	Processes []Process `json:"processes,omitempty"`
}

// Session is one that has begun.
type Session struct {
	ID uint32    `json:"id"`
	On []Members `json:"on"` // in the order of the members' numbers
}

// Message is a piece of what member 0 sends.
type Message struct {
	Data []byte `json:"data"`
	Last bool   `json:"last"`
}

// Process is that of a rank.
type Process struct {
	Rank    uint32 `json:"rank"`
	Local   uint32 `json:"local"` // its number on its node
	PID     uint32 `json:"pid"`
	Host    string `json:"host"`
	Program string `json:"program"`
}

// ServeOne answers one caller, until it is gone.
func ServeOne(c *net.UnixConn, answer func(r Request, put func(Response) error, gone <-chan struct{})) {
	defer c.Close()
	serve(c, answer)
}
