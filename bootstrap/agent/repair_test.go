package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/build"
	"ibrun/internal/job"
	"ibrun/test/executable"
)

// An agent that answers Join over a starter that holds output until a line ends writes a newline
// behind its answer, and over others only the answer: after it the link is another agent's.
func TestJoinedEndsALine(t *testing.T) {
	for lines, behind := range map[bool]string{true: "\n", false: ""} {
		l := &loop{up: newLink()}
		r, w := io.Pipe()
		go l.up.write(w)
		written := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(r)
			written <- all
		}()
		l.handOver(wire.Join{Job: "of nobody", Lines: lines})
		want := string(frame.Append(nil, wire.Joined{How: wire.JoinedNobody})) + behind
		require.Equal(t, want, string(<-written))
	}
}

// A parent asks for newlines where its job's starter may hold output, and reads past them.
func TestJoinOverLines(t *testing.T) {
	dir := t.TempDir()
	path, asked := filepath.Join(dir, "blaunch"), filepath.Join(dir, "asked")
	ask := frame.Append(nil, wire.Join{Job: "4711", Lines: true})
	text := fmt.Sprintf("#!/bin/sh\nprintf '::ibrun-agent:1 %s m 1::\\n'\nhead -c %d >%s\n"+
		`printf '\n\n\0\0\0\002\072\001\n'`+"\n", build.ID(), len(ask), asked)
	require.NoError(t, executable.Write(path, []byte(text)))
	l := newLoop(t.Context(), core.Config{})
	how := job.LaunchOptions{Launcher: "lsf", Starter: []string{path, job.StarterHost}}
	require.NoError(t, l.launched(&job.Job{ID: "4711", Launch: how}))
	_, err := l.openJoin(t.Context(), core.JoinChild{Node: job.Node{Host: "n1"}, Most: time.Minute})
	require.Equal(t, &remote.Error{Phase: "join", Cause: "its agent is gone"}, err)
	got, err := os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, ask, got)
}
