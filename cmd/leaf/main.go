// As in cmd/ibrun.

//go:debug updatemaxprocs=0

// Command leaf is the agent of a node that starts no other by ssh, which is most nodes: the same
// agent without the packages that only others need. It travels inside ibrun, whose entry maps it
// (docs/dev/decisions/0033-lean-agent.md). It knows no options, and has no role but that of an agent.
package main

import (
	"fmt"
	"os"

	"ibrun/bootstrap/agent"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/internal/exit"
)

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 0 || args[0] != reaper.Agent:
		fmt.Fprintln(os.Stderr, "leaf: this is a part of ibrun, and no command; hint: make build")
		os.Exit(exit.Usage)
	case len(args) > 1 && remote.Refuse(os.Stdout, args[1]):
		os.Exit(exit.Self)
	default:
		remote.Arrive()
		os.Exit(agent.LeafMain())
	}
}
