package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ranks that notice the end of another exit with a code of their own, and word of that
// may come to the root before word of the end. The end is to blame, each time: the
// victim is far from the root, and those who notice are near.
func TestWhoIsToBlame(t *testing.T) {
	const rounds, ranks = 64, 8
	for _, c := range []struct {
		name, victim string
		code         int
		says         string
	}{
		{"rank", "kill -KILL $$", 137, "rank 7 on d was killed by signal 9 (KILL)"},
		{"agent", "kill -KILL $PPID; sleep 100", 125, "the agent on d was lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := map[int]int{}
			var mu sync.Mutex
			t.Run("rounds", func(t *testing.T) {
				for i := range rounds {
					t.Run(strconv.Itoa(i), func(t *testing.T) {
						t.Parallel()
						// The victim holds the pipe that the others read, and ends when they all
						// do.
						dir := t.TempDir()
						script := filepath.Join(dir, "rank")
						require.NoError(t, os.WriteFile(script, []byte(`
							cd `+dir+`
							if [ $RANK = 7 ]; then
								exec 3>pipe
								while [ $(ls ready.* | wc -l) -lt `+strconv.Itoa(ranks-1)+` ]; do sleep 0.01; done
								`+c.victim+`
							fi
							exec 3<pipe
							: >ready.$RANK
							read x <&3 || exit 5`), 0o644))
						o := ibrun(t, args(deep, "-n", strconv.Itoa(ranks), "sh", "-c", "[ -p "+dir+
							"/pipe ] || mkfifo "+dir+"/pipe 2>/dev/null; . "+script)...)
						mu.Lock()
						defer mu.Unlock()
						if o.code != c.code {
							wrong[o.code]++
						}
						assert.Contains(t, o.stderr, c.says)
					})
				}
			})
			require.Empty(t, wrong, "codes other than %d, of %d rounds", c.code, rounds)
		})
	}
}
