//go:build soak

package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
)

// Hosts whose names no frame can hold are refused before anything is started.
func TestTooManyLongNamesInFiles(t *testing.T) {
	dir := t.TempDir()
	args := []string{}
	for k := range 5 {
		var names []byte
		for i := range 60_000 {
			names = append(names, fmt.Sprintf("%s-%d-%d\n", strings.Repeat("x", 240), k, i)...)
		}
		file := filepath.Join(dir, strconv.Itoa(k))
		require.NoError(t, os.WriteFile(file, names, 0o600))
		args = append(args, "-f", file)
	}
	_, err := planOf(t, append(args, "true")...)
	require.Equal(t, exit.Usage, exit.Code(err))
	require.ErrorContains(t, err,
		"300000 hosts: their names take more than the 60 MiB that can be sent at once; write those")
}
