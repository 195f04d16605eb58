package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
)

// withLIBI compiles a program of testdata with LIBI's names, in C++, under sanitizers.
func withLIBI(t *testing.T, program string) string {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		skip.Because(t, "no C++ compiler here, which programs of LIBI need: install g++")
	}
	dir := t.TempDir()
	sources, err := filepath.Glob("../../cgo/tool/*.c")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	path := filepath.Join(dir, program)
	cc := `i=0; for s in "$@"; do i=$((i + 1)); ` +
		`gcc -std=c11 -D_GNU_SOURCE -fsanitize=address,undefined -I../../cgo/tool -c -o "$DIR/$i.o" "$s" || exit; done
g++ -std=c++11 -g -Wall -Wextra -Wshadow -Werror -fsanitize=address,undefined -fno-sanitize-recover=all ` +
		`-I../../cgo/tool -I../../cgo/tool/libi -o "$TO" testdata/libi.cc ../../cgo/tool/libi/libi.cc "$DIR"/*.o`
	c := exec.Command("sh", append([]string{"-c", cc, "sh", "../../cgo/pmgr/frame.c"}, sources...)...)
	c.Env = append(os.Environ(), "DIR="+dir, "TO="+path)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "packages gcc, g++ and libc6-dev are needed: %s", out)
	return path
}

// Programs of LIBI start by ibrun: sessions of one launch and of later ones, each with hosts,
// numbers, programs, environment, collectives and data of its own. A launch on hosts that are there
// already starts no job, and one on others does.
func TestLIBI(t *testing.T) {
	libi := withLIBI(t, "libi")
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := exec.Command(libi)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, swift, "IBRUN="+program, "IBRUN_LIBI_ARGS=--launcher  local")
	got := finish(t, c)
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
	var want []string
	say := func(job int, name string, rank, size int, host, hosts, variable string) {
		want = append(want, fmt.Sprintf("%s %d/%d on %s job %d: %s %s", name, rank, size, host, job, hosts, variable))
	}
	say(0, "comm", 0, 1, "a", "a", `a "b" c`)
	for i, host := range []string{"b", "b", "c", "c", "c", "c"} {
		name := "back"
		if i >= 4 {
			name = "it's"
		}
		say(0, name, i, 6, host, "bbcccc", "-")
	}
	for i := range 2 {
		say(0, "late", i, 2, "c", "cc", "-")
		say(1, "fresh", i, 2, "d", "dd", "-")
	}
	say(0, "late", 0, 1, "a", "a", `a "b" c`)
	slices.Sort(want)
	jobs := map[string]int{}
	lines := strings.Split(strings.TrimSpace(string(got.stdout)), "\n")
	for i, line := range lines {
		lines[i] = regexp.MustCompile(`job \w+`).ReplaceAllStringFunc(line, func(id string) string {
			if _, known := jobs[id]; !known {
				jobs[id] = len(jobs)
			}
			return fmt.Sprintf("job %d", jobs[id])
		})
	}
	slices.Sort(lines)
	require.Equal(t, want, lines)
}
