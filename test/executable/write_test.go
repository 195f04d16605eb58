package executable

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/proc"
)

// What was written can be started at once, whatever else is started then.
func TestStartedAtOnce(t *testing.T) { startAtOnce(t, 50) }

// startAtOnce writes programs and starts them, while others are started.
func startAtOnce(t *testing.T, programs int) {
	dir, stop, stopped := t.TempDir(), make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := proc.Start(proc.Cmd{Path: "/bin/true", Argv: []string{"true"}}); err != nil {
				stopped <- err
				<-stop
				return
			}
		}
	}()
	for i := range programs {
		path := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, Write(path, []byte("#!/bin/true\n")))
		_, err := proc.Start(proc.Cmd{Path: path, Argv: []string{path}})
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
	}
	close(stop)
	require.NoError(t, <-stopped)
}
