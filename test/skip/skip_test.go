package skip

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// player stands for a test; it notes how it ended.
type player struct{ ended string }

func (*player) Helper()           {}
func (p *player) Skip(why ...any) { p.ended = "skipped: " + fmt.Sprint(why...) }
func (p *player) Fatal(w ...any)  { p.ended = "failed: " + fmt.Sprint(w...) }

func TestBecause(t *testing.T) {
	for all, want := range map[string]string{"": "skipped: no qemu here", "1": "failed: no qemu here"} {
		t.Setenv(allVariable, all)
		var p player
		Because(&p, "no qemu here")
		require.Equal(t, want, p.ended)
		Done(&p, "the other")
		require.Equal(t, "skipped: done by the other", p.ended)
	}
}
