package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/sshconfig"
	"ibrun/test/bench/hosts"
)

// floor is what no launcher can be below: a session to each node that runs the program, from one
// place, with a window of them at a time. How is "native", or the path of a remote shell.
func floor(how, count, atATime, program string) error {
	nodes, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	window, err := strconv.Atoi(atATime)
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
	room := make(chan struct{}, window)
	var all sync.WaitGroup
	for _, name := range hosts.Names(nodes) {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			text, err := session(system, how, name, program)
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
