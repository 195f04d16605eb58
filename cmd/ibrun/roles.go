package main

import (
	"os"
	"strings"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/spawn"
	"ibrun/internal/exit"
	"ibrun/internal/survey"
)

// role runs the hidden roles of this binary, which its own kind starts; users
// have no use for them. ok is false if the arguments are a user's.
func role(args []string) (code int, ok bool) {
	if len(args) == 0 || !strings.HasPrefix(args[0], ":") {
		return 0, false
	}
	switch args[0] {
	case reaper.Role:
		return reaper.Main(args[1:]), true
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
	case survey.LoadRole:
		return survey.LoadMain(), true
	case survey.DoctorRole:
		return survey.DoctorMain(args[1:]), true
	case spawn.LimitRole:
		return spawn.LimitMain(args[1:]), true
	}
	return 0, false
}
