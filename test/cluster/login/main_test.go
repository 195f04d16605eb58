//go:build cluster || soak

// Package login holds native ssh against the program ssh: the same
// configuration, keys and known hosts must lead to the same end with both.
package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ibrun/bootstrap/remote/native"
)

// probeVariable makes this test's binary a native ssh client. It reads logins from standard input, each as the words
// that ssh would take, and answers with what each printed on standard output and standard error.
const probeVariable = "IBRUN_TEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(probeVariable) == "" {
		_ = flag.Set("test.parallel", "8") // a login mostly waits; -parallel still counts
		os.Exit(m.Run())
	}
	if err := probeAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func probeAll() error {
	var logins [][]string
	if err := json.NewDecoder(os.Stdin).Decode(&logins); err != nil {
		return err
	}
	system, err := native.Here()
	if err != nil {
		return err
	}
	said := make([][2]string, len(logins))
	var work sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, words := range logins {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			said[i][0], said[i][1] = probe(system, words)
		})
	}
	work.Wait()
	return json.NewEncoder(os.Stdout).Encode(said)
}

// What the probe prints before the reason.
const (
	toExec   = "left to ssh: "
	refused  = "refused in "
	sshdHere = "echo $USER $SSH_CONNECTION"
)

func probe(system native.System, args []string) (stdout, stderr string) {
	last := len(args) - 1
	cfg, err := native.ReadConfig(system, args[last], "", args[:last])
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var s *native.Session
		var printed bytes.Buffer
		if s, err = native.Start(ctx, cfg, sshdHere, &printed, func(native.Phase) {}); err == nil {
			out := new(bytes.Buffer)
			_, _ = out.ReadFrom(s.Stdout)
			<-s.Done()
			return out.String(), printed.String()
		}
	}
	var unfit *native.Unfit
	var e *native.Error
	switch {
	case errors.As(err, &unfit):
		return "", fmt.Sprintf("%s%v\n", toExec, err)
	case errors.As(err, &e):
		return "", fmt.Sprintf("%s%s: %s; %s\n", refused, e.Phase, e.Cause, e.Hint)
	}
	return "", err.Error()
}

// verdict puts what an attempt printed in a word or two: who reached what, or
// what stopped it.
func verdict(stdout, stderr string) string {
	if w := strings.Fields(stdout); len(w) == 5 {
		return fmt.Sprintf("%s@%s:%s", w[0], w[3], w[4])
	}
	for _, c := range []struct{ text, verdict string }{
		{toExec, "exec"},
		{"Host key verification failed", "host key"}, {"host key verification failed", "host key"},
		{"Permission denied", "denied"}, {"permission denied", "denied"}, {"oo many authentication failures", "denied"},
		{"onnection refused", "no connection"},
	} {
		if strings.Contains(stderr, c.text) {
			return c.verdict
		}
	}
	return "configuration"
}
