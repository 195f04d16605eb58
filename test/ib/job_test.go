//go:build ib

package ib

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/rdmavm/inside"
)

// jobStats holds a part of the statistics that ibrun --stats=json prints.
type jobStats struct {
	Mode, Fabric string
	Ranks, Nodes int
	Sums         map[string]int
}

// runJob runs ibrun with --stats=json and these arguments, and returns its standard output and the statistics. The test
// fails if the job does.
func runJob(t *testing.T, args ...string) (stdout string, stats jobStats) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the virtual machine has one slow CPU for all ranks
	defer cancel()
	cmd := exec.CommandContext(ctx, inside.Program("ibrun"), append([]string{"--launcher", "local", "--launch-timeout",
		"2m", "--stats=json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%v: %s%s", args, out.String(), errs.String())
	for line := range strings.Lines(errs.String()) {
		if line = strings.TrimPrefix(line, "ibrun: "); strings.HasPrefix(line, "{") {
			require.NoError(t, json.Unmarshal([]byte(line), &stats))
		}
	}
	require.NotZero(t, stats.Ranks, errs.String())
	t.Logf("%v: %s%v", args, out.String(), stats.Sums)
	return out.String(), stats
}

// TestStencil runs a stencil with eight ranks on one device. Ranks on different nodes exchange long messages, for which
// they open streams. Each rank must have exactly one queue pair for each peer on another node. The kernel must free all
// RDMA objects when the ranks have ended.
func TestStencil(t *testing.T) {
	inside.Require(t)
	before := resources(t)
	_, stats := runJob(t, "-n", "8", "--hosts", "a,b,c,d", "--fabric", "ib", "--lazy", inside.Program("stencil3d"),
		"-steps", "3", "-face", "20000")
	off := stats.Sums["peers"] - stats.Sums["local_peers"]
	require.Equal(t, off, stats.Sums["stream_queue_pairs"])
	require.Equal(t, 8, stats.Sums["datagram_queue_pairs"])
	require.InDelta(t, 2*8, stats.Sums["spare_queue_pairs"], 8, "about two for each rank, made in the background")
	requireFreed(t, before)
}

// TestServiceLevelOfPath runs a job with --sl path, which asks the subnet manager for the service level. Soft-RoCE has
// no subnet manager, and the job must still succeed.
func TestServiceLevelOfPath(t *testing.T) {
	inside.Require(t)
	out, _ := runJob(t, "-n", "2", "--hosts", "a,b", "--fabric", "ib", "--sl", "path", "--lazy",
		inside.Program("ring"), "-rounds", "2", "-bytes", "20000")
	require.NotEmpty(t, out)
}

// TestMixed runs alltoall on four nodes, of which b and c have no InfiniBand port (no IBRUN_HCA). Only the ranks on the
// two nodes with a port may open it. The job needs --hca rxe0, because --fabric auto does not select ports of Soft-RoCE
// by itself.
func TestMixed(t *testing.T) {
	inside.Require(t)
	without := `case $IBRUN_HOST in b|c) unset IBRUN_HCA;; esac; exec "$0"`
	out, stats := runJob(t, "-n", "4", "--hosts", "a,b,c,d", "--fabric", "auto", "--hca", "rxe0", "--lazy", "sh", "-c",
		without, inside.Program("alltoall"))
	require.NotEmpty(t, out)
	require.Equal(t, 4*3, stats.Sums["peers"]-stats.Sums["local_peers"])
	require.Equal(t, 2, stats.Sums["datagram_queue_pairs"])
}

// TestTwoDevices requires that a job with --hca rxe0,rxe1 uses both devices: each must have received packets.
func TestTwoDevices(t *testing.T) {
	inside.Require(t)
	before := []int{received(t, "rxe0"), received(t, "rxe1")}
	runJob(t, "-n", "4", "--hosts", "a,b", "--fabric", "ib", "--lazy", "--hca", "rxe0,rxe1",
		inside.Program("alltoall"))
	for i, device := range []string{"rxe0", "rxe1"} {
		require.Greater(t, received(t, device), before[i], device)
	}
}

// TestSoftwareIsReported requires that ibrun -v reports that --fabric auto does not use a port of Soft-RoCE, because
// this device is made in software.
func TestSoftwareIsReported(t *testing.T) {
	inside.Require(t)
	cmd := exec.Command(inside.Program("ibrun"), "--launcher", "local", "-v", "-n", "2", "--hosts", "a,b", "--fabric",
		"auto", inside.Program("ring"))
	out, _ := cmd.CombinedOutput() // the job may fail, because the virtual machine may have no address for UDP
	require.Contains(t, string(out), "port rxe0:1 is active, but it is made in software")
}

// TestDenied runs a job as a user who must not open the device files. libibverbs does not list such devices at all.
// ibrun must still report "permission denied".
func TestDenied(t *testing.T) {
	inside.Require(t)
	files, err := filepath.Glob("/dev/infiniband/uverbs*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		before, err := os.Stat(f)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(f, 0o600))
		defer os.Chmod(f, before.Mode().Perm())
	}
	dir, err := os.MkdirTemp("", "programs") // for copies, because only root can read inside.Program
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"ibrun", "ring"} {
		text, err := os.ReadFile(inside.Program(name))
		require.NoError(t, err)
		require.NoError(t, executable.Write(filepath.Join(dir, name), text))
	}
	cmd := exec.Command(filepath.Join(dir, "ibrun"), "--launcher", "local", "-n", "2", "--hosts", "a,b", "--fabric",
		"ib", filepath.Join(dir, "ring"))
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "HOME=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 1", string(out))
	require.Regexp(t, `ib: making a context of rxe\d: permission denied: ls -l /dev/infiniband`, string(out))
}
