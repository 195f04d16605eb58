//go:build leaf

package agent

import (
	"time"

	"ibrun/bootstrap/core"
	"ibrun/job"
)

// rootSide is the root's, which is never a leaf: the core of another agent has none of its effects.
type rootSide struct{}

func (*rootSide) end(core.Outcome) {}

func (*rootSide) perform(*loop, core.Effect) {}

// recording is nothing: a leaf whose job wants one becomes the whole program.
type recording struct{}

func newRecording(core.Config) *recording { return nil }

func (*recording) add(time.Duration, core.Event, []core.Effect) {}

func (*loop) keepRecord(bool, string, job.NodeIndex) {}

func (*loop) sendRecord() {}
