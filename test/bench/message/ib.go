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

// This file compares messages of package fabric/ib over a verbs device with ibv_rc_pingpong. They are measured in
// turns, each between two processes. Either all processes wait for events or all of them poll. This program must be
// built with cgo. Otherwise ib.Open returns an error that says so.

const ibRounds = 5

// Bounds of docs/dev/decisions/0012-infiniband.md.
const (
	maxPinned    = 64      // KiB of registered memory without a peer
	maxTrip      = 1.3     // the time of a round trip, divided by that of ibv_rc_pingpong
	minBandwidth = 0.9     // the bandwidth, divided by that of ibv_rc_pingpong
	streamed     = 1 << 20 // bytes; messages of this length and above are compared by bandwidth, shorter ones by time
)

// Values of MODE: how processes wait for messages.
const (
	events  = "events"
	polling = "polling"
)

// accepted is a fabric.Sink that sends accepted streams to a channel and drops datagrams.
type accepted struct{ streams chan fabric.Stream }

func (accepted) Datagram(fabric.Tuple, []byte) {}
func (a accepted) Accepted(s fabric.Stream)    { a.streams <- s }

// onCPU returns the command for a process of a measurement. In mode polling it binds the process to a CPU, because
// ibrun gives each rank its own CPU, too.
func onCPU(mode, cpu, name string, args ...string) *exec.Cmd {
	if mode == polling {
		return exec.Command("taskset", append([]string{"-c", cpu, name}, args...)...)
	}
	return exec.Command(name, args...)
}

// ofOurs returns the command that runs this program with args, bound to a CPU like onCPU does.
func ofOurs(mode, cpu string, args ...string) *exec.Cmd {
	self, _ := os.Executable() // a path, because taskset would run itself as /proc/self/exe
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

// Echo accepts streams and sends each message back. It prints its address and connection data for the process that
// measures. The first eight bytes of a stream give the length of its messages in decimal digits.
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

// echo represents a process that runs Echo.
type echo struct {
	f     *ib.Fabric
	other *exec.Cmd
	to    fabric.Tuple
	offer []byte
}

func startEcho(f *ib.Fabric, device, mode string) (*echo, error) {
	e := &echo{f: f, other: ofOurs(mode, "1", ":echo", device, mode)}
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

// dial connects to the process, and returns a stream on which the process echoes messages of size bytes.
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

// pingpong returns the mean time of a round trip in microseconds.
func (e *echo) pingpong(size, trips int) (float64, error) {
	s, err := e.dial(size)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	m := make([]byte, size)
	once := func() error { return streamTrip(s, m) }
	// After Dial the fabric creates spare queue pairs in the background. These round trips leave time for that.
	if err := figure.Repeat(max(1, trips/10), once); err != nil {
		return 0, err
	}
	took, err := figure.Time(func() error { return figure.Repeat(trips, once) })
	return figure.Microseconds(took) / float64(trips), err
}

// IB measures connecting and messages over InfiniBand, and compares them with their bounds. MACHINE describes the
// machine and becomes part of the name of each figure.
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
	for _, l := range []struct{ bytes, trips int }{{64, 200}, {4 << 10, 200}, {streamed, 10}} {
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
		if l.bytes < streamed {
			bounds.AtMost("round trip "+what, ratio, maxTrip)
		} else {
			bounds.AtLeast("bandwidth "+what, 1/ratio, minBandwidth)
		}
	}
	return bounds.Err()
}

// connects prints the time from Dial to the first echo. The first stream is cold: the fabric creates the resources
// that streams share. Later streams are warm if they get a spare queue pair.
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
		next := time.Now().Add(time.Second) // waits for spare queue pairs
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

// inTurn starts two processes, and returns the time of a round trip between them in microseconds. They end before it
// returns, because processes that poll would take CPU time from the next measurement.
func inTurn(device, mode string, size, trips int) (float64, error) {
	r, err := figure.Run(patience, ofOurs(mode, "0", ":turn", device, mode, strconv.Itoa(size), strconv.Itoa(trips)))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(r.Out)), 64)
}

// Turn is the process that inTurn starts. It starts the echo process, measures and prints the time of a round trip.
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

// CurveIB prints a table of round trips of messages of 1 byte to 1 MiB, in microseconds. Longer messages would take
// too long on emulated Soft-RoCE. Each line begins with the word curve, to be found in the output of the virtual
// machine.
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

// verbs returns a Way that runs ibv_rc_pingpong on this machine. Its value is the time of a round trip in
// microseconds.
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
