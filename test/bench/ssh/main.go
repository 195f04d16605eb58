// Command ssh measures what one ssh hop costs: native ssh, the user's ssh as
// it is, and ssh with a cheap key exchange, turn by turn against one sshd. Run
// on the front of a virtual cluster: bench-ssh ROUNDS HOST.
package main

import (
	"bufio"
	"context"
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
)

// The bounds of the project: native ssh against ssh as it is, against ssh with
// curve25519, and its share of the client's CPU time.
const (
	againstDefault = 3.0
	againstCheap   = 2.0
	shareOfCPU     = 0.25
)

func main() {
	err := fmt.Errorf("usage: bench-ssh ROUNDS HOST")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "client":
		err = client(os.Args[2])
	case len(os.Args) == 3:
		err = compare(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// client makes a session for each line on its standard input, and answers with
// the time it took in microseconds. Its CPU time is the sessions', and little else.
func client(host string) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		began := time.Now()
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
		fmt.Println(time.Since(began).Microseconds())
	}
	return nil
}

// series is what was measured of one way.
type series struct {
	name string
	wall []time.Duration
	cpu  time.Duration // of all rounds
}

func (s *series) each() time.Duration { return s.cpu / time.Duration(len(s.wall)) }

func compare(times, host string) error {
	rounds, err := strconv.Atoi(times)
	if err != nil || rounds < 1 {
		return fmt.Errorf("%s rounds", times)
	}
	ours := &series{name: "native"}
	theirs := []*series{{name: "ssh"}, {name: "ssh, curve25519"}}
	cmd := exec.Command("/proc/self/exe", "client", host)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewScanner(out)
	for range rounds {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return err
		}
		if !answers.Scan() {
			return fmt.Errorf("the native client ended")
		}
		us, err := strconv.Atoi(answers.Text())
		if err != nil {
			return err
		}
		ours.wall = append(ours.wall, time.Duration(us)*time.Microsecond)
		for i, more := range [][]string{nil, {"-o", "KexAlgorithms=curve25519-sha256"}} {
			if err := theirs[i].login(host, more); err != nil {
				return err
			}
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		return err
	}
	ours.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return report(ours, theirs)
}

// login is one login by the program ssh.
func (s *series) login(host string, more []string) error {
	args := append([]string{"-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes"}, more...)
	began := time.Now()
	cmd := exec.Command("ssh", append(args, "--", host, "true")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ssh: %w: %s", err, out)
	}
	s.wall = append(s.wall, time.Since(began))
	s.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return nil
}

func report(ours *series, theirs []*series) error {
	version, _ := exec.Command("ssh", "-V").CombinedOutput() // for the user
	fmt.Println(figure.Machine())
	fmt.Printf("one ssh hop, %d rounds turn by turn, %s\n", len(ours.wall), strings.TrimSpace(string(version)))
	for _, s := range append([]*series{ours}, theirs...) {
		fmt.Printf("%-16s median %6.1f ms (least %.1f), client CPU %5.1f ms\n", s.name, ms(figure.Median(s.wall)), ms(slices.Min(s.wall)), ms(s.each()))
	}
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtLeast("wall, ssh / native", ms(figure.Median(theirs[0].wall))/ms(figure.Median(ours.wall)), againstDefault)
	bounds.AtLeast("wall, ssh with curve25519 / native", ms(figure.Median(theirs[1].wall))/ms(figure.Median(ours.wall)), againstCheap)
	bounds.AtMost("client CPU, native / ssh", ms(ours.each())/ms(theirs[0].each()), shareOfCPU)
	fmt.Printf("client CPU, native / ssh with curve25519: %.2f\n", ms(ours.each())/ms(theirs[1].each()))
	return bounds.Err()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
