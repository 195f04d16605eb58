package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/remote/native"
	"ibrun/test/bench/figure"
)

// session runs a command on a host by native ssh, and returns its standard output.
func session(host, command string) ([]byte, error) {
	system, err := native.Here()
	if err != nil {
		return nil, err
	}
	cfg, err := native.ReadConfig(system, host, "", nil)
	if err != nil {
		return nil, err
	}
	s, err := native.Start(context.Background(), cfg, command, io.Discard, func(native.Phase) {})
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(s.Stdout)
	<-s.Done()
	if end := s.End(); err == nil && end != (native.End{}) {
		err = fmt.Errorf("the session ended with %v", end)
	}
	return text, err
}

// Floor runs PROGRAM on each node by a separate session from this host, without agents. At most WINDOW sessions run
// at a time. Its time shows how much of a launch the sessions alone take. SHELL is "native" for native ssh, or the
// path of a remote shell.
func Floor(args []string) error {
	var shell, program string
	var nodes, window int
	if err := figure.Parse(args, &shell, &nodes, &window, &program); err != nil {
		return err
	}
	var mu sync.Mutex // guards printed and fails
	var printed bytes.Buffer
	var fails []error
	room := make(chan struct{}, window)
	var all sync.WaitGroup
	for _, host := range figure.Names(nodes) {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			var text []byte
			var err error
			if shell == "native" {
				text, err = session(host, "exec "+program)
			} else {
				text, err = exec.Command(shell, host, "exec", program).Output()
			}
			mu.Lock()
			defer mu.Unlock()
			printed.Write(text)
			fails = append(fails, err)
		})
	}
	all.Wait()
	_, err := os.Stdout.Write(printed.Bytes())
	return errors.Join(append(fails, err)...)
}

// Bounds of ratios between a session by the program ssh and one by native ssh.
const (
	minAgainstDefault = 3.0  // lower bound of the time of ssh, divided by that of native ssh
	minAgainstCheap   = 2.0  // lower bound of the time of ssh with curve25519, divided by that of native ssh
	maxShareOfCPU     = 0.25 // upper bound of the CPU time of native ssh, divided by that of ssh
)

// SSH compares a session to the sshd of HOST by native ssh, by the program ssh as it is configured, and by ssh with
// curve25519, a fast key exchange. It measures the wall time of each, and the CPU time of the client as the mean of
// all rounds.
func SSH(args []string) error {
	var rounds int
	var host string
	if err := figure.Parse(args, &rounds, &host); err != nil {
		return err
	}
	cpu := map[string]time.Duration{}
	native := figure.Timed("native", func() error {
		before := figure.CPU(unix.RUSAGE_SELF)
		_, err := session(host, "true")
		cpu["native"] += figure.CPU(unix.RUSAGE_SELF) - before
		return err
	})
	login := func(name string, more ...string) *figure.Way {
		argv := append([]string{"-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes"}, more...)
		return figure.Timed(name, func() error {
			r, err := figure.Run(patience, exec.Command("ssh", append(argv, "--", host, "true")...))
			cpu[name] += r.CPU
			return err
		})
	}
	plain, cheap := login("ssh"), login("ssh with curve25519", "-o", "KexAlgorithms=curve25519-sha256")
	if err := figure.Measure(0, rounds, native, plain, cheap); err != nil {
		return err
	}
	version, _ := exec.Command("ssh", "-V").CombinedOutput() // for the user
	fmt.Println(figure.Machine())
	fmt.Printf("one ssh hop, %d rounds turn by turn, %s\n", rounds, strings.TrimSpace(string(version)))
	for _, w := range []*figure.Way{native, plain, cheap} {
		fmt.Printf("%-20s median %6.1f ms (least %.1f), client CPU %5.1f ms\n", w.Name, w.Median(),
			slices.Min(w.Values), figure.Milliseconds(cpu[w.Name])/float64(rounds))
	}
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtLeast("wall, ssh / native", plain.Over(native), minAgainstDefault)
	bounds.AtLeast("wall, ssh with curve25519 / native", cheap.Over(native), minAgainstCheap)
	bounds.AtMost("client CPU, native / ssh", float64(cpu["native"])/float64(cpu["ssh"]), maxShareOfCPU)
	return bounds.Err()
}
