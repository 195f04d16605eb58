// Package e2e tests the binary on this machine, with real processes and pipes and a tree of local agents. Package
// test/cluster/ssh tests it on nodes with sshd.
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
	_ = flag.Set("test.parallel", "6") // Run more tests at a time than there are cores, because they mostly wait.
	os.Exit(product.Run(m, &launch.Program))
}

// mark returns an environment variable, as NAME=VALUE, that identifies the processes of one test.
func mark(t *testing.T) string { return fmt.Sprintf("E2E_MARK=%s.%d", t.Name(), os.Getpid()) }

// marked returns the ids of the live processes whose environment contains entry, as NAME=VALUE.
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

// agents returns the ids of the live processes that run this test's binary with the argument role, such as :agent.
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
