package show_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/show"
	"ibrun/topo/topotest"
)

// TestText has what hwloc would make up for itself, or take from elsewhere: it shows the format.
func TestText(t *testing.T) {
	m := topo.Read(topotest.Must("pack:2 core:1 mib:1 mems:1").Files())
	want, err := os.ReadFile("testdata/two.xml")
	require.NoError(t, err)
	require.Equal(t, string(want), show.HwlocXML(m))
}

// TestServes names the machines whose devices a program would miss.
func TestServes(t *testing.T) {
	const (
		first, second = ",pci=pci0000:00/0000:01:00.0", ",pci=pci0000:00/0000:02:00.0"
		hca, fast     = " hca:mlx5_0,lid=1" + first, " link:hsn0,speed=200000" + first
	)
	for words, want := range map[string]bool{
		"":                                 true,
		hca:                                true,
		hca + " hca:mlx5_1,down" + second:  true,
		hca + " hca:mlx5_1,lid=2" + second: false,
		hca + " link:eth0,hca=mlx5_0,speed=200000":     true,
		hca + " link:hsn1,speed=200000" + second:       false,
		fast + " link:eth0,speed=25000" + second:       true,
		fast + " link:hsn1,speed=200000" + second:      false,
		fast + " link:hsn1,speed=200000,down" + second: true,
	} {
		require.Equal(t, want, show.ServesHwloc(topo.Read(topotest.Must("core:1"+words).Files())), words)
	}
}
