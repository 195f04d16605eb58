// Package ssh measures what one ssh hop costs: native ssh, the user's ssh as it is, and ssh with a
// cheap key exchange, turn by turn against one sshd. It runs on the front of a virtual cluster:
//
//	bench ssh ROUNDS HOST
//
// It refuses to know launches: package launch measures those.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/sshconfig"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/worker"
)

// The bounds of the project: native ssh against ssh as it is, against ssh with curve25519, and its
// share of the client's CPU time.
const (
	againstDefault = 3.0
	againstCheap   = 2.0
	shareOfCPU     = 0.25
)

const clientRole = "client"

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == clientRole:
		return client(args[1])
	case len(args) == 2:
		return compare(args[0], args[1])
	}
	return errors.New("usage: bench ssh ROUNDS HOST")
}

// client makes a session for each line on its standard input, and answers with the time it took in
// microseconds. Its CPU time is the sessions', and little else.
func client(host string) error {
	return worker.Serve(func(string) error {
		took, err := figure.Time(func() error { return session(host) })
		if err == nil {
			_, err = fmt.Println(took.Microseconds())
		}
		return err
	})
}

// session is one login by native ssh.
func session(host string) error {
	system, err := sshconfig.Here()
	if err != nil {
		return err
	}
	cfg, err := sshconfig.Resolve(system, host, "", nil)
	if err != nil {
		return err
	}
	s, err := native.Start(context.Background(), cfg, "true", io.Discard, func(native.Phase) {})
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, s.Stdout); err != nil {
		return err
	}
	<-s.Done()
	if end := s.End(); end != (native.End{}) {
		return fmt.Errorf("the session ended with %v", end)
	}
	return nil
}

// series is what was measured of one way.
type series struct {
	name string
	wall []time.Duration
	cpu  time.Duration // of all rounds
}

// each is the CPU time of a round, and median the wall time of one, in milliseconds.
func (s *series) each() float64   { return figure.Milliseconds(s.cpu / time.Duration(len(s.wall))) }
func (s *series) median() float64 { return figure.Milliseconds(figure.Median(s.wall)) }

func compare(times, host string) error {
	rounds, err := figure.Rounds(times)
	if err != nil {
		return err
	}
	native, plain, cheap := &series{name: "native"}, &series{name: "ssh"}, &series{name: "ssh, curve25519"}
	client, err := worker.Start("the native client", worker.Self, "ssh", clientRole, host)
	if err != nil {
		return err
	}
	if err := figure.Turns(rounds,
		func() error { return native.ask(client) },
		func() error { return plain.login(host) },
		func() error { return cheap.login(host, "-o", "KexAlgorithms=curve25519-sha256") },
	); err != nil {
		return err
	}
	if native.cpu, err = client.Close(); err != nil {
		return err
	}
	return report(native, plain, cheap)
}

// ask is one session of the native client.
func (s *series) ask(client *worker.Worker) error {
	answer, err := client.Ask("")
	if err != nil {
		return err
	}
	us, err := strconv.Atoi(answer)
	s.wall = append(s.wall, time.Duration(us)*time.Microsecond)
	return err
}

// login is one login by the program ssh.
func (s *series) login(host string, more ...string) error {
	args := append([]string{"-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes"}, more...)
	cmd := exec.Command("ssh", append(args, "--", host, "true")...)
	var out []byte
	took, err := figure.Time(func() (err error) { out, err = cmd.CombinedOutput(); return err })
	if err != nil {
		return fmt.Errorf("ssh: %w: %s", err, out)
	}
	s.wall = append(s.wall, took)
	s.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return nil
}

func report(native, plain, cheap *series) error {
	version, _ := exec.Command("ssh", "-V").CombinedOutput() // for the user
	fmt.Println(figure.Machine())
	fmt.Printf("one ssh hop, %d rounds turn by turn, %s\n", len(native.wall), strings.TrimSpace(string(version)))
	for _, s := range []*series{native, plain, cheap} {
		fmt.Printf("%-16s median %6.1f ms (least %.1f), client CPU %5.1f ms\n", s.name, s.median(),
			figure.Milliseconds(slices.Min(s.wall)), s.each())
	}
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtLeast("wall, ssh / native", plain.median()/native.median(), againstDefault)
	bounds.AtLeast("wall, ssh with curve25519 / native", cheap.median()/native.median(), againstCheap)
	bounds.AtMost("client CPU, native / ssh", native.each()/plain.each(), shareOfCPU)
	fmt.Printf("client CPU, native / ssh with curve25519: %.2f\n", native.each()/cheap.each())
	return bounds.Err()
}
