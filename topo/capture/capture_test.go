package capture

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
)

// small is a tree with links of each kind.
func small() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o600} }
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	return fstest.MapFS{
		"sys/devices/pci0000:40/0000:40:03.0/net/ib0/mtu":     file("4092\n"),
		"sys/devices/pci0000:40/0000:40:03.0/net/ib0/address": file("not read"),
		"sys/devices/pci0000:40/0000:40:03.0/numa_node":       file("1\n"),
		"sys/devices/pci0000:40/0000:40:03.0/net/ib0/device":  link("../.."),
		"sys/class/net/ib0":             link("../../devices/pci0000:40/0000:40:03.0/net/ib0"),
		"sys/class/net/ib1":             link("../../devices/not/read"),
		"sys/class/net/bonding_masters": file("not read"),
		"sys/absolute":                  link("/sys/class/net"),
		"sys/round":                     link("round"),
		"sys/pipe":                      {Mode: fs.ModeNamedPipe},
		"proc/self/status": file(
			"Name:\tsecret\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\nUid:\t7\n"),
		"proc/mounts":      link("self/mounts"),
		"proc/self/mounts": file("server:/home /home nfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
		"proc/other":       file("not read"),
	}
}

// text reads a file, as topo does.
func text(t *testing.T, fsys fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, fsys fs.FS, dir string) (all []string) {
	t.Helper()
	entries, err := fs.ReadDir(fsys, dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// use reads part of the small tree; what it finds is the same in the tree and
// in a capture of it.
func use(t *testing.T, fsys fs.FS) {
	t.Helper()
	require.Equal(t, "4092\n", text(t, fsys, "sys/class/net/ib0/mtu"))
	require.Equal(t, "4092\n", text(t, fsys, "sys/absolute/ib0/mtu"))
	require.Equal(t, "1\n", text(t, fsys, "sys/class/net/ib0/device/numa_node"))
	require.Contains(t, text(t, fsys, "proc/mounts"), "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	require.Contains(t, text(t, fsys, "proc/self/status"), "Cpus_allowed_list:\t0-3\n")
	require.Contains(t, names(t, fsys, "sys/class/net"), "ib1")
	for _, name := range []string{"sys/class/net/ib1", "sys/class/net/ib0/device"} {
		at, err := fs.Lstat(fsys, name)
		require.NoError(t, err)
		require.Equal(t, fs.ModeSymlink, at.Mode().Type())
	}
	to, err := fs.ReadLink(fsys, "sys/class/net/ib1")
	require.NoError(t, err)
	require.Equal(t, "../../devices/not/read", to)
	_, err = fs.ReadLink(fsys, "proc/self/status")
	require.ErrorIs(t, err, fs.ErrInvalid)
	for _, name := range []string{"sys/class/net/ib1/mtu", "sys/class/net/ib7", "proc/self/status/x"} {
		_, err = fsys.Open(name)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	_, err = fsys.Open("../sys")
	require.ErrorIs(t, err, fs.ErrInvalid)
	entries, err := fs.ReadDir(fsys, "proc/self/status")
	require.Error(t, err)
	require.Empty(t, entries)
}

// recorded is the tar of a use of the small tree.
func recorded(t *testing.T) []byte {
	t.Helper()
	r := NewRecorder(small())
	use(t, r)
	var b bytes.Buffer
	require.NoError(t, r.WriteTar(&b))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	b := recorded(t)
	file := filepath.Join(t.TempDir(), "machine.tar")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	fsys, err := Open(file)
	require.NoError(t, err)
	use(t, fsys)
	require.Equal(t, b, recorded(t), "the same machine gives the same tar")

	var all []string
	require.NoError(t, fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
		all = append(all, name)
		return err
	}))
	require.Equal(t, []string{
		".", "proc", "proc/mounts", "proc/self", "proc/self/mounts", "proc/self/status",
		"sys", "sys/absolute", "sys/class", "sys/class/net", "sys/class/net/bonding_masters", "sys/class/net/ib0",
		"sys/class/net/ib1",
		"sys/devices", "sys/devices/pci0000:40", "sys/devices/pci0000:40/0000:40:03.0",
		"sys/devices/pci0000:40/0000:40:03.0/net",
		"sys/devices/pci0000:40/0000:40:03.0/net/ib0", "sys/devices/pci0000:40/0000:40:03.0/net/ib0/device",
		"sys/devices/pci0000:40/0000:40:03.0/net/ib0/mtu", "sys/devices/pci0000:40/0000:40:03.0/numa_node",
	}, all, "what was read, and nothing else")
	require.Empty(t, text(t, fsys, "sys/class/net/bonding_masters"), "listed, not read")
	require.Equal(t, "Cpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n",
		text(t, fsys, "proc/self/status"))
	require.Equal(t, "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", text(t, fsys, "proc/self/mounts"))
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Zero(t, h.ModTime.Unix())
		require.Zero(t, h.Uid+h.Gid)
		require.Empty(t, h.Uname)
	}
}

// What a capture's file system says of itself is what package fs demands of one.
func TestTreeIsAFileSystem(t *testing.T) {
	tr, err := unpack(bytes.NewReader(recorded(t)))
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(tr, "sys/class/net/ib0", "proc/self/status",
		"sys/devices/pci0000:40/0000:40:03.0/numa_node"))
}

func TestLinks(t *testing.T) {
	r := newRooted(small())
	_, err := r.Open("sys/round")
	require.ErrorIs(t, err, errLinks)
	_, err = r.Open("sys/pipe")
	require.ErrorIs(t, err, errKind)
	_, err = NewRecorder(small()).Open("sys/pipe")
	require.ErrorIs(t, err, errKind)

	long := fstest.MapFS{"sys/a": {Data: []byte(strings.Repeat("x/", mostPath)), Mode: fs.ModeSymlink}}
	_, err = newRooted(long).Open("sys/a")
	require.ErrorIs(t, err, errLinks)
}

// broken fails where sysfs does.
type broken struct{ fs.FS }

func (b broken) Open(name string) (fs.File, error) {
	f, err := b.FS.Open(name)
	if strings.HasSuffix(name, "numa_node") {
		return brokenFile{f}, err
	}
	return f, err
}
func (b broken) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(b.FS, name) }
func (b broken) ReadLink(name string) (string, error)   { return fs.ReadLink(b.FS, name) }

type brokenFile struct{ fs.File }

func (brokenFile) Read([]byte) (int, error) { return 0, os.ErrInvalid }

func TestUnreadableFilesAreLeftOut(t *testing.T) {
	const file = "sys/devices/pci0000:40/0000:40:03.0/numa_node"
	r := NewRecorder(broken{small()})
	_, err := r.Open(file)
	require.ErrorIs(t, err, os.ErrInvalid)
	_, err = r.Lstat(file)
	require.NoError(t, err)
	_, err = r.Lstat("proc/other")
	require.NoError(t, err)
	_, err = r.Open("sys/class/net/ib0/mtu")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.WriteTar(&b))
	tr, err := unpack(&b)
	require.NoError(t, err)
	require.NotContains(t, tr.nodes, file)
	require.Contains(t, tr.nodes, "sys/devices/pci0000:40/0000:40:03.0/net/ib0/mtu")
	require.Contains(t, tr.nodes, "proc/other", "a file that somebody asked for is there")

	require.NotEmpty(t, names(t, r, "sys/devices/pci0000:40/0000:40:03.0"))
	b.Reset()
	require.NoError(t, r.WriteTar(&b))
	tr, err = unpack(&b)
	require.NoError(t, err)
	require.Empty(t, text(t, tr, file), "it was listed")
}

// The number of the process that made a capture says nothing, and would make
// each capture another one.
func TestOwnProcess(t *testing.T) {
	for _, pid := range []string{"77", "78"} {
		r := NewRecorder(fstest.MapFS{
			"proc/self":               {Data: []byte(pid), Mode: fs.ModeSymlink},
			"proc/mounts":             {Data: []byte("self/mounts"), Mode: fs.ModeSymlink},
			"proc/" + pid + "/mounts": {Data: []byte("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")},
		})
		require.NotEmpty(t, text(t, r, "proc/mounts"))
		var b bytes.Buffer
		require.NoError(t, r.WriteTar(&b))
		tr, err := unpack(&b)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{".", "proc", "proc/mounts", "proc/self", "proc/self/mounts"},
			slices.Collect(maps.Keys(tr.nodes)))
	}
}

func TestTooMuchToRecord(t *testing.T) {
	much := fstest.MapFS{}
	for i := range 6 {
		much["sys/"+strings.Repeat("a", i+1)] = &fstest.MapFile{Data: make([]byte, mostFile)}
	}
	r := NewRecorder(much)
	for i := range 6 {
		_, _ = r.Open("sys/" + strings.Repeat("a", i+1))
	}
	require.ErrorContains(t, r.WriteTar(io.Discard), "sys/aaaaa does not fit into a capture")
}

// stableMachine is a machine without what changes under our hands: the load, and the
// interfaces of virtual clusters that other tests make.
func stableMachine(fsys fs.FS) *topo.Machine {
	m := topo.Read(fsys)
	m.Load = 0
	m.Links = slices.DeleteFunc(m.Links, func(l topo.Link) bool { return l.Virtual && !l.Loopback })
	return m
}

func TestLiveMachine(t *testing.T) {
	live := os.DirFS("/")
	var b bytes.Buffer
	require.NoError(t, Write(&b, live))
	file := filepath.Join(t.TempDir(), "live.tar")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	fsys, err := Open(file)
	require.NoError(t, err)
	require.Equal(t, stableMachine(live), stableMachine(fsys))

	var again bytes.Buffer
	require.NoError(t, Write(&again, fsys))
	require.Equal(t, b.Bytes(), again.Bytes(), "a capture of a capture is the same")
}
