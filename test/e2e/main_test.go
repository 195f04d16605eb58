// Package e2e runs the real binary on this machine: real processes, real
// pipes, the tree of local agents. Nodes with sshd are package test/ssh's.
package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
)

// program is ibrun as it ships, built once; its path is unique to this run, so
// that what is left of a job can be found by it.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // those that are parallel wait, but for one
	os.Exit(product.Run(m, &program))
}

// outcome is what a finished ibrun showed.
type outcome struct {
	code   int
	stdout []byte
	stderr string // but for what it was waiting for
}

// patience bounds every job of these tests.
const patience = 3 * time.Minute

// command makes an ibrun that is killed when the test's patience ends.
func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = t.TempDir()
	return c
}

func finish(t *testing.T, c *exec.Cmd) outcome {
	t.Helper()
	var out, err bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	c.Stderr = &err
	fail := c.Run()
	if c.ProcessState == nil {
		require.NoError(t, fail)
	}
	return outcome{c.ProcessState.ExitCode(), out.Bytes(), product.Complaints(err.String())}
}

func ibrun(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, args...))
}

// mark is a variable by which the processes of one test are known.
func mark(t *testing.T) string { return fmt.Sprintf("E2E_MARK=%s.%d", t.Name(), os.Getpid()) }

// marked are the live processes that have a variable in their environment.
func marked(entry string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && bytes.Contains(append([]byte{0}, b...), []byte("\x00"+entry+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// left describes the live processes that have a variable in their environment, or its
// entry among their arguments. Each thread is asked: the first one tells nothing any more
// once it has ended.
func left(entry string) (texts []string) {
	last := ""
	threads, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, thread := range threads {
		dir := filepath.Dir(filepath.Dir(thread))
		environ, _ := os.ReadFile(thread + "/environ")
		args, _ := os.ReadFile(thread + "/cmdline")
		words := strings.Split(string(environ)+"\x00"+string(args), "\x00")
		if dir != last && slices.Contains(words, entry) {
			texts = append(texts, look(dir, args))
			last = dir
		}
	}
	return texts
}

// look describes a process as its directory in /proc does.
func look(dir string, args []byte) string {
	text, err := os.ReadFile(dir + "/stat")
	status := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third of proc(5) on
	if err != nil || len(status) < 20 {
		return filepath.Base(dir) + ", which has ended by now"
	}
	file, _ := os.ReadFile("/proc/uptime")
	uptime, _, _ := strings.Cut(string(file), " ")
	const form = "%s, child of %s, state %s, %s threads, begun at %s0 ms of %s s: %q"
	return fmt.Sprintf(form, filepath.Base(dir), status[1], status[0], status[17], status[19], uptime, args)
}

// agents are the live processes of one role of this run's binary.
func agents(role string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(b), "\x00"+role+"\x00") {
			continue
		}
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(f), "exe")); err == nil && exe == program {
			var pid int
			_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(f)), "%d", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}
