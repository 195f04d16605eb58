// Package ib measures the InfiniBand fabric on a real verbs device beside ibv_rc_pingpong, both
// waiting for events or both polling: round trips in turns between two processes each, connecting,
// and memory. `make bench-ib` runs it in machines with Soft-RoCE.
//
// It refuses to know verbs: it needs a program that was built with cgo, and says so without.
package ib

import (
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
	"ibrun/test/bench/worker"
)

// Of each length, so many round trips in each of so many turns.
var lengths = []struct{ bytes, trips int }{{64, 200}, {4 << 10, 200}, {1 << 20, 10}}

const turns = 5

// Bounds of docs/dev/decisions/0012-infiniband.md.
const (
	mostPinned     = 64      // KiB registered without a peer
	mostTrip       = 1.3     // of a round trip of ibv_rc_pingpong
	leastBandwidth = 0.9     // of its bandwidth, from streamed on
	streamed       = 1 << 20 // bytes of a message of which bandwidth counts
)

const (
	echoRole = ":echo"
	turnRole = ":turn"
)

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == echoRole:
		return echo(args[1], mode(args[2]))
	case len(args) == 5 && args[0] == turnRole:
		return turn(args[1], mode(args[2]), args[3], args[4])
	case len(args) == 3 && args[0] == "curve":
		return curveOf(args[1], args[2])
	case len(args) == 5 && args[0] == "plot":
		return plot(args[1], args[2], args[3], args[4])
	case len(args) == 3 && (args[1] == string(events) || args[1] == string(polling)):
		return drive(args[0], mode(args[1]), args[2])
	}
	return errors.New("usage: bench ib DEVICE events|polling MACHINE | " +
		"curve DEVICE ROUNDS | plot PRINTED ROUNDS FILE PICTURE")
}

// box is a sink that keeps streams.
type box struct{ streams chan fabric.Stream }

func (box) Datagram(fabric.Tuple, []byte) {}
func (b box) Accepted(s fabric.Stream)    { b.streams <- s }

// mode is how both sides wait.
type mode string

const (
	events  mode = "events"
	polling mode = "polling"
)

// command is a program on one of both sides, ours without a name. One that polls has a CPU of its
// own, as a rank that ibrun starts has.
func (m mode) command(cpu int, name string, args ...string) (string, []string) {
	if name == "" {
		name, _ = os.Executable() // taskset has another /proc/self/exe
	}
	if m == polling {
		return "taskset", append([]string{"-c", strconv.Itoa(cpu), name}, args...)
	}
	return name, args
}

func open(device string, m mode) (*ib.Fabric, box, error) {
	b := box{make(chan fabric.Stream, 16)}
	f, err := ib.Open(ib.Config{Port: device, GIDIndex: -1, QKey: 0x1234567, Spin: m == polling}, b)
	return f, b, err
}

// echo is the other process: it sends back what comes, in pieces of the length that the first eight
// digits say.
func echo(device string, m mode) error {
	f, b, err := open(device, m)
	if err != nil {
		return err
	}
	offer, err := f.Offer()
	if err != nil {
		return err
	}
	fmt.Printf("%x %x\n", f.Tuple().Append(nil), offer)
	for s := range b.streams {
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

// drive prints and judges the figures of a machine, whose name is part of theirs.
func drive(device string, m mode, machine string) error {
	f, _, err := open(device, m)
	if err != nil {
		return err
	}
	fmt.Printf("opening took %v\n", f.Counters().Opening)
	bounds := figure.Bounds{To: os.Stdout}
	pinned := float64(f.Counters().Pinned) / (1 << 10)
	bounds.AtMost(fmt.Sprintf("memory registered without a peer, KiB, %s, %s", machine, m), pinned, mostPinned)
	p, err := echoes(f, device, m)
	if err != nil {
		return err
	}
	err = p.connects()
	c := f.Counters()
	p.other.Kill()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Printf("memory registered with one peer: %d bytes; queue pairs made: %d\n", c.Pinned, c.Made)
	fmt.Printf("\n%10s  %14s  %16s  %6s   median of %d turns each, round trip\n",
		"bytes", "ibrun", "ibv_rc_pingpong", "ratio", turns)
	for _, l := range lengths {
		var took figure.Pair
		if err := took.Measure(turns,
			func() (float64, error) { return inTurn(device, m, l.bytes, l.trips) },
			func() (float64, error) { return verbs(device, m, l.bytes, l.trips) }); err != nil {
			return err
		}
		a, b, ratio := took.Medians()
		fmt.Printf("%10d  %11.1f us  %13.1f us  %6.2f   bandwidth %.2f of it\n", l.bytes, a, b, ratio, 1/ratio)
		what := fmt.Sprintf("of %d bytes beside ibv_rc_pingpong, %s, %s", l.bytes, machine, m)
		if l.bytes < streamed {
			bounds.AtMost("round trip "+what, ratio, mostTrip)
		} else {
			bounds.AtLeast("bandwidth "+what, 1/ratio, leastBandwidth)
		}
	}
	return bounds.Err()
}

// inTurn is the time of a round trip in microseconds between two processes that end with it, as
// those of ibv_rc_pingpong do: a process that polls would take its CPU from theirs.
func inTurn(device string, m mode, size, trips int) (float64, error) {
	name, args := m.command(0, "", "ib", turnRole, device, string(m), strconv.Itoa(size), strconv.Itoa(trips))
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("one turn of ours: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// turn is the process of inTurn that measures.
func turn(device string, m mode, size, trips string) error {
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(trips)
	if err != nil {
		return err
	}
	f, _, err := open(device, m)
	if err != nil {
		return err
	}
	p, err := echoes(f, device, m)
	if err != nil {
		return err
	}
	defer p.other.Kill()
	took, err := p.pingpong(bytes, n)
	if err == nil {
		fmt.Println(took)
	}
	return err
}

// peer is the other process.
type peer struct {
	other *worker.Worker
	f     *ib.Fabric
	to    fabric.Tuple
	offer []byte
}

// echoes starts a process that sends back what comes.
func echoes(f *ib.Fabric, device string, m mode) (*peer, error) {
	name, args := m.command(1, "", "ib", echoRole, device, string(m))
	other, err := worker.Start("the other process", name, args...)
	if err != nil {
		return nil, err
	}
	p := &peer{f: f, other: other}
	if err := p.learn(); err != nil {
		other.Kill()
		return nil, err
	}
	return p, nil
}

// learn reads where the other process is.
func (p *peer) learn() error {
	line, err := p.other.Line()
	if err != nil {
		return err
	}
	var tuple, offer string
	if _, err := fmt.Sscan(line, &tuple, &offer); err != nil {
		return err
	}
	raw, _ := hex.DecodeString(tuple)
	if p.to, _, err = fabric.ParseTuple(raw); err != nil {
		return err
	}
	p.offer, err = hex.DecodeString(offer)
	return err
}

// dial returns a stream whose other end echoes messages of a length.
func (p *peer) dial(size int) (fabric.Stream, error) {
	s, err := p.f.Dial(context.Background(), p.to, p.offer)
	if err == nil {
		_, err = fmt.Fprintf(s, "%08d", size)
	}
	return s, err
}

// connects measures from Dial to the first echo: the first time, with all that streams share to be
// made, and then with queue pairs that wait.
func (p *peer) connects() error {
	var warm []float64
	most := uint64(0)
	for i := range 12 {
		before := p.f.Counters()
		var s fabric.Stream
		taken, err := figure.Time(func() (err error) {
			if s, err = p.dial(8); err != nil {
				return err
			}
			return trip(s, make([]byte, 8))
		})
		if err != nil {
			return err
		}
		took, after := figure.Microseconds(taken), p.f.Counters()
		s.Close()
		if i == 0 {
			fmt.Printf("connect and first echo, cold: %.0f us, %d datagrams sent\n", took, after.Control-before.Control)
		} else if after.Cold == before.Cold {
			warm, most = append(warm, took), max(most, after.Control-before.Control)
		}
		next := time.Now().Add(time.Second) // until it is ready
		for p.f.Counters().Made < uint64(i)+3 && time.Now().Before(next) {
			time.Sleep(time.Millisecond)
		}
	}
	if len(warm) > 0 {
		fmt.Printf("connect and first echo, warm: %.0f us, median of %d; %d datagrams sent at most, "+
			"and as many received\n", figure.Median(warm), len(warm), most)
	}
	return nil
}

func trip(s fabric.Stream, m []byte) error {
	if _, err := s.Write(m); err != nil {
		return err
	}
	_, err := io.ReadFull(s, m)
	return err
}

// pingpong is the time of a round trip in microseconds.
func (p *peer) pingpong(size, trips int) (float64, error) {
	s, err := p.dial(size)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	m := make([]byte, size)
	once := func() error { return trip(s, m) }
	// Queue pairs for later streams are made meanwhile, which counts as connecting.
	if err := figure.Turns(max(1, trips/10), once); err != nil {
		return 0, err
	}
	took, err := figure.Time(func() error { return figure.Turns(trips, once) })
	return figure.Microseconds(took) / float64(trips), err
}

var perTrip = regexp.MustCompile(`= ([0-9.]+) usec/iter`)

// verbs is the same of ibv_rc_pingpong.
func verbs(device string, m mode, size, trips int) (float64, error) {
	args := []string{"-d", device, "-g", "1", "-s", strconv.Itoa(size), "-n", strconv.Itoa(trips), "-p", "18517"}
	if m == events {
		args = append(args, "-e")
	}
	name, line := m.command(1, "ibv_rc_pingpong", args...)
	server := exec.Command(name, line...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer server.Wait()
	defer server.Process.Kill()
	for until := time.Now().Add(20 * time.Second); !listens(18517); {
		if time.Now().After(until) {
			return 0, fmt.Errorf("ibv_rc_pingpong does not listen")
		}
		time.Sleep(5 * time.Millisecond)
	}
	name, line = m.command(0, "ibv_rc_pingpong", append(args, "127.0.0.1")...)
	out, err := exec.Command(name, line...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("ibv_rc_pingpong: %w\n%s", err, out)
	}
	found := perTrip.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("ibv_rc_pingpong says no time: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// listens reports whether somebody listens on a port of this machine (proc_net_tcp of the kernel's
// documentation: state 0A). To try to listen would take the port from who is about to.
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
