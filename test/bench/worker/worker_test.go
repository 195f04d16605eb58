package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	w, err := Start("echo", "sh", "-c", `while read line; do echo "<$line>"; done`)
	require.NoError(t, err)
	for _, line := range []string{"a", "", "b c"} {
		answer, err := w.Ask(line)
		require.NoError(t, err)
		require.Equal(t, "<"+line+">", answer)
	}
	_, err = w.Close()
	require.NoError(t, err)
}

// A worker that ends too early, or badly, is an error that names it.
func TestEnded(t *testing.T) {
	w, err := Start("short", "sh", "-c", "echo one; exit 3")
	require.NoError(t, err)
	line, err := w.Line()
	require.NoError(t, err)
	require.Equal(t, "one", line)
	_, err = w.Line()
	require.EqualError(t, err, "short ended")
	_, err = w.Close()
	require.EqualError(t, err, "short: exit status 3")
}

func TestKill(t *testing.T) {
	w, err := Start("deaf", "sleep", "60")
	require.NoError(t, err)
	w.Kill()
	_, err = w.Line()
	require.EqualError(t, err, "deaf ended")
}
