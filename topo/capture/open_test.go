package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
)

// packed is a tar of headers; a file's text is its name.
func packed(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(h.Name))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func opened(t *testing.T, name string, b []byte) (fs.FS, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return Open(path)
}

func zipped(t *testing.T, b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

func TestOpenTars(t *testing.T) {
	device := tar.Header{Typeflag: tar.TypeChar, Name: "node1/dev/null"}
	hard := tar.Header{Typeflag: tar.TypeLink, Name: "node1/sys/b", Linkname: "node1/sys/a"}
	inFolder := packed(t, file("node1/sys/a"), hard, device, link("node1/sys/up", "/sys/a"), link("node1/sys/out",
		"../../../../sys/a"), file("README"))
	for name, b := range map[string][]byte{
		"plain": packed(t, file("sys/a"), file("sys/b"), link("sys/up", "/sys/a"),
			link("sys/out", "../../../../sys/a"), file("proc/stat")),
		"with dots": packed(t, tar.Header{Typeflag: tar.TypeDir, Name: "./"}, file("./sys/a"), file("./sys/b"),
			link("./sys/up", "a"), link("./sys/out", "../sys/a")),
		"in a folder":    inFolder,
		"gzip, odd name": zipped(t, inFolder),
		"the later stays": packed(t, link("sys/up", "nowhere"), file("sys/a"), file("sys/b"), link("sys/up", "a"),
			link("sys/out", "/sys/a")),
	} {
		t.Run(name, func(t *testing.T) {
			fsys, err := opened(t, "x", b)
			require.NoError(t, err)
			a := text(t, fsys, "sys/a")
			require.True(t, strings.HasSuffix(a, "sys/a"))
			require.Equal(t, a, text(t, fsys, "sys/up"))
			require.Equal(t, a, text(t, fsys, "sys/out"), "no link leads out of the capture")
			require.NotEmpty(t, text(t, fsys, "sys/b"))
			_, err = fsys.Open("dev/null")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestHostileTars(t *testing.T) {
	many := func() []byte {
		var headers []tar.Header
		for i := range mostEntries/40 + 1 {
			headers = append(headers, file(fmt.Sprintf("sys/%d", i)+strings.Repeat("/a", 39)))
		}
		return packed(t, headers...)
	}
	huge := func() []byte {
		var b bytes.Buffer
		require.NoError(t, tar.NewWriter(&b).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sys/a",
			Size: 1 << 40}))
		return b.Bytes()
	}
	whole := packed(t, file("sys/a"), file("sys/b"))
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"up": {packed(t, file("sys/../../etc/passwd")), `"sys/../../etc/passwd" leads out of the capture`},
		"up at the end": {packed(t, file("sys/a"), tar.Header{Typeflag: tar.TypeDir, Name: "sys/.."}),
			"leads out of the capture"},
		"no text":  {packed(t, file("sys/a\xff")), `"sys/a\xff" is no path`},
		"absolute": {packed(t, file("/etc/passwd")), `"/etc/passwd" leads out of the capture`},
		"hard link out": {packed(t, tar.Header{Typeflag: tar.TypeLink, Name: "sys/a", Linkname: "../etc/passwd"}),
			"leads out of the capture"},
		"hard link first": {packed(t, tar.Header{Typeflag: tar.TypeLink, Name: "sys/a", Linkname: "sys/b"}),
			"is a hard link to no file before it"},
		"through a link": {packed(t, link("sys/a", "/etc"), file("sys/a/passwd")),
			`"sys/a/passwd" is below something that is no folder`},
		"through a file": {packed(t, file("sys/a"), file("sys/a/b")), "is below something that is no folder"},
		"two kinds":      {packed(t, file("sys/a"), link("sys/a", "b")), `"sys/a" is there twice, as different things`},
		"root":           {packed(t, link("./.", "/etc")), `"." is there twice, as different things`},
		"huge file":      {huge(), `"sys/a" has 1099511627776 bytes: files of a machine have at most 16777216`},
		"long path":      {packed(t, file("sys/"+strings.Repeat("a", mostPath))), "bytes, at most 4096 can be"},
		"many folders":   {many(), "more than 262144 files and folders"},
		"cut":            {whole[:1100], "unexpected EOF"},
		"cut gzip":       {zipped(t, whole)[:40], "unexpected EOF"},
		"no gzip":        {[]byte("\x1f\x8bgarbage-garbage"), "gzip: invalid header"},
		"no bzip2":       {[]byte("BZhgarbage-garbage"), "bzip2"},
		"no tar":         {bytes.Repeat([]byte("text "), 1000), "no tar, tar.gz or tar.bz2, or a damaged one"},
		"empty": {nil,
			"no folder sys in it, nor in a single folder of it: make one with ibrun --capture FILE"},
		"no sys":        {packed(t, file("proc/stat")), "no folder sys in it"},
		"sys is a file": {packed(t, file("sys")), "no folder sys in it"},
		"sys loops":     {packed(t, link("sys", "sys")), "no folder sys in it"},
		"two folders":   {packed(t, file("a/sys/x"), file("b/sys/x")), "no folder sys in it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := opened(t, "hostile.tar", c.b)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "hostile.tar")
		})
	}
}

// A small file can unpack to very much.
func TestBombs(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		for block := make([]byte, mostFile); ; {
			if tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sys/a", Size: mostFile}) != nil {
				return
			}
			if _, err := tw.Write(block); err != nil {
				return
			}
		}
	}()
	_, err := unpack(r)
	require.ErrorContains(t, err, "more than 67108864 bytes in files")
	r.Close()

	b := &bounded{strings.NewReader("abcdef"), 4}
	got, err := io.ReadAll(b)
	require.Equal(t, "abcd", string(got))
	require.ErrorContains(t, err, "more than 536870912 bytes")
}

func TestOpenFolders(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "no folder sys in it")

	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	root := filepath.Join(dir, "outer", "node1")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sys", "class"), 0o755))
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "sys", "a"), []byte("a"), 0o600))
	require.NoError(t, os.Symlink("/sys/a", filepath.Join(root, "sys", "class", "absolute")))
	require.NoError(t, os.Symlink("../../../../../../../sys/a", filepath.Join(root, "sys", "class", "up")))
	require.NoError(t, os.Symlink("../../../secret", filepath.Join(root, "sys", "out")))
	require.NoError(t, os.Symlink(secret, filepath.Join(root, "sys", "out2")))
	for _, at := range []string{root, filepath.Join(dir, "outer")} {
		fsys, err := Open(at)
		require.NoError(t, err)
		require.Equal(t, "a", text(t, fsys, "sys/class/absolute"))
		require.Equal(t, "a", text(t, fsys, "sys/class/up"))
		for _, name := range []string{"sys/out", "sys/out2"} {
			_, err = fsys.Open(name)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
}

// Whatever is in a tar, it is refused or gives a machine. A line of the input is
// an entry: its kind, its name and where it leads.
func FuzzOpen(f *testing.F) {
	f.Add("0 sys/a\n2 sys/b ../sys/a\n0 proc/stat")
	f.Add("5 node1/sys/devices/system/cpu/cpu0\n2 node1/sys/class class\n1 node1/sys/b node1/sys/a")
	f.Add("2 sys /proc\n2 proc /sys\n0 a/../b")
	f.Add("0 sys/class/net/a/mtu\n2 sys/class/infiniband net")
	f.Fuzz(func(t *testing.T, lines string) {
		if strings.Contains(lines, "\x00") {
			return // ends a path in any tar
		}
		tr := newTree()
		for line := range strings.Lines(lines) {
			words := append(strings.Fields(line), "", "", "")
			h := tar.Header{Name: words[1], Linkname: words[2]}
			if words[0] != "" {
				h.Typeflag = words[0][0]
			}
			if tr.add(&h, strings.NewReader(words[1])) != nil {
				return
			}
		}
		fsys, err := top("fuzz", tr)
		if err != nil {
			return
		}
		m := topo.Read(fsys)
		var b bytes.Buffer
		require.NoError(t, Write(&b, fsys))
		again, err := unpack(&b)
		require.NoError(t, err)
		require.Equal(t, m, topo.Read(newRooted(again)))
	})
}
