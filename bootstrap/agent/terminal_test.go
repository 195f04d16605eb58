package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is typed may come in any pieces.
func TestEscapes(t *testing.T) {
	for typed, want := range map[string]string{
		"ls\r":        "ls\r",
		"~.":          "|end",
		"ls\r~.more":  "ls\r|end",
		"a~.\n~~\n~x": "a~.\n~\n~x",
		"~~.\r~a~.":   "~.\r~a~.",
		"~\r~.":       "~\r|end",
		"\n\n~":       "\n\n",
	} {
		for size := 1; size <= len(typed); size++ {
			var e escapes
			var got strings.Builder
			for rest := typed; rest != ""; {
				n := min(size, len(rest))
				data, end := e.filter([]byte(rest[:n]))
				rest = rest[n:]
				got.Write(data)
				if end {
					got.WriteString("|end")
					break
				}
			}
			require.Equal(t, want, got.String(), "%q by %d", typed, size)
		}
	}
}
