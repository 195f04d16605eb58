package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/charm"
	"ibrun/internal/skip"
	"ibrun/test/product"
)

// netlrts is a client of charmrun's protocol, built once.
var netlrts = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(program), "netlrts")
	return path, product.Program(path, "ibrun/test/netlrts")
})

func netlrtsProgram(t *testing.T) string {
	path, err := netlrts()
	require.NoError(t, err)
	return path
}

func sortedLines(out []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return lines
}

// A program of Charm++'s layer netlrts starts without charmrun, in each generation of the table and
// over agents of any tree: what it prints comes once, before and after it has its table.
func TestNetlrts(t *testing.T) {
	client := netlrtsProgram(t)
	for _, gen := range []string{"65", "67", "69"} {
		o := ibrun(t, "--launcher", "local", "--hosts", "a:2,b:2,c:2,d:2", "--tree", "kary:2", client, "-gen", gen,
			"+ppn", "2", "early", "barrier", "print:hi", "barrier0", "barrier", "ring", "0/table", "1/printerr:x",
			"sync:s", "end:0")
		require.Equal(t, 0, o.code, "%s: %s", gen, o.stderr)
		require.Equal(t, "1 complains x\n", o.stderr)
		lines := sortedLines(o.stdout)
		require.Len(t, lines, 25, "%s", o.stdout)
		for rank := range 8 {
			require.Contains(t, lines, fmt.Sprintf("early %d", rank))
			require.Contains(t, lines, fmt.Sprintf("%d says hi", rank))
		}
		host := "2/2@"
		if gen == "65" { // which has no processes of a host
			host = "2/1@"
		}
		require.Equal(t, 1, strings.Count(string(o.stdout), "8 processes:"+strings.Repeat(" "+host, 1)))
		require.Equal(t, 8, strings.Count(string(o.stdout), host))
		require.NotContains(t, string(o.stdout), "\x00")
	}
	o := ibrun(t, "-n", "2", client, "early", "end:0")
	require.Equal(t, []string{"early 0", "early 1"}, sortedLines(o.stdout), o.stderr)
	o = ibrun(t, "--mpi", "none", "-n", "2", client, "end:0")
	require.Equal(t, 2, strings.Count(string(o.stdout), "standalone mode"), o.stderr)
}

// How such a job ends: by what its processes say at their end, and not by what they end with.
func TestNetlrtsEnds(t *testing.T) {
	client := netlrtsProgram(t)
	for steps, want := range map[string]struct {
		code int
		says string // on standard error; empty: nothing is
	}{
		"end:0":                  {0, ""},
		"end:7":                  {7, "exited with code 7"},
		"1/end:5 2/end:6 end:0":  {6, "exited with code 6"},
		"1/kill barrier":         {137, "rank 1 on HOST was killed by signal 9 (KILL)"},
		"1/exit:9 barrier":       {9, "rank 1 on HOST exited with code 9"},
		"1/exit:0 barrier":       {1, "rank 1 on HOST aborted the job with code 1: its program ended without CkExit"},
		"2/abort:no_way barrier": {1, "rank 2 on HOST aborted the job with code 1: no_way"},
		"1/raw:GET_/_HTTP/1.0\\r\\n_ barrier": {
			1, "rank 1 sent what no program of Charm++ sends",
		},
		"0/barrier0 barrier": {1, "aborted the job with code 1: it waits in a barrier of Charm++ in vain"},
	} {
		o := ibrun(t, append([]string{"-n", "4", "--timeout", "60", client}, strings.Fields(steps)...)...)
		require.Equal(t, want.code, o.code, "%s: %s", steps, o.stderr)
		host, _ := os.Hostname()
		says := strings.ReplaceAll(want.says, "HOST", strings.ToLower(host))
		if says == "" {
			require.Empty(t, o.stderr, steps)
		}
		require.Contains(t, o.stderr, says, steps)
	}
	// Generations of one job must agree, and a process that is none is named.
	o := ibrun(t, "--mpi", "charm", "-n", "2", "sh", "-c", `exec "$0" -gen $((67 + 2 * IBRUN_RANK)) end:0`, client)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "of different versions of Charm++")
	o = ibrun(t, "-n", "1", client, ":", "-n", "1", "true")
	require.Equal(t, 1, o.code, o.stderr)
	require.Contains(t, o.stderr, "rank 1 ended before it joined")
	o = ibrun(t, "-n", "2", client, "+ppn", "many", "end:0")
	require.Equal(t, 126, o.code)
	require.Contains(t, o.stderr, "a number of PEs from 1 to 65536 follows it")
}

// All processes of such a job can start again together: they say initnode anew, and get a new
// table.
func TestNetlrtsStartsAgain(t *testing.T) {
	o := ibrun(t, "--mpi", "charm", "--on-failure", "restart-all", "--launcher", "local", "--hosts", "a:2,b:2",
		"sh", "-c",
		`[ $IBRUN_RESTART.$IBRUN_RANK = 0.1 ] && exec "$0" barrier kill; exec "$0" barrier barrier print:ok end:0`,
		netlrtsProgram(t))
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, []string{"0 says ok", "1 says ok", "2 says ok", "3 says ok"}, sortedLines(o.stdout))
	require.Contains(t, o.stderr, "all ranks start again (restart 1)")
}

// scanf reads ibrun's input, as much as its format eats.
func TestNetlrtsInput(t *testing.T) {
	client := netlrtsProgram(t)
	c := command(t, "-n", "2", client, "0/scanf:%d %s", "0/scanf: %[^\\n]", "0/scanf:%d", "end:0")
	c.Stdin = strings.NewReader("12\nabc rest of a line\n")
	o := finish(t, c)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "read \"12 abc\\x00\"\nread \" rest of a line\\x00\"\nread \" \\x00\"\n", string(o.stdout))
	c = command(t, "-n", "2", "--stdin", "1", client, "1/scanf:%d", "0/scanf:%d", "end:0")
	c.Stdin = strings.NewReader("12\n")
	o = finish(t, c)
	require.Equal(t, []string{`read "12\x00"`, `read "\x00"`}, sortedLines(o.stdout))
	require.Contains(t, o.stderr, "rank 0 calls scanf and is not the one that reads ibrun's input; hint: --stdin 0")
}

// All that processes print comes, whole and in their order, however slowly it is taken; and into
// files if it was asked for.
func TestNetlrtsOutput(t *testing.T) {
	client := netlrtsProgram(t)
	o := ibrun(t, "-n", "2", client, "flood:10000", "end:0")
	require.Equal(t, 0, o.code, o.stderr)
	next := [2]int{}
	for line := range strings.Lines(string(o.stdout)) {
		var rank, i int
		_, err := fmt.Sscanf(line, "%d %d", &rank, &i)
		require.NoError(t, err)
		require.Equal(t, next[rank], i)
		require.Len(t, line, len(fmt.Sprintf("%d %d ", rank, i))+201)
		next[rank]++
	}
	require.Equal(t, [2]int{10000, 10000}, next)
	dir := t.TempDir()
	o = ibrun(t, "-n", "2", "--output", dir+"/out.%r", client, "print:hi", "end:0")
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stdout)
	for rank := range 2 {
		text, err := os.ReadFile(fmt.Sprintf("%s/out.%d", dir, rank))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d says hi\n", rank), strings.TrimRight(string(text), "\x00"))
	}
}

// A program of Charm++'s layer netlrts is recognized by what its library has in it: all is linked
// statically, and in C++ or without any shared library. One that does not connect is told of
// charmrun.
func TestNetlrtsRecognized(t *testing.T) {
	path, source := filepath.Join(t.TempDir(), "charm"), filepath.Join(t.TempDir(), "charm.c")
	text := `#include <stdio.h>
#include <stdlib.h>
int main(void) { char *t = getenv("NETSTART"); return !puts(t ? t : "Charm++> standalone mode (not using charmrun)") || (!t && puts("initnodetab") < 0); }`
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	out, err := exec.Command("gcc", "-static", "-o", path, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	o := ibrun(t, "-n", "2", path)
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `^(0 127\.0\.0\.1 \d+ \d+ 0\n1 127\.0\.0\.1 \d+ \d+ 0\n|1 .*\n0 .*\n)$`, string(o.stdout))
	const says = "no rank has connected to its agent, though the program looks like one of Charm++'s layer netlrts"
	require.Equal(t, 1, strings.Count(o.stderr, says), o.stderr)
	for _, args := range [][]string{{"-n", "1", path}, {"-q", "-n", "2", path}, {"-n", "2", "-x", "NETSTART=0 h 1 2 0",
		path}, {"-n", "2", "true"}} {
		o = ibrun(t, args...)
		require.NotContains(t, o.stderr, "charmrun", "%v", args)
	}
	o = ibrun(t, "--mpi", "charm", "-n", "2", "true")
	require.Contains(t, o.stderr, "though --mpi charm was given")
	o = ibrun(t, "-n", "2", "-x", "NETSTART=0 h 1 2 0", path)
	require.Equal(t, "0 h 1 2 0\n0 h 1 2 0\n", string(o.stdout))
}

// askCCS is a request of a client that knows nothing of ibrun.
func askCCS(t *testing.T, port int, pe int32, handler, data string) (reply string, answered bool) {
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer c.Close()
	return callCCS(t, c, pe, handler, data)
}

func callCCS(t *testing.T, c net.Conn, pe int32, handler, data string) (reply string, answered bool) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = binary.BigEndian.AppendUint32(b, uint32(pe))
	b = append(b, handler+strings.Repeat("\x00", 32-len(handler))...)
	_, _ = c.Write(append(b, data...)) // it may have been closed already
	_ = c.SetReadDeadline(time.Now().Add(patience / 3))
	all, err := io.ReadAll(c)
	require.False(t, os.IsTimeout(err), "%s is not answered", handler)
	if len(all) < 4 {
		return "", false
	}
	require.Equal(t, uint32(len(all)-4), binary.BigEndian.Uint32(all))
	return string(all[4:]), true
}

// signedCCS is what a client does that knows the key of level 3.
func signedCCS(t *testing.T, port int) {
	key := charm.Key{12, 34}
	dial := func() net.Conn {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience / 3))
		return c
	}
	c := dial()
	_, err := c.Write([]byte{0x80, 0, 1, 3, 0, 0, 0, 7})
	require.NoError(t, err)
	var theirs uint32
	require.NoError(t, binary.Read(c, binary.BigEndian, &theirs))
	proof := key.Sign(theirs, nil)
	_, err = c.Write(proof[:])
	require.NoError(t, err)
	var own struct {
		Proof        charm.Signature
		Client, Salt uint32
	}
	require.NoError(t, binary.Read(c, binary.BigEndian, &own))
	require.Equal(t, key.Sign(7, nil), own.Proof, "the server knows the key, too")
	call := func() (reply []byte) {
		head := append([]byte{0, 0, 0, 1, 0, 0, 0, 5, 'h', 'i'}, make([]byte, 30)...)
		signature := key.Sign(own.Salt, head)
		b := binary.BigEndian.AppendUint32([]byte{0x80, 0, 0, 3}, own.Client)
		c := dial()
		_, _ = c.Write(slices.Concat(binary.BigEndian.AppendUint32(b, 9), signature[:], head, []byte("x")))
		reply, _ = io.ReadAll(c)
		return reply
	}
	want := key.Sign(9, nil)
	text := "process 2, PE 5, hi: x"
	require.Equal(t, string(want[:])+"\x00\x00\x00"+string(rune(len(text)))+text, string(call()))
	require.Empty(t, call(), "it is repeated")
}

var ccsPort = regexp.MustCompile(`ccs: Server IP = 127\.0\.0\.1, Server port = (\d+) \$`)

// Requests of clients reach the process that has the PE, over any tree, by the control socket and
// by a port; bad ones are refused, and other users are not answered.
func TestCCS(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("3 1234\n"), 0o600))
	r := controlled(t, "--ccs-port", "0", "--ccs-auth", keys, "--launcher", "local", "--hosts", "a:2,b:2,c:2,d:2",
		"--tree", "chain", netlrtsProgram(t), "+ppn", "2", "serve", "end:0")
	r.until("process 2, PE 5, hello: ", "ccs", "hello", "--pe", "5")
	m := ccsPort.FindStringSubmatch(r.err.String())
	require.NotNil(t, m, r.err.String())
	port := 0
	_, err := fmt.Sscan(m[1], &port)
	require.NoError(t, err)

	got, ok := askCCS(t, port, -1, "ccs_getinfo", "")
	require.True(t, ok)
	require.Equal(t, "\x00\x00\x00\x08"+strings.Repeat("\x00\x00\x00\x02", 8), got)
	require.Equal(t, got, string(r.ctl("ccs", "ccs_getinfo").stdout))
	for pe := range int32(16) {
		got, _ := askCCS(t, port, pe, "hi", "data")
		require.Equal(t, fmt.Sprintf("process %d, PE %d, hi: data", pe/2, pe), got)
	}
	got, _ = askCCS(t, port, -1, "all", "x")
	require.Equal(t, "process 0, PE -1, all: x", got)
	large := strings.Repeat("x", 1<<20)
	got, _ = askCCS(t, port, 15, "large", large)
	require.Equal(t, "process 7, PE 15, large: "+large, got)

	for _, bad := range []struct {
		pe      int32
		handler string
		data    string
	}{{16, "hi", ""}, {1 << 30, "hi", ""}, {-1 << 31, "hi", ""}, {0, "", ""}, {0, strings.Repeat("x", 32), ""},
		{0, "hi", large + "x"}, {0, "fetch stdio", ""}} {
		_, ok := askCCS(t, port, bad.pe, bad.handler, bad.data)
		require.False(t, ok, "%d %s", bad.pe, bad.handler)
	}
	require.Contains(t, r.ctl("ccs", "hi", "--pe", "16").stderr, "there is no PE 16: the program has 16")
	require.Contains(t, r.ctl("ccs", "fetch stdio").stderr, "ctl attach")
	require.Equal(t, 2, r.ctl("ccs").code)
	require.Equal(t, 2, r.ctl("ccs", "hi", "--pe", "-1").code)
	require.Equal(t, 2, r.ctl("status", "--pe", "1").code)

	signedCCS(t, port)
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make sockets of another user")
	}
	_, ok = callCCS(t, asUser(t, port, 65534), 0, "ccs_getinfo", "")
	require.False(t, ok)
	got, ok = askCCS(t, port, 3, "hi", "")
	require.True(t, ok, got)

	// A client that waits for a process that falls gets no reply, and the job ends as ever.
	_, ok = askCCS(t, port, 9, "fall", "")
	require.False(t, ok)
	require.Equal(t, 137, r.ends(), r.err.String())
	require.Contains(t, r.err.String(), "user 65534 of this machine calls the port for CCS, and is not answered")
	require.Contains(t, r.err.String(), "rank 4 on c was killed by signal 9 (KILL)")
}

// asUser connects to a port as another user does.
func asUser(t *testing.T, port, uid int) net.Conn {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := unix.SetfsuidRetUid(uid)
	require.NoError(t, err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	_, errBack := unix.SetfsuidRetUid(os.Geteuid())
	require.NoError(t, errBack)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}))
	f := os.NewFile(uintptr(fd), "call")
	defer f.Close()
	c, err := net.FileConn(f)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
