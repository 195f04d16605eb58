package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// acknowledged ends the wait of a program that is built to change its size. Tests that want such a
// program write the underscore into a copy of the binary, by which it is recognized.
var acknowledged = "realloc+ack"

func canResize() bool { return acknowledged[len("realloc")] == '_' }

// restart is what the library has added to the command line of a process that is not from the
// beginning.
type restart struct {
	is     bool
	number int    // of the process, if it stays
	stays  bool   // it was one before
	dir    string // where the others have left what there was
}

// takeRestart takes from argv what programs built with --enable-shrinkexpand find there.
func takeRestart(argv []string) (r restart, rest []string) {
	r.dir = "/dev/shm"
	for i := 0; i < len(argv); i++ {
		value := func() string {
			i++
			if i == len(argv) {
				fail("%s without a value", argv[i-1])
			}
			return argv[i]
		}
		switch argv[i] {
		case "+shrinkexpand":
			r.stays = true
		case "+newnumpes", "+myoldpe":
			value()
		case "+mynewpe":
			n, err := strconv.Atoi(value())
			check(err)
			r.number = n
		case "+restart":
			r.is, r.dir = true, value()
		case "+shrinkexpand_basedir":
			r.dir = value()
		default:
			rest = append(rest, argv[i])
		}
	}
	return r, rest
}

// left is where process 0 writes how many steps are done.
func (r restart) left() string { return filepath.Join(r.dir, "netlrts.done") }

// after are the steps that a process has to do.
func (r restart) after(steps []string) []string {
	if !r.is {
		return steps
	}
	text, err := os.ReadFile(r.left())
	check(err)
	n, err := strconv.Atoi(string(text))
	check(err)
	return steps[n:]
}

// ignoreResize does as a library whose load balancer has no handler for another number of
// processes.
func (c *client) ignoreResize() {
	handler, _, _ := strings.Cut(string(c.expect("req_fw")[14:46]), "\x00")
	c.print("print", fmt.Sprintf("CCS: Unknown CCS handler name '%s' requested. Ignoring...\n", handler), os.Stdout)
}

// resize waits for a client that wants another number of processes, and goes on with that: process
// 0 tells the others by datagrams, as the library does by messages.
func (c *client) resize(r restart, done int) {
	var bitmap []byte
	if c.rank == 0 {
		b := c.expect("req_fw")
		header, data := b[:58], b[58:]
		handler, _, _ := strings.Cut(string(header[14:46]), "\x00")
		if handler != "set_bitmap" || len(data) != c.size+5 {
			fail("a request to %s of %d bytes", handler, len(data))
		}
		bitmap = data
		for _, e := range c.table[1:] {
			_, err := c.data.WriteToUDP(data, &net.UDPAddr{IP: e.addr, Port: int(e.port)})
			check(err)
		}
		check(os.WriteFile(r.left(), []byte(strconv.Itoa(done)), 0o600))
		c.step("barrier", "")
		binary.BigEndian.PutUint32(header[54:], 1)
		c.send("reply_fw", header)
		c.send("realloc", words(binary.NativeEndian.Uint32(data[c.size:])))
	} else {
		bitmap = make([]byte, c.size+6)
		n, _, err := c.data.ReadFromUDP(bitmap)
		check(err)
		bitmap = bitmap[:n]
		c.step("barrier", "")
	}
	c.expect(acknowledged)
	if bitmap[c.rank] == 0 {
		os.Exit(0) // it leaves
	}
	next := binary.NativeEndian.Uint32(bitmap[c.size:])
	if slices.Contains(bitmap[:c.rank], 0) {
		fail("process %d stays, and one before it does not", c.rank)
	}
	number := strconv.Itoa(c.rank)
	argv := append(slices.Clone(os.Args), "+shrinkexpand", "+newnumpes", fmt.Sprint(next), "+mynewpe", number,
		"+myoldpe", number, "+restart", r.dir, "+shrinkexpand_basedir", r.dir)
	check(syscall.Exec("/proc/self/exe", argv, os.Environ()))
}
