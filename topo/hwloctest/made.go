package hwloctest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo/topotest"
)

// made are captures of our own, which are there on every machine: the trees that topotest
// makes of descriptions. The first three are what a captured one is, the others
// are smaller, since a test that unpacks one makes a thousand files.
var made = map[string]string{
	"made-opteron": "pack:4 core:4 allowed:0-3 mems:2-3 cgroup:1 old:yes",
	"made-sandy": "pack:2 core:8 hca:mlx4_0,numa=1,pci=pci0000:80/0000:80:02.0/0000:82:00.0,rate=56,lid=0x3a4,down " +
		"link:eth0,numa=0,pci=pci0000:00/0000:00:1c.0/0000:04:00.0,speed=1000 link:ib0,hca=mlx4_0",
	"made-offlines": "pack:4 core:2 pu:2 order:cyclic offline:2,5,13-14",
	"made-columns": "pack:4 core:3 l3:none order:cyclic " +
		"hca:qib0,numa=1,pci=pci0000:40/0000:40:03.0/0000:43:00.0,lid=1 " +
		"link:eth0,numa=0,pci=pci0000:00/0000:00:1c.0/0000:04:00.0,speed=1000 link:ib0,hca=qib0",
	"made-numa":   "pack:2 numa:2 l3:2 l2:2 core:4",
	"made-hybrid": "core:6 slow:4 pu:2 affinity:0-3",
}

// madeTars writes the captures of our own below t's folder.
func madeTars(t testing.TB) (tars []string) {
	dir := t.TempDir()
	for name, words := range made {
		m, err := topotest.Parse(words)
		require.NoError(t, err, name)
		var text bytes.Buffer
		w := tar.NewWriter(&text)
		require.NoError(t, w.AddFS(m.Files()))
		require.NoError(t, w.Close())
		tars = append(tars, filepath.Join(dir, name+plainSuffix))
		require.NoError(t, os.WriteFile(tars[len(tars)-1], text.Bytes(), 0o600))
	}
	return tars
}
