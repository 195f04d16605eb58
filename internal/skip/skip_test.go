package skip

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// player stands for a test; the first call of Skip or Fatal ends it.
type player struct {
	T
	ended string
}

func (*player) Name() string      { return "TestIt/part" }
func (p *player) Skip(why ...any) { p.end("skipped: ", why) }
func (p *player) Fatal(w ...any)  { p.end("failed: ", w) }
func (p *player) end(how string, why []any) {
	if p.ended == "" {
		p.ended = how + fmt.Sprint(why...)
	}
}

func TestBecause(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	for _, c := range []struct{ list, all, want string }{
		{"", "", "skipped: no qemu\n here"},
		{list, "", "skipped: no qemu\n here"},
		{list, "1", "failed: no qemu\n here"},
		{filepath.Join(list, "below"), "", "failed: what was left out cannot be told: "},
	} {
		t.Setenv(listVariable, c.list)
		t.Setenv(allVariable, c.all)
		p := player{T: t}
		Because(&p, "no qemu\n here")
		require.Contains(t, p.ended, c.want)
	}
	p := player{T: t}
	Done(&p, "the other")
	require.Equal(t, "skipped: done by the other", p.ended)
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, "no qemu here\tinternal/skip\tTestIt/part\n", string(text))
}

// What make test says at its end of such a list.
func TestLeftOut(t *testing.T) {
	said := func(lines string) string {
		list := filepath.Join(t.TempDir(), "list")
		require.NoError(t, os.WriteFile(list, []byte(lines), 0o600))
		out, err := exec.Command("../../test/leftout", list).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	require.Equal(t, "nothing was left out\n", said(""))
	require.Equal(t, "left out on this machine:\n"+
		"  needs root: 4 tests: test/ssh: TestA TestB/x TestC and 1 more\n"+
		"  no browser: 1 test: test/page: TestP\n",
		said("needs root\ttest/ssh\tTestA\nneeds root\ttest/ssh\tTestB/x\nno browser\ttest/page\tTestP\n"+
			"needs root\ttest/ssh\tTestC\nneeds root\ttest/ssh\tTestA\nneeds root\ttest/ssh\tTestD\n"))
	out, err := exec.Command("../../test/leftout", filepath.Join(t.TempDir(), "none")).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "nothing was left out\n", string(out))
}
