package symbols

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a program's symbols those stay that debuggers look for, at their places, and the program
// still runs.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-ldflags", "-w", "-o", path, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, sections := table(t, path)
	require.NoError(t, Keep(path))
	got, kept := table(t, path)
	if runtime.GOARCH == "amd64" {
		require.Len(t, got, 8)
	}
	require.Equal(t, sections, kept)
	for name, value := range got {
		require.True(t, strings.HasPrefix(name, prefix), name)
		require.Equal(t, want[name], value)
	}
	out, err = exec.Command(path).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "false <nil>\n", string(out))
	require.Error(t, Keep("/dev/null"))
	require.Error(t, Keep("symbols.go"))
}

func table(t *testing.T, path string) (symbols map[string]uint64, sections int) {
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	all, err := f.Symbols()
	require.NoError(t, err)
	symbols = map[string]uint64{}
	for _, s := range all {
		symbols[s.Name] = s.Value
	}
	return symbols, len(f.Sections)
}
