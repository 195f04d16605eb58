//go:build amd64

package e2e

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// debugger reads and writes variables of a running ibrun, as parallel debuggers do that use the MPIR interface.
type debugger struct {
	t    *testing.T
	mem  *os.File
	vars map[string]int64
}

func attach(t *testing.T, pid int) debugger {
	d := debugger{t: t, vars: map[string]int64{}}
	file, err := elf.Open(launch.Program)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	for _, s := range symbols {
		d.vars[s.Name] = int64(s.Value)
	}
	d.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { d.mem.Close() })
	return d
}

func (d debugger) read(at int64, n int) []byte {
	d.t.Helper()
	b := make([]byte, n)
	_, err := d.mem.ReadAt(b, at)
	if err != io.EOF {
		require.NoError(d.t, err)
	}
	return b
}

func (d debugger) number(name string) int {
	return int(binary.LittleEndian.Uint32(d.read(d.vars[name], 4)))
}

func (d debugger) pointer(at int64) int64 { return int64(binary.LittleEndian.Uint64(d.read(at, 8))) }

func (d debugger) text(at int64) string { return unix.ByteSliceToString(d.read(at, 64)) }

// table returns the rows of MPIR_proctable, which has one row for each rank, in the form "HOST PID". It requires that
// each row names a shell, a path with /sh, as the program.
func (d debugger) table() (rows []string) {
	at := d.pointer(d.vars["MPIR_proctable"])
	for i := range int64(d.number("MPIR_proctable_size")) {
		pid := int(binary.LittleEndian.Uint32(d.read(at+24*i+16, 4)))
		require.Contains(d.t, d.text(d.pointer(at+24*i+8)), "/sh")
		rows = append(rows, d.text(d.pointer(at+24*i))+" "+strconv.Itoa(pid))
	}
	return rows
}

// TestMPIRLater attaches a debugger to a running job. Before that, MPIR_proctable must be empty. When the debugger sets
// MPIR_being_debugged, ibrun must fill the table. After the debugger has reset that variable, ibrun ctl mpir must make
// a new table.
func TestMPIRLater(t *testing.T) {
	r := launch.Sleepers(t)
	d := attach(t, r.Cmd.Process.Pid)
	require.Zero(t, d.number("MPIR_proctable_size"))
	require.Zero(t, d.number("MPIR_debug_state"))
	says := func(being byte) {
		_, err := d.mem.WriteAt([]byte{being, 0, 0, 0}, d.vars["MPIR_being_debugged"])
		require.NoError(t, err)
	}
	says(1)
	waitfor.Require(t, "the job has a table", func() bool { return d.number("MPIR_debug_state") == 1 })
	want := []string{}
	for rank, host := range []string{"a", "a", "b", "b", "c", "c"} {
		want = append(want, host+" "+pidOf(t, r, rank))
	}
	require.Equal(t, want, d.table())
	says(0)
	first := d.pointer(d.vars["MPIR_proctable"])
	got := r.Ctl("mpir")
	require.Equal(t, fmt.Sprintf("process %d has a table of 6 ranks for debuggers\n", r.Cmd.Process.Pid),
		got.Stdout, got.Stderr)
	require.NotEqual(t, first, d.pointer(d.vars["MPIR_proctable"]))
	require.Equal(t, want, d.table())
	r.End()
}

// pidOf returns the process id of a rank.
func pidOf(t *testing.T, r *launch.Job, rank int) string {
	t.Helper()
	row := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d +\w+ +(\d+) `, rank))
	found := row.FindStringSubmatch(r.Until("RANK", "ranks"))
	require.NotNil(t, found)
	return found[1]
}
