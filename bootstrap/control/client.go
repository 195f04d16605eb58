package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Client is the caller's end.
type Client struct {
	conn net.Conn
	in   *bufio.Scanner
}

// mostResponse bounds a line of a job, in bytes.
const mostResponse = 64 << 20

// Dial connects to the control socket of a job of this user on this machine.
func Dial(jobID string) (*Client, error) { return usualPlaces().dial(jobID) }

func (p places) dial(jobID string) (*Client, error) {
	if strings.ContainsRune(jobID, '/') {
		return nil, fmt.Errorf("%q is not the ID of a job", jobID)
	}
	err := errors.New("no such job of yours runs on this machine")
	for _, dir := range p.folders() {
		path := filepath.Join(dir, jobID+suffix)
		if _, e := os.Lstat(path); e != nil || check(dir) != nil {
			continue
		}
		var c net.Conn
		if c, err = net.DialTimeout("unix", path, dialPatience); err == nil {
			in := bufio.NewScanner(c)
			in.Buffer(nil, mostResponse)
			return &Client{c, in}, nil
		}
	}
	return nil, err
}

// Close ends the call.
func (c *Client) Close() { c.conn.Close() }

// Ask sends a request and gives each response to take, up to the last one or until take fails. An
// error of the job is an error.
func (c *Client) Ask(r Request, take func(Response) error) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err = c.conn.Write(append(line, '\n')); err != nil {
		return over(err)
	}
	for c.in.Scan() {
		var got Response
		if err := json.Unmarshal(c.in.Bytes(), &got); err != nil {
			return fmt.Errorf("the job said what it should not: %w", err)
		}
		if got.Error != "" {
			return errors.New(got.Error)
		}
		if err := take(got); err != nil || got.Done {
			return err
		}
	}
	return over(c.in.Err())
}

// over is the error of a connection that has ended; nil: by its end.
func over(err error) error {
	if err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return ErrOver
	}
	return err
}

// ErrOver says that the job has ended before it answered.
var ErrOver = errors.New("the job is over")
