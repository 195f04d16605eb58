package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/bootstrap/tree"
	"ibrun/internal/sshconfig"
)

const (
	floorRole = "floor"
	// lagPrefix begins the name of a link to this program by which it is the rsh
	// stand-in with a latency: hydra gives its remote shell no arguments of ours.
	lagPrefix = "lag-"
)

// lag waits, and becomes the rsh stand-in.
func lag(delay string, args []string) error {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	<-time.After(d)
	return syscall.Exec(standIn, append([]string{"vrsh"}, args...), os.Environ())
}

// standIn is where each host of a virtual cluster has it (cluster.VRSH).
const standIn = "/run/vcluster/vrsh"

// floor is what no launcher can be below: a session to each node that runs the
// program, from one place, with a window of them at a time. How is "native", or
// the path of a remote shell.
func floor(how, count, program string) error {
	nodes, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	system, err := sshconfig.Here()
	if err != nil {
		return err
	}
	var mu sync.Mutex // of what follows
	var printed bytes.Buffer
	var fails []error
	room := make(chan struct{}, tree.Window)
	var all sync.WaitGroup
	for i := range nodes {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			text, err := session(system, how, fmt.Sprintf("node%04d", i+1), program)
			mu.Lock()
			defer mu.Unlock()
			printed.Write(text)
			fails = append(fails, err)
		})
	}
	all.Wait()
	_, err = os.Stdout.Write(printed.Bytes())
	return errors.Join(append(fails, err)...)
}

func session(system sshconfig.System, how, host, program string) ([]byte, error) {
	if how != "native" {
		return exec.Command(how, host, "exec", program).Output()
	}
	cfg, err := sshconfig.Resolve(system, host, "", nil)
	if err != nil {
		return nil, err
	}
	s, err := native.Start(context.Background(), cfg, "exec "+program, io.Discard, func(native.Phase) {})
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(s.Stdout)
	<-s.Done()
	return text, err
}
