// Package e2e runs the real binary on this machine: real processes, real
// pipes, the tree of local agents. Nodes with sshd are package test/ssh's.
package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ibrun/test/launch"
	"ibrun/test/product"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // those that are parallel wait, but for one
	os.Exit(product.Run(m, &launch.Program))
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

// agents are the live processes of one role of this run's binary.
func agents(role string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(b), "\x00"+role+"\x00") {
			continue
		}
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(f), "exe")); err == nil && exe == launch.Program {
			var pid int
			_, _ = fmt.Sscanf(filepath.Base(filepath.Dir(f)), "%d", &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}
