//go:build cluster

package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// TestSizes checks limits on the memory of each agent and each reaper, in jobs of 1 node and of 16 nodes with 16 ranks
// per node, and on the size of the binary.
//
// An agent may have 5 MiB of anonymous memory. Its peak may be 16 MiB, including the pages of the binary, which are
// shared with the page cache. A reaper on x86-64 does not start the Go runtime. It may have 64 KiB of anonymous memory.
// Its peak may be 2.25 MiB, because the kernel maps 2 MiB at once if the file is in large pages. The binary may have
// 14 MB. Compressed with gzip, as ibrun sends it to nodes that have gzip, it may have 6 MB. On other machines a
// reaper is a Go process: 5 MiB of anonymous memory and a peak of 8 MiB.
func TestSizes(t *testing.T) {
	text, err := os.ReadFile(launch.Program)
	require.NoError(t, err)
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	require.NoError(t, err)
	_, err = zip.Write(text)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	t.Logf("the binary has %d bytes, %d compressed", len(text), packed.Len())
	require.LessOrEqual(t, len(text), 14_000_000)
	require.LessOrEqual(t, packed.Len(), 6_000_000)
	most := map[string]int{":agent": 16 << 10, ":reaper": 8 << 10} // KiB
	own := map[string]int{":agent": 5 << 10, ":reaper": 5 << 10}
	if runtime.GOARCH == "amd64" {
		most[":reaper"], own[":reaper"] = 2<<10+256, 64 // without the Go runtime
	}
	for _, nodes := range []int{1, 16} {
		cmd := launch.Command(t, "-ppn", "16", "--launcher", "local", "--hosts", fmt.Sprintf("h[01-%02d]", nodes), "sleep",
			"1000")
		cmd.Env = append(os.Environ(), mark(t))
		require.NoError(t, cmd.Start())
		ranks := 16 * nodes
		waitfor.Require(t, "all ranks run", func() bool { return len(marked(mark(t))) == 1+2*nodes+ranks })
		alone := func() bool { return len(agents(":agent")) == nodes } // a rank is a copy of its agent until exec
		waitfor.Require(t, "each rank runs its program", alone)
		for _, role := range []string{":agent", ":reaper"} {
			pids := agents(role)
			require.Len(t, pids, nodes)
			for _, pid := range pids {
				require.LessOrEqual(t, memory(t, pid, "RssAnon"), own[role], "KiB of %s in a job of %d", role, ranks)
				require.LessOrEqual(t, memory(t, pid, "VmHWM"), most[role], "KiB of %s in a job of %d", role, ranks)
			}
		}
		for _, role := range []string{":agent", ":reaper"} {
			pid := agents(role)[0]
			t.Logf("%d nodes: %s has %d KiB of its own, its peak is %d KiB", nodes, role, memory(t, pid, "RssAnon"),
				memory(t, pid, "VmHWM"))
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
	}
}

// TestSlowReader reads 256 MiB of the endless output of a rank with pauses. The peak memory of ibrun and of each agent
// must be at most 64 MiB. After that the test stops reading, and SIGINT must still end the job.
func TestSlowReader(t *testing.T) {
	const size, pieces, most = 256 << 20, 256, 64 << 10 // bytes, reads, KiB
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := launch.Command(t, "--launcher", "local", "--hosts", "a,b,c,d", "--tree", "chain", "-n", "4", "sh", "-c",
		"[ $RANK = 3 ] && exec cat /dev/zero; exec sleep 1000")
	cmd.Env = append(os.Environ(), mark(t))
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	for range pieces {
		_, err = io.CopyN(io.Discard, r, size/pieces)
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // a slow reader
	}
	pids := slices.DeleteFunc(agents(":agent"), func(pid int) bool {
		return !slices.Contains(marked(mark(t)), strconv.Itoa(pid))
	})
	require.Len(t, pids, 4)
	for _, pid := range append(pids, cmd.Process.Pid) {
		require.LessOrEqual(t, memory(t, pid, "VmHWM"), most, "KiB")
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
}

// memory returns the value of a field of /proc/PID/status in KiB, such as VmHWM (proc_pid_status(5)).
func memory(t *testing.T, pid int, field string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), field+":")
	require.True(t, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
