//go:build cluster || soak

// Package login holds native ssh against the program ssh: the same
// configuration, keys and known hosts must lead to the same end with both.
package login

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/sshconfig"
)

// probeVariable makes this test's binary a native ssh client: options, host,
// command. Its exit code and standard error tell what became of it.
const probeVariable = "IBRUN_TEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(probeVariable) == "" {
		_ = flag.Set("test.parallel", "8") // a login mostly waits; -parallel still counts
		os.Exit(m.Run())
	}
	os.Exit(probe(os.Args[1:]))
}

// What the probe prints before the reason.
const (
	toExec   = "left to ssh: "
	refused  = "refused in "
	sshdHere = "echo $USER $SSH_CONNECTION"
)

func probe(args []string) int {
	system, err := sshconfig.Here()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	last := len(args) - 1
	cfg, err := sshconfig.Resolve(system, args[last], "", args[:last])
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var s *native.Session
		var printed bytes.Buffer
		if s, err = native.Start(ctx, cfg, sshdHere, &printed, func(native.Phase) {}); err == nil {
			out := new(bytes.Buffer)
			_, _ = out.ReadFrom(s.Stdout)
			<-s.Done()
			_, _ = os.Stdout.Write(out.Bytes())
			_, _ = os.Stderr.Write(printed.Bytes())
			return s.End().Code
		}
	}
	var unfit *sshconfig.Unfit
	var e *native.Error
	switch {
	case errors.As(err, &unfit):
		fmt.Fprintf(os.Stderr, "%s%v\n", toExec, err)
	case errors.As(err, &e):
		fmt.Fprintf(os.Stderr, "%s%s: %s; %s\n", refused, e.Phase, e.Cause, e.Hint)
	default:
		fmt.Fprintf(os.Stderr, "%v\n", err)
	}
	return 255
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
