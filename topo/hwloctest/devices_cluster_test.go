//go:build cluster

package hwloctest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

func TestDevices(t *testing.T) {
	for name, dir := range hwloctest.Captures(t) {
		t.Run(name, func(t *testing.T) {
			m := topo.Read(os.DirFS(dir))
			hwloctest.CompareDevices(t, m, dir)
			var hcas []string
			for _, h := range m.HCAs {
				hcas = append(hcas, h.Name)
			}
			require.Equal(t, map[string][]string{
				"32em64t-2n8c+dax+nvme+mic+dimms": {"mlx4_0"},
				"fakepcilocalities":               {"qib0"},
				"made-sandy":                      {"mlx4_0"},
				"made-columns":                    {"qib0"},
			}[name], hcas)
		})
	}
}
