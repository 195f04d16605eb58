package proc

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process that is held is stopped in its program, nobody traces it, and it has its limits. It
// runs when it is continued, and dies when it is killed. Others start and end meanwhile.
func TestHold(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	c := Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit $(ulimit -f)"}, Env: os.Environ(), Setpgid: true,
		Files: []*os.File{null, null, null}, Hold: true, Most: waitfor.Deadline,
		Limits: []RLimit{{Resource: unix.RLIMIT_FSIZE, Soft: 37 * 512, Hard: 37 * 512}}}
	var all []*Process
	for range 3 {
		p, err := Start(c)
		require.NoError(t, err)
		all = append(all, p)
	}
	other := c
	other.Hold = false
	p, err := Start(other)
	require.NoError(t, err)
	<-p.Done()
	require.Equal(t, 37, p.Status().ExitStatus())
	for _, p := range all {
		require.False(t, p.Ended())
		var status []byte
		waitfor.Require(t, "it stops before it runs anything", func() bool {
			status, err = os.ReadFile("/proc/" + strconv.Itoa(p.Pid()) + "/status")
			return err != nil || strings.Contains(string(status), "State:\tT (stopped)")
		})
		require.NoError(t, err)
		require.Contains(t, string(status), "TracerPid:\t0\n")
		maps, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid()) + "/maps")
		require.NoError(t, err)
		require.False(t, strings.Contains(string(maps), "libc.so"), "it has run nothing:\n%s", maps)
	}
	all[0].Signal(syscall.SIGCONT)
	<-all[0].Done()
	require.Equal(t, 37, all[0].Status().ExitStatus())
	for _, p := range all[1:] {
		p.SignalGroup(syscall.SIGKILL)
		<-p.Done()
		require.Equal(t, syscall.SIGKILL, p.Status().Signal())
	}
	c.Path = "/nowhere"
	_, err = Start(c)
	require.ErrorIs(t, err, syscall.ENOENT)
}
