package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"ibrun/internal/owned"
	"ibrun/internal/standing"
)

// Request is one line of a caller.
type Request struct {
	Verb   string `json:"verb"`
	Ranks  string `json:"ranks,omitempty"`  // "0-3,7"; empty: all
	Signal int    `json:"signal,omitempty"` // of the verb signal
	Rows   uint32 `json:"rows,omitempty"`   // most rows of the answer
}

// Response is one line of the job. Of its fields one is set, but Done.
type Response struct {
	Error    string             `json:"error,omitempty"`
	Job      *Job               `json:"job,omitempty"`
	Standing *standing.Standing `json:"standing,omitempty"`
	Output   *Output            `json:"output,omitempty"`
	Done     bool               `json:"done,omitempty"` // it is the last to this request
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

// Output is what a rank has written.
type Output struct {
	Rank   uint32 `json:"rank"`
	Stream uint8  `json:"stream"` // 1 or 2
	Data   []byte `json:"data,omitempty"`
	Lost   uint64 `json:"lost,omitempty"` // bytes before it that the caller was too slow for
}

const (
	mostRequest = 64 << 10         // bytes of a line
	mostCallers = 16               // at a time
	idleMost    = 10 * time.Minute // that a caller may say nothing
	writeMost   = 30 * time.Second // that a caller may take nothing
)

// Serve answers callers, one goroutine each, until the listener is closed, and returns then. Answer
// gets a request and where to put the responses; it returns when the last one is put. Put fails
// when the caller is gone; gone is closed then, too.
func Serve(l *net.UnixListener, answer func(r Request, put func(Response) error, gone <-chan struct{})) {
	room := make(chan struct{}, mostCallers)
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
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
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeMost))
	_, err = c.Write(append(line, '\n'))
	return err
}

// serve reads the requests of one caller. A reader of its own sees that the caller has gone.
func serve(c *net.UnixConn, answer func(Request, func(Response) error, <-chan struct{})) {
	put := func(r Response) error { return write(c, r) }
	uid, err := owned.Peer(c)
	if err != nil || !mayAsk(uid) {
		_ = put(Response{Error: "this job is another user's", Done: true})
		return
	}
	lines, gone := make(chan []byte), make(chan struct{})
	over := make(chan struct{})
	defer close(over)
	refused := ""
	go func() {
		defer close(gone)
		in := bufio.NewReaderSize(c, mostRequest)
		for {
			_ = c.SetReadDeadline(time.Now().Add(idleMost))
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
			answer(r, put, gone)
		case <-gone:
			if refused != "" {
				_ = put(Response{Error: refused, Done: true})
			}
			return
		}
	}
}
