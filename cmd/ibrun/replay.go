package main

import (
	"bufio"
	"fmt"
	"os"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/flight"
	"ibrun/internal/build"
	"ibrun/internal/proc"
)

// recordTo writes what agents have recorded to a file, which may name keys and hosts of the job.
func recordTo(path string, say func(format string, args ...any)) func([]byte) {
	return func(file []byte) {
		if err := os.WriteFile(path, file, 0o600); err != nil {
			say("--record: %v", err)
			return
		}
		say("what happened to the agents is in %s; hint: ibrun --replay %s", path, path)
	}
}

// replay prints a record as it is decided again, and returns the exit code.
func replay(path string) int {
	file, err := os.ReadFile(path)
	if err != nil {
		return complain(err)
	}
	by, agents, err := flight.Open(file)
	if err != nil {
		return complain(fmt.Errorf("--replay %s: %w", path, err))
	}
	if by != build.ID() {
		return complain(fmt.Errorf("--replay %s: build %s wrote it, this is build %s; hint: use that ibrun, since "+
			"another one may decide otherwise", path, by, build.ID()))
	}
	out := bufio.NewWriter(proc.ConsoleWriter(os.Stdout))
	same, err := flight.Print(out, agents, agent.JoinParcels)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err == nil && !same {
		err = fmt.Errorf("--replay %s: this machine decides otherwise than the record says", path)
	}
	if err != nil {
		return complain(err)
	}
	return 0
}
