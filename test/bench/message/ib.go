package message

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ibrun/fabric"
	"ibrun/fabric/ib"
	"ibrun/test/bench/figure"
)

// This file compares round trips by package fabric/ib with those by the program ibv_rc_pingpong, over the same verbs
// device. Both are measured in turns, each between two processes on this machine. Either all of these processes wait
// for events or all of them poll. The program bench must be built with cgo. Otherwise ib.Open returns an error.

const ibRounds = 5

// Bounds of docs/dev/decisions/0012-infiniband.md.
const (
	maxPinned    = 64  // upper bound of the memory that is registered without a peer, in KiB
	maxTrip      = 1.3 // upper bound of the time of a round trip, divided by that of ibv_rc_pingpong
	minBandwidth = 0.9 // lower bound of the bandwidth, divided by that of ibv_rc_pingpong

	// bandwidthFrom is the length in bytes from which on messages are compared by bandwidth. Shorter messages are
	// compared by the time of a round trip.
	bandwidthFrom = 1 << 20
)

// Values of the argument MODE, which selects how processes wait for messages.
const (
	events  = "events"  // sleep until the device reports an event
	polling = "polling" // poll the device
)

// accepted is a fabric.Sink that sends accepted streams to the channel streams, and drops datagrams.
type accepted struct{ streams chan fabric.Stream }

func (accepted) Datagram(fabric.Tuple, []byte) {}
func (a accepted) Accepted(s fabric.Stream)    { a.streams <- s }

// onCPU returns a command that runs the program name with args. In mode polling, the command binds the program to the
// CPU with the number cpu, as ibrun binds ranks.
func onCPU(mode, cpu, name string, args ...string) *exec.Cmd {
	if mode == polling {
		return exec.Command("taskset", append([]string{"-c", cpu, name}, args...)...)
	}
	return exec.Command(name, args...)
}

// selfOnCPU returns a command that runs the program bench with args, bound to a CPU like that of onCPU.
func selfOnCPU(mode, cpu string, args ...string) *exec.Cmd {
	self, _ := os.Executable() // a path, because in the process of taskset /proc/self/exe is taskset
	return onCPU(mode, cpu, self, args...)
}

func open(device, mode string) (*ib.Fabric, accepted, error) {
	a := accepted{make(chan fabric.Stream, 16)}
	if mode != events && mode != polling {
		return nil, a, fmt.Errorf("invalid mode: %q is neither %s nor %s", mode, events, polling)
	}
	f, err := ib.Open(ib.Config{Port: device, GIDIndex: -1, QKey: 0x1234567, Spin: mode == polling}, a)
	return f, a, err
}

// Echo sends each message of accepted streams back. It first prints its address and connection data in hexadecimal,
// for startEcho. Each stream begins with eight decimal digits, the length of its messages in bytes.
func Echo(args []string) error {
	var device, mode string
	if err := figure.Parse(args, &device, &mode); err != nil {
		return err
	}
	f, a, err := open(device, mode)
	if err != nil {
		return err
	}
	offer, err := f.Offer()
	if err != nil {
		return err
	}
	fmt.Printf("%x %x\n", f.Tuple().Append(nil), offer)
	for s := range a.streams {
		go func() {
			defer s.Close()
			head := make([]byte, 8)
			if _, err := io.ReadFull(s, head); err != nil {
				return
			}
			size, _ := strconv.Atoi(string(head))
			for m := make([]byte, size); ; {
				if _, err := io.ReadFull(s, m); err != nil {
					return
				}
				if _, err := s.Write(m); err != nil {
					return
				}
			}
		}()
	}
	return nil
}

// echo represents a process that runs Echo, and the connection data for streams to it.
type echo struct {
	f     *ib.Fabric   // the endpoint of this process
	other *exec.Cmd    // the process that runs Echo
	to    fabric.Tuple // its address
	offer []byte       // its connection data
}

func startEcho(f *ib.Fabric, device, mode string) (*echo, error) {
	e := &echo{f: f, other: selfOnCPU(mode, "1", ":echo", device, mode)}
	e.other.Stderr = os.Stderr
	out, err := e.other.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.other.Start(); err != nil {
		return nil, err
	}
	var tuple, offer string
	if _, err = fmt.Fscanln(bufio.NewReader(out), &tuple, &offer); err == nil {
		raw, _ := hex.DecodeString(tuple)
		e.to, _, err = fabric.ParseTuple(raw)
	}
	if err != nil {
		e.kill()
		return nil, fmt.Errorf("the other process: %w", err)
	}
	e.offer, err = hex.DecodeString(offer)
	return e, err
}

func (e *echo) kill() {
	_ = e.other.Process.Kill()
	_ = e.other.Wait() // fails, because the process was killed
}

// dial opens a stream to the echo process, which sends back each message of size bytes.
func (e *echo) dial(size int) (fabric.Stream, error) {
	s, err := e.f.Dial(context.Background(), e.to, e.offer)
	if err == nil {
		_, err = fmt.Fprintf(s, "%08d", size)
	}
	return s, err
}

func streamTrip(s fabric.Stream, m []byte) error {
	if _, err := s.Write(m); err != nil {
		return err
	}
	_, err := io.ReadFull(s, m)
	return err
}

// pingpong makes trips round trips of messages of size bytes. It returns their mean time in microseconds.
func (e *echo) pingpong(size, trips int) (float64, error) {
	s, err := e.dial(size)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	m := make([]byte, size)
	once := func() error { return streamTrip(s, m) }
	// These round trips do not count: meanwhile the fabric creates spare queue pairs in the background.
	if err := figure.Repeat(max(1, trips/10), once); err != nil {
		return 0, err
	}
	took, err := figure.Time(func() error { return figure.Repeat(trips, once) })
	return figure.Microseconds(took) / float64(trips), err
}

// IB compares the registered memory and round trips over InfiniBand with their bounds. It also prints how long it
// takes to open the device and to connect. MACHINE describes the machine, and is part of the name of each value with
// a bound.
func IB(args []string) error {
	var device, mode, machine string
	if err := figure.Parse(args, &device, &mode, &machine); err != nil {
		return err
	}
	f, _, err := open(device, mode)
	if err != nil {
		return err
	}
	fmt.Printf("opening took %v\n", f.Counters().Opening)
	bounds := figure.Bounds{To: os.Stdout}
	pinned := float64(f.Counters().Pinned) / (1 << 10)
	bounds.AtMost(fmt.Sprintf("memory registered without a peer, KiB, %s, %s", machine, mode), pinned, maxPinned)
	e, err := startEcho(f, device, mode)
	if err != nil {
		return err
	}
	err = e.connects()
	c := f.Counters()
	e.kill()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Printf("memory registered with one peer: %d bytes; queue pairs made: %d\n", c.Pinned, c.Made)
	fmt.Printf("medians of %d round trips in turns\n", ibRounds)
	for _, l := range []struct{ bytes, trips int }{{64, 200}, {4 << 10, 200}, {bandwidthFrom, 10}} {
		ours := &figure.Way{Name: "ibrun", Do: func() (float64, error) {
			return inTurn(device, mode, l.bytes, l.trips)
		}}
		theirs := verbs(device, mode, l.bytes, l.trips)
		if err := figure.Measure(0, ibRounds, ours, theirs); err != nil {
			return err
		}
		ratio := ours.Over(theirs)
		fmt.Printf("%d bytes: ibrun %.1f us, ibv_rc_pingpong %.1f us\n", l.bytes, ours.Median(), theirs.Median())
		what := fmt.Sprintf("of %d bytes beside ibv_rc_pingpong, %s, %s", l.bytes, machine, mode)
		if l.bytes < bandwidthFrom {
			bounds.AtMost("round trip "+what, ratio, maxTrip)
		} else {
			bounds.AtLeast("bandwidth "+what, 1/ratio, minBandwidth)
		}
	}
	return bounds.Err()
}

// connects prints the time from Dial to the first echo. For the first stream ("cold"), the fabric creates resources
// that all streams share. Later streams count as warm if they get a queue pair that has been created before.
func (e *echo) connects() error {
	var warm []float64
	sent := uint64(0)
	for i := range 12 {
		before := e.f.Counters()
		var s fabric.Stream
		taken, err := figure.Time(func() (err error) {
			if s, err = e.dial(8); err != nil {
				return err
			}
			return streamTrip(s, make([]byte, 8))
		})
		if err != nil {
			return err
		}
		took, after := figure.Microseconds(taken), e.f.Counters()
		s.Close()
		if i == 0 {
			fmt.Printf("connect and first echo, cold: %.0f us, %d datagrams sent\n", took, after.Control-before.Control)
		} else if after.Cold == before.Cold {
			warm, sent = append(warm, took), max(sent, after.Control-before.Control)
		}
		next := time.Now().Add(time.Second) // waits at most 1 s for spare queue pairs
		for e.f.Counters().Made < uint64(i)+3 && time.Now().Before(next) {
			time.Sleep(time.Millisecond)
		}
	}
	if len(warm) > 0 {
		fmt.Printf("connect and first echo, warm: %.0f us, median of %d; %d datagrams sent at most, "+
			"and as many received\n", figure.Median(warm), len(warm), sent)
	}
	return nil
}

// inTurn runs the subcommand :turn in a process, and returns the mean time of its round trips in microseconds. This
// process and its echo process end before inTurn returns: processes that poll would take CPU time from the next
// measurement.
func inTurn(device, mode string, size, trips int) (float64, error) {
	r, err := figure.Run(patience, selfOnCPU(mode, "0", ":turn", device, mode, strconv.Itoa(size), strconv.Itoa(trips)))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(r.Out)), 64)
}

// Turn starts an echo process, measures round trips to it, and prints their mean time in microseconds. inTurn runs it
// as a process.
func Turn(args []string) error {
	var device, mode string
	var size, trips int
	if err := figure.Parse(args, &device, &mode, &size, &trips); err != nil {
		return err
	}
	f, _, err := open(device, mode)
	if err != nil {
		return err
	}
	e, err := startEcho(f, device, mode)
	if err != nil {
		return err
	}
	defer e.kill()
	took, err := e.pingpong(size, trips)
	if err == nil {
		fmt.Println(took)
	}
	return err
}

// CurveIB prints the times of round trips of messages of 1 byte to 1 MiB, in microseconds, for ibrun and
// ibv_rc_pingpong. Longer messages would take too long on emulated Soft-RoCE. Each line begins with the word curve,
// so that test/bench/run can find it in the output of the virtual machine.
func CurveIB(args []string) error {
	var device string
	var rounds int
	if err := figure.Parse(args, &device, &rounds); err != nil {
		return err
	}
	f, _, err := open(device, events)
	if err != nil {
		return err
	}
	e, err := startEcho(f, device, events)
	if err != nil {
		return err
	}
	defer e.kill()
	for _, bytes := range Lengths(1 << 20) {
		const trips = 50
		ours := &figure.Way{Name: "ibrun", Do: func() (float64, error) { return e.pingpong(bytes, trips) }}
		theirs := verbs(device, events, bytes, trips)
		if err := figure.Measure(0, rounds, ours, theirs); err != nil {
			return err
		}
		fmt.Printf("curve %d %.3f %.3f\n", bytes, ours.Median(), theirs.Median())
	}
	return nil
}

var perTrip = regexp.MustCompile(`= ([0-9.]+) usec/iter`)

// verbs returns a Way that runs both processes of ibv_rc_pingpong on this machine. Its value is the mean time of a
// round trip in microseconds.
func verbs(device, mode string, size, trips int) *figure.Way {
	args := []string{"-d", device, "-g", "1", "-s", strconv.Itoa(size), "-n", strconv.Itoa(trips), "-p", "18517"}
	if mode == events {
		args = append(args, "-e")
	}
	return &figure.Way{Name: "ibv_rc_pingpong", Do: func() (float64, error) {
		server := onCPU(mode, "1", "ibv_rc_pingpong", args...)
		if err := server.Start(); err != nil {
			return 0, err
		}
		defer server.Wait()
		defer server.Process.Kill()
		for until := time.Now().Add(20 * time.Second); !listens(18517); {
			if time.Now().After(until) {
				return 0, errors.New("the server does not listen")
			}
			time.Sleep(5 * time.Millisecond)
		}
		r, err := figure.Run(patience, onCPU(mode, "0", "ibv_rc_pingpong", append(args, "127.0.0.1")...))
		if err != nil {
			return 0, err
		}
		found := perTrip.FindSubmatch(r.Out)
		if found == nil {
			return 0, fmt.Errorf("no time in the output: %s", r.Out)
		}
		return strconv.ParseFloat(string(found[1]), 64)
	}}
}

// listens reports whether a process listens on a TCP port of this machine. It looks for state 0A in /proc/net/tcp. It
// does not connect to the port, because ibv_rc_pingpong accepts one connection only.
func listens(port int) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}
