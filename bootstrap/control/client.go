package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// Dial calls a job.
func Dial(jobID string) (*Client, error) {
	dir := Folder()
	if err := check(dir); err != nil {
		return nil, err
	}
	if strings.ContainsRune(jobID, '/') {
		return nil, fmt.Errorf("%q is no job", jobID)
	}
	c, err := net.DialTimeout("unix", filepath.Join(dir, jobID+suffix), dialPatience)
	if err != nil {
		return nil, err
	}
	in := bufio.NewScanner(c)
	in.Buffer(nil, mostResponse)
	return &Client{c, in}, nil
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
