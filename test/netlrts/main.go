// Command netlrts says what a program of Charm++'s layer netlrts says to charmrun, in the three
// generations of its table of processes, and checks what it is told:
//
//	netlrts [-gen 65|67|69] [+ppn N] STEP ...
//
// A step is one of the list in steps; N/STEP is done by process N alone. With the step mute it prints
// NETSTART and connects to nobody. It is recognized as such a program by the strings in it. It uses nothing of ibrun, and runs under charmrun's rules: a socket
// to the address in NETSTART, and no other word of who it is.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// generation has the bytes of what a program says and is told.
type generation struct{ before, entry, head int }

var generations = map[int]generation{65: {4, 16, 4}, 67: {4, 20, 4}, 69: {16, 24, 8}}

// client is a process.
type client struct {
	rank, size int
	gen        generation
	conn       net.Conn
	data       *net.UDPConn
	table      []entry
	asked      [][]byte // requests that came while something else was awaited
}

type entry struct {
	number, onHost, pes, port uint32
	addr                      net.IP
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(3)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// By these words a program is recognized. The first one ends with a NUL, as C's do.
var variable, table = "NETSTART\x00", "initnodetab"

func main() {
	gen := flag.Int("gen", 69, "generation of the table")
	again, argv := takeRestart(os.Args)
	os.Args = slices.Clone(argv)
	flag.Parse()
	start := os.Getenv(strings.TrimRight(variable, "\x00"))
	if start == "" {
		fmt.Println("Charm++> standalone mode (not using charmrun)")
		return
	}
	if flag.Arg(0) == "mute" {
		fmt.Println(start)
		return
	}
	c := &client{gen: generations[*gen]}
	var host string
	var port, pid, last int
	n, err := fmt.Sscanf(start, "%d %s %d %d %d", &c.rank, &host, &port, &pid, &last)
	if err != nil || n != 5 {
		fail("NETSTART is %q", start)
	}
	if _, err := strconv.ParseInt(os.Getenv("NETMAGIC"), 10, 32); err != nil {
		fail("NETMAGIC: %v", err)
	}
	c.data, err = net.ListenUDP("udp4", nil)
	check(err)
	c.conn, err = net.Dial("tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
	check(err)
	steps := flag.Args()
	if len(steps) > 1 && steps[0] == "+ppn" {
		steps = steps[2:]
	}
	if len(steps) > 0 && steps[0] == "early" { // printed before there is a table
		fmt.Println("early", c.rank)
		steps = steps[1:]
	}
	all := len(steps)
	steps = again.after(steps)
	c.join()
	for i, step := range steps {
		if step == "resize" {
			c.resize(again, all-len(steps)+i+1)
		}
		of, what, only := strings.Cut(step, "/")
		if rank, err := strconv.Atoi(of); only && err == nil {
			if rank != c.rank {
				continue
			}
			step = what
		}
		word, value, _ := strings.Cut(step, ":")
		c.step(word, value)
	}
}

func words(values ...uint32) (b []byte) {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// join says initnode and takes the table.
func (c *client) join() {
	init := words(uint32(c.rank))
	for len(init) < c.gen.before {
		init = append(init, words(1)...) // PUs, cores, sockets
	}
	own := make([]byte, c.gen.entry)
	binary.BigEndian.PutUint32(own[c.gen.entry-12:], uint32(c.data.LocalAddr().(*net.UDPAddr).Port))
	copy(own[c.gen.entry-4:], []byte{192, 0, 2, 1}) // a wrong guess
	c.send("initnode", append(init, own...))
	kind, b := c.receive()
	if kind == "die" {
		fail("told to die: %s", strings.TrimRight(string(b), "\x00"))
	}
	if kind != table {
		fail("%s instead of the table", kind)
	}
	c.size = int(binary.BigEndian.Uint32(b))
	if len(b) != c.gen.head+c.size*c.gen.entry {
		fail("a table of %d bytes for %d processes", len(b), c.size)
	}
	if c.gen.head == 8 && binary.BigEndian.Uint32(b[4:]) != uint32(c.rank) {
		fail("process %d is told to be %d", c.rank, binary.BigEndian.Uint32(b[4:]))
	}
	for b = b[c.gen.head:]; len(b) > 0; b = b[c.gen.entry:] {
		e := entry{number: uint32(len(c.table)), onHost: 1}
		w := func(i int) uint32 { return binary.BigEndian.Uint32(b[c.gen.entry-4*i:]) } // from its end
		e.pes, e.port, e.addr = w(4), w(3), net.IP(b[c.gen.entry-4:c.gen.entry])
		if c.gen.entry >= 20 {
			e.onHost = w(5)
		}
		if c.gen.entry >= 24 && w(6) != e.number || e.pes == 0 || e.port == 0 || e.onHost == 0 || w(2) != 0 {
			fail("entry %d: %v", len(c.table), e)
		}
		c.table = append(c.table, e)
	}
}

func (c *client) send(kind string, data []byte) {
	b := words(uint32(len(data)))
	b = append(b, kind...)
	b = append(append(b, make([]byte, 12-len(kind))...), data...)
	_, err := c.conn.Write(b)
	check(err)
}

func (c *client) receive() (kind string, data []byte) {
	var head [16]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		os.Exit(1) // as Charm++ does: charmrun is gone
	}
	data = make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.conn, data)
	check(err)
	kind, _, _ = strings.Cut(string(head[4:]), "\x00")
	return kind, data
}

// expect takes a frame of a type.
func (c *client) expect(kind string) []byte {
	if kind == "req_fw" && len(c.asked) > 0 {
		data := c.asked[0]
		c.asked = c.asked[1:]
		return data
	}
	got, data := c.receive()
	for ; got == "req_fw" && kind != got; got, data = c.receive() {
		c.asked = append(c.asked, data)
	}
	if got != kind {
		fail("process %d got %s instead of %s", c.rank, got, kind)
	}
	return data
}

// print says it by a frame and to the inherited descriptor, as the library does.
func (c *client) print(kind, text string, to *os.File) {
	b := append([]byte(text), 0)
	_, _ = to.Write(b)
	c.send(kind, b)
}

func (c *client) step(word, value string) {
	value = strings.ReplaceAll(value, "\\n", "\n")
	switch word {
	case "print":
		c.print("print", fmt.Sprintf("%d says %s\n", c.rank, value), os.Stdout)
	case "printerr":
		c.print("printerr", fmt.Sprintf("%d complains %s\n", c.rank, value), os.Stderr)
	case "sync":
		c.print("printsyn", value+"\n", os.Stdout)
		c.expect("printdone")
	case "flood": // many lines
		n, err := strconv.Atoi(value)
		check(err)
		for i := range n {
			c.send("print", fmt.Appendf(nil, "%d %d %s\n\x00", c.rank, i, strings.Repeat("x", 200)))
		}
	case "barrier":
		c.send("barrier", nil)
		c.expect("barrier")
	case "barrier0":
		c.send("barrier0", append([]byte(strconv.Itoa(c.rank)), 0))
		if c.rank == 0 {
			c.expect("barrier0")
		}
	case "scanf":
		c.send("scanf", append([]byte(value), 0))
		c.print("print", fmt.Sprintf("read %q\n", c.expect("scanf-data")), os.Stdout)
	case "table":
		text := fmt.Sprintf("%d processes:", c.size)
		for _, e := range c.table {
			text += fmt.Sprintf(" %d/%d@%s", e.pes, e.onHost, e.addr)
		}
		c.print("print", text+"\n", os.Stdout)
	case "ring":
		c.ring()
	case "ignore":
		c.ignoreResize()
	case "serve":
		c.serve()
	case "abort":
		c.send("abort", append([]byte(value), 0))
		c.receive()
	case "realloc": // that nobody wants
		n, _ := strconv.Atoi(value)
		c.send("realloc", words(uint32(n)))
		c.receive()
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "exit":
		code, _ := strconv.Atoi(value)
		os.Exit(code)
	case "raw":
		_, _ = c.conn.Write([]byte(value))
		c.receive()
	case "end":
		if canResize() {
			c.step("barrier", "")
		}
		if !canResize() || c.rank == 0 {
			c.send("ending", append([]byte(value), 0))
		}
		if canResize() {
			c.expect(acknowledged)
		}
		c.receive() // nothing but the end comes
		fail("process %d got something after ending", c.rank)
	default:
		fail("no step %s", word)
	}
}

// ring sends a datagram to the next process and takes that of the one before.
func (c *client) ring() {
	next := c.table[(c.rank+1)%c.size]
	_, err := c.data.WriteToUDP([]byte(strconv.Itoa(c.rank)), &net.UDPAddr{IP: next.addr, Port: int(next.port)})
	check(err)
	b := make([]byte, 64)
	_ = c.data.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, _, err := c.data.ReadFromUDP(b)
	check(err)
	if got, want := string(b[:n]), strconv.Itoa((c.rank+c.size-1)%c.size); got != want {
		fail("process %d got the datagram of %s instead of %s", c.rank, got, want)
	}
}

// serve answers requests of clients until one is for "bye".
func (c *client) serve() {
	for {
		b := c.expect("req_fw")
		header, data := b[:58], b[58:]
		handler, _, _ := strings.Cut(string(header[14:46]), "\x00")
		if handler == "fall" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		pe := int32(binary.BigEndian.Uint32(header[46:]))
		reply := fmt.Appendf(nil, "process %d, PE %d, %s: %s", c.rank, pe, handler, data)
		binary.BigEndian.PutUint32(header[54:], 1) // there is a reply: not its length
		c.send("reply_fw", append(header, reply...))
		if handler == "bye" {
			return
		}
	}
}
