package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/internal/safefile"
)

// Request is one line of a caller.
type Request struct {
	Verb   string `json:"verb"`
	Ranks  string `json:"ranks,omitempty"`  // "0-3,7"; empty: all
	Signal int    `json:"signal,omitempty"` // of the verb signal
	Rows   uint32 `json:"rows,omitempty"`   // most rows of the answer

	// Of the verb exec.
	Command []string `json:"command,omitempty"`
	PerRank bool     `json:"per_rank,omitempty"`
	Hosts   string   `json:"hosts,omitempty"` // "node[0001-0064],n7"; empty: all; of the verb grow, too

	// Of the verbs gdb and input: the size of the caller's terminal; none: gdb reads a pipe.
	Window *Window `json:"window,omitempty"`

	Nodes uint32 `json:"nodes,omitempty"` // of the verb shrink: how many leave

	// Of the verb ccs.
	Handler string `json:"handler,omitempty"`
	PE      *int32 `json:"pe,omitempty"` // none: the program's first one, as of a request to all
	Data    []byte `json:"data,omitempty"`

	ToolRequest
}

// Window is the size of a terminal.
type Window struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Response is one line of the job. Of its fields one is set, but Done.
type Response struct {
	Error    string    `json:"error,omitempty"`
	Job      *Job      `json:"job,omitempty"`
	Standing *Standing `json:"standing,omitempty"`
	Output   *Output   `json:"output,omitempty"`
	Ends     *Ends     `json:"ends,omitempty"`
	Reply    *Reply    `json:"reply,omitempty"`
	Size     *Size     `json:"size,omitempty"`
	ToolResponse
	Done bool `json:"done,omitempty"` // it is the last to this request
}

// Reply is what a program of Charm++ replies.
type Reply struct {
	Data []byte `json:"data,omitempty"`
}

// Job is what the root knows of its job.
type Job struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"` // of the root
	Host    string    `json:"host"`
	Program string    `json:"program"`
	Ranks   uint32    `json:"ranks"`
	Nodes   uint32    `json:"nodes"`
	Since   time.Time `json:"since"`
	State   string    `json:"state"` // launching, running, ending
}

// Size is what a job has, or gets: it waits for its program then.
type Size struct {
	Nodes uint32 `json:"nodes"`
	Ranks uint32 `json:"ranks"`
	Waits bool   `json:"waits,omitempty"`
}

// Ends is how daemons have ended.
type Ends struct {
	Daemons uint32   `json:"daemons"`        // that were to run
	Code    int      `json:"code"`           // the largest exit code
	Over    uint32   `json:"over,omitempty"` // nodes whose ranks had ended before
	Lost    uint32   `json:"lost,omitempty"` // nodes of which nothing is known
	Failed  []Failed `json:"failed,omitempty"`
	More    uint32   `json:"more,omitempty"`    // that failed, too
	Dropped uint64   `json:"dropped,omitempty"` // bytes of output that the caller was too slow for
}

// Failed is a daemon that did not end with 0.
type Failed struct {
	Number uint32  `json:"number"`         // of its node, or of its rank
	Rank   *uint32 `json:"rank,omitempty"` // that it is beside, if there is one for each
	Host   string  `json:"host"`
	Code   int     `json:"code"`
	Cause  string  `json:"cause"`
}

// Output is what a rank, or a daemon, has written.
type Output struct {
	Rank   uint32 `json:"rank"`   // of a daemon: its node, or the rank that it is beside
	Stream uint8  `json:"stream"` // 1 or 2
	Data   []byte `json:"data,omitempty"`
	Lost   uint64 `json:"lost,omitempty"` // bytes before it that the caller was too slow for
}

const (
	mostRequest = 64 << 10         // bytes of a line
	mostCallers = 16               // at a time
	idleMost    = 10 * time.Minute // that a caller may say nothing
	writeMost   = 30 * time.Second // that a caller may take nothing; of exec: for ever
	overMost    = 2 * time.Second  // the same when the job is over
)

// Serve answers callers, one goroutine each, until the listener is closed, and returns then. Answer
// gets a request and where to put the responses; it returns when the last one is put. Put fails
// when the caller is gone; gone is closed then, too.
func Serve(l *Listener, answer func(r Request, put func(Response) error, gone <-chan struct{})) {
	room := make(chan struct{}, mostCallers)
	open := callers{}
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			open.hurry()
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no descriptors, say
			continue
		}
		select {
		case room <- struct{}{}:
			go func() {
				defer func() { <-room }()
				defer c.Close()
				open.add(c)
				defer open.remove(c)
				serve(c, answer)
			}()
		default:
			text := fmt.Sprintf("%d others ask this job already: try again", mostCallers)
			_ = write(c, Response{Error: text, Done: true})
			c.Close()
		}
	}
}

func write(c net.Conn, r Response) error {
	_ = c.SetWriteDeadline(time.Now().Add(writeMost))
	return writePatiently(c, r)
}

func writePatiently(c net.Conn, r Response) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = c.Write(append(line, '\n'))
	return err
}

// callers are the connections that are open.
type callers struct {
	mu   sync.Mutex
	all  map[net.Conn]bool
	over bool
}

func (o *callers) add(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[net.Conn]bool{}
	}
	o.all[c] = true
	if o.over {
		_ = c.SetWriteDeadline(time.Now().Add(overMost))
	}
}

func (o *callers) remove(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, c)
}

// hurry bounds how long callers may take nothing of the last answers.
func (o *callers) hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for c := range o.all {
		_ = c.SetWriteDeadline(time.Now().Add(overMost))
	}
}

// putterOf gives responses to a caller. One whose daemons run may take as long as it
// likes: they wait.
func putterOf(c net.Conn, verb string) func(Response) error {
	switch verb {
	case "exec", "session", "pipe", "gdb":
		_ = c.SetWriteDeadline(time.Time{})
		return func(r Response) error { return writePatiently(c, r) }
	}
	return func(r Response) error { return write(c, r) }
}

// serve reads the requests of one caller. A reader of its own sees that the caller has gone.
func serve(c *net.UnixConn, answer func(Request, func(Response) error, <-chan struct{})) {
	put := func(r Response) error { return write(c, r) }
	uid, err := safefile.Peer(c)
	if err != nil || uid != os.Geteuid() && uid != 0 {
		_ = put(Response{Error: "this job is another user's", Done: true})
		return
	}
	lines, gone := make(chan []byte), make(chan struct{})
	over := make(chan struct{})
	defer close(over)
	refused := ""
	_ = c.SetReadDeadline(time.Now().Add(idleMost))
	go func() {
		defer close(gone)
		in := bufio.NewReaderSize(c, mostRequest)
		for {
			line, err := in.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				refused = fmt.Sprintf("a request has at most %d bytes", mostRequest)
			} else if errors.Is(err, io.EOF) && len(line) > 0 {
				refused = "a request ends with a newline"
			}
			if err != nil {
				return
			}
			select {
			case lines <- bytes.Clone(line):
			case <-over:
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines:
			var r Request
			in := json.NewDecoder(bytes.NewReader(line))
			in.DisallowUnknownFields()
			if err := in.Decode(&r); err != nil {
				if put(Response{Error: fmt.Sprintf("not a request: %v", err), Done: true}) != nil {
					return
				}
				continue
			}
			_ = c.SetReadDeadline(time.Time{}) // it waits for us
			answer(r, putterOf(c, r.Verb), gone)
			if r.Verb != "input" { // whoever types may think
				_ = c.SetReadDeadline(time.Now().Add(idleMost))
			}
		case <-gone:
			if refused != "" {
				_ = put(Response{Error: refused, Done: true})
			}
			return
		}
	}
}
