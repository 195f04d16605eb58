// Package e2e runs the real binary on this machine: real processes, real
// pipes, the tree of local agents. Nodes with sshd are package test/ssh's.
package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
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
	if len(os.Args) > 1 && os.Args[1] == ":digest" {
		fmt.Println(digest(os.Args[2:], os.Environ()))
		return
	}
	if len(os.Args) == 5 && os.Args[1] == ":lines" {
		printLines(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // those that are parallel wait, but for one
	os.Exit(product.Run(m, &program))
}

// digest names arguments and the variables whose names begin with E2E_.
func digest(args, env []string) string {
	h := sha256.New()
	for _, a := range args {
		fmt.Fprintf(h, "%d:%s", len(a), a)
	}
	for _, e := range env {
		if strings.HasPrefix(e, "E2E_") {
			fmt.Fprintf(h, "%d:%s", len(e), e)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// outcome is what a finished ibrun showed.
type outcome struct {
	code   int
	stdout []byte
	stderr string // but for what it was waiting for
	took   time.Duration
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
	began := time.Now()
	fail := c.Run()
	if c.ProcessState == nil {
		require.NoError(t, fail)
	}
	return outcome{c.ProcessState.ExitCode(), out.Bytes(), product.Complaints(err.String()), time.Since(began)}
}

func ibrun(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, args...))
}

// eventually waits for something that is about to happen.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, within, 10*time.Millisecond, what)
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

// noise is a stream of n bytes that do not repeat, and their digest.
func noise(n int64) (io.Reader, func() string) {
	h := sha256.New()
	r := io.TeeReader(io.LimitReader(&counter{}, n), h)
	return r, func() string { return fmt.Sprintf("%x", h.Sum(nil)) }
}

// counter is a cheap stream in which no two blocks of 4 KiB are the same.
type counter struct {
	block [4096]byte
	n     uint64
	rest  []byte
}

func (c *counter) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		c.n++
		binary.LittleEndian.PutUint64(c.block[c.n*8%4096:], c.n)
		c.rest = c.block[:]
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
