package main

import (
	"os"
	"path/filepath"
	"strings"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/cmd/ibrun/internal/ctl"
	"ibrun/cmd/ibrun/internal/run"
	"ibrun/internal/exit"
)

// controls reports whether a command line is of ibrun ctl, and returns its arguments.
func controls(argv []string) (args []string, ok bool) {
	switch {
	case len(argv) > 0 && filepath.Base(argv[0]) == ctl.Name:
		return argv[1:], true
	case len(argv) > 1 && argv[1] == ctl.Word:
		return argv[2:], true
	}
	return nil, false
}

// role runs the hidden roles of this binary, which its own kind starts; users
// have no use for them. ok is false if the arguments are a user's.
func role(args []string) (code int, ok bool) {
	if len(args) == 0 || !strings.HasPrefix(args[0], ":") {
		return 0, false
	}
	switch args[0] {
	case reaper.Role:
		return reaper.Main(args[1:]), true
	case reaper.Contain:
		return reaper.ContainMain(args[1:]), true
	case reaper.Inside:
		return reaper.InsideMain(args[1:]), true
	case reaper.Agent:
		if len(args) > 1 && remote.Refuse(os.Stdout, args[1]) {
			return exit.Self, true
		}
		remote.Arrive()
		return agent.Main(), true
	case reaper.Sweep:
		return reaper.SweepMain(args[1:]), true
	case agent.SpawnedRole:
		return spawnedMain(), true
	case run.LoadRole:
		return run.LoadMain(), true
	case run.DoctorRole:
		return run.DoctorMain(args[1:]), true
	}
	return 0, false
}
