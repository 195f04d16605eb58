package poll

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair is the blocking ends of a pipe or of a pair of sockets.
func pair(t *testing.T, socket bool) (from, to *os.File) {
	var ends [2]int
	var err error
	if socket {
		ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	} else {
		err = unix.Pipe2(ends[:], unix.O_CLOEXEC)
	}
	require.NoError(t, err)
	from, to = os.NewFile(uintptr(ends[0]), "from"), os.NewFile(uintptr(ends[1]), "to")
	t.Cleanup(func() { from.Close(); to.Close() })
	return from, to
}

// All that comes is read, in pieces of any size, up to the end, and the descriptor is what it was.
func TestReadsAll(t *testing.T) {
	for name, socket := range map[string]bool{"pipe": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			from, to := pair(t, socket)
			r := ParkedReader(from)
			require.NotSame(t, from, r)
			b := make([]byte, 3)
			for range 1000 {
				_, err := to.WriteString("abcd")
				require.NoError(t, err)
				n, err := r.Read(b) // what is left is read without another edge
				require.NoError(t, err)
				require.Equal(t, "abc", string(b[:n]))
				n, err = r.Read(b)
				require.NoError(t, err)
				require.Equal(t, "d", string(b[:n]))
			}
			go func() {
				_, _ = to.WriteString("late")
				to.Close()
			}()
			rest, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, "late", string(rest))
			flags, err := unix.FcntlInt(from.Fd(), unix.F_GETFL, 0)
			require.NoError(t, err)
			require.Zero(t, flags&unix.O_NONBLOCK, "others who have it would not expect that")
		})
	}
}

// A regular file and what is read as one are read as they are.
func TestNothingToWaitFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	for _, c := range [][2]string{{path, "text"}, {os.DevNull, ""}} {
		f, err := os.Open(c[0])
		require.NoError(t, err)
		defer f.Close()
		text, err := io.ReadAll(ParkedReader(f))
		require.NoError(t, err)
		require.Equal(t, c[1], string(text))
	}
}

// No thread waits for a reader. In read(2) there would be one for each.
func TestNoThreadWaits(t *testing.T) {
	const readers = 64
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(tasks)
	}
	before := threads()
	var all, began sync.WaitGroup
	var ends []*os.File
	for range readers {
		from, to := pair(t, false)
		ends = append(ends, to)
		r := ParkedReader(from)
		began.Add(1)
		all.Go(func() {
			b := make([]byte, 1)
			_, err := r.Read(b) // it has been where it waits
			began.Done()
			if err == nil {
				_, err = r.Read(b)
			}
			if err != io.EOF {
				t.Error(err)
			}
		})
	}
	for _, to := range ends {
		_, err := to.Write([]byte{1})
		require.NoError(t, err)
	}
	began.Wait()
	require.Less(t, threads()-before, readers/2)
	for _, to := range ends {
		to.Close()
	}
	all.Wait()
}
