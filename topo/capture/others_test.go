package capture_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/capture"
	"ibrun/topo/hwloctest"
)

// passedOver is what topo does not read and a capture has all the same.
var passedOver = []string{
	"sys/devices/system/cpu/cpu*/topology/*_siblings", "sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_map",
	"sys/devices/system/node/node*/meminfo",
}

func TestCapturesOfOthers(t *testing.T) {
	unpackedTars := hwloctest.Captures(t) // unpacks them without package capture
	for _, file := range hwloctest.Tars(t) {
		t.Run(hwloctest.Name(file), func(t *testing.T) {
			straight, err := capture.Open(file)
			require.NoError(t, err)
			unpacked, err := capture.Open(unpackedTars[hwloctest.Name(file)])
			require.NoError(t, err)
			m := topo.Read(straight)
			require.Equal(t, topo.Read(unpacked), m)

			var b bytes.Buffer
			require.NoError(t, capture.Write(&b, unpacked))
			ours := filepath.Join(t.TempDir(), "ours.tar")
			require.NoError(t, os.WriteFile(ours, b.Bytes(), 0o600))
			again, err := capture.Open(ours)
			require.NoError(t, err)
			require.Equal(t, m, topo.Read(again))
			for _, pattern := range passedOver {
				files, err := fs.Glob(unpacked, pattern)
				require.NoError(t, err)
				for _, file := range files {
					want, err := fs.ReadFile(unpacked, file)
					require.NoError(t, err)
					have, err := fs.ReadFile(again, file)
					require.NoError(t, err)
					require.Equal(t, string(want), string(have), file)
				}
			}
		})
	}
}
