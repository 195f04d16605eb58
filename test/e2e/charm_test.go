package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/ccs"
	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/skip"
)

// netlrts builds the program test/netlrts on the first call, and returns the path of the program. Its processes speak
// the protocol of charmrun, as Charm++ programs do.
var netlrts = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(launch.Program), "netlrts")
	return path, product.Program(path, "ibrun/test/netlrts")
})

func netlrtsProgram(t *testing.T) string {
	path, err := netlrts()
	require.NoError(t, err)
	return path
}

// askCCS connects to ibrun's port for CCS, the client-server protocol of Charm++. It sends a request to the handler of
// a PE and returns the reply. If the connection ends without a reply, answered is false. askCCS uses no code of ibrun.
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
	_, _ = c.Write(append(b, data...)) // may fail, because ibrun closes the connection if it refuses a request
	all, _ := io.ReadAll(c)            // may fail for the same reason
	if len(all) < 4 {
		return "", false
	}
	require.Equal(t, uint32(len(all)-4), binary.BigEndian.Uint32(all))
	return string(all[4:]), true
}

// signedCCS authenticates to the port for CCS with the key of security level 3. It sends the same signed request twice.
// ibrun must answer the first one and refuse the second one, which could be a replay.
func signedCCS(t *testing.T, port int) {
	key := ccs.Key{12, 34}
	dial := func() net.Conn {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
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
		Proof        ccs.Signature
		Client, Salt uint32
	}
	require.NoError(t, binary.Read(c, binary.BigEndian, &own))
	require.Equal(t, key.Sign(7, nil), own.Proof, "the server must prove that it has the key")
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
	require.Empty(t, call(), "a repeated request must be refused")
}

var ccsPort = regexp.MustCompile(`ccs: Server IP = 127\.0\.0\.1, Server port = (\d+) \$`)

// TestCCS sends CCS requests by ibrun ctl ccs and to the port for CCS, in a job whose agents form a chain. Each request
// must reach the process that has the requested PE. ibrun must refuse invalid requests and must not answer other users.
func TestCCS(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("3 1234\n"), 0o600))
	r := launch.Start(t, "--ccs-port", "0", "--ccs-auth", keys, "--launcher", "local", "--hosts", "a:4,b:4",
		"--tree", "chain", netlrtsProgram(t), "+ppn", "2", "serve", "end:0")
	r.Until("process 2, PE 5, hello: ", "ccs", "hello", "--pe", "5")
	m := ccsPort.FindStringSubmatch(r.Err.String())
	require.NotNil(t, m, r.Err.String())
	port := 0
	_, err := fmt.Sscan(m[1], &port)
	require.NoError(t, err)

	got, ok := askCCS(t, port, -1, "ccs_getinfo", "")
	require.True(t, ok)
	require.Equal(t, "\x00\x00\x00\x08"+strings.Repeat("\x00\x00\x00\x02", 8), got)
	require.Equal(t, got, r.Ctl("ccs", "ccs_getinfo").Stdout)
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
	require.Contains(t, r.Ctl("ccs", "hi", "--pe", "16").Stderr, "there is no PE 16: the program has 16")
	require.Contains(t, r.Ctl("ccs", "fetch stdio").Stderr, "ctl attach")
	require.Equal(t, 2, r.Ctl("ccs").Code)
	require.Equal(t, 2, r.Ctl("ccs", "hi", "--pe", "-1").Code)
	require.Equal(t, 2, r.Ctl("status", "--pe", "1").Code)

	signedCCS(t, port)
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make sockets of another user")
	}
	_, ok = callCCS(t, asUser(t, port, 65534), 0, "ccs_getinfo", "")
	require.False(t, ok)
	got, ok = askCCS(t, port, 3, "hi", "")
	require.True(t, ok, got)

	// The handler "fall" of PE 9 kills its process, rank 4. The client must get no reply. The message of the job must
	// name rank 4 and the signal.
	_, ok = askCCS(t, port, 9, "fall", "")
	require.False(t, ok)
	require.Equal(t, 137, r.Wait(), r.Err.String())
	require.Contains(t, r.Err.String(), "user 65534 of this machine calls the port for CCS, and is not answered")
	require.Contains(t, r.Err.String(), "rank 4 on b was killed by signal 9 (KILL)")
}

// asUser connects to a port of this machine by a socket that belongs to the user uid.
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
