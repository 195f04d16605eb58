// Command bench compares the performance of ibrun with that of other programs. Without arguments it lists its
// subcommands. The script test/bench/run builds the programs that a subcommand needs and runs the subcommand.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"ibrun/test/bench/launch"
	"ibrun/test/bench/message"
	"ibrun/test/bench/mpi"
)

// command is a subcommand. args names its arguments in the list of subcommands. A subcommand whose name has a leading
// colon is not listed: other subcommands start it in a separate process.
type command struct {
	name, args string
	run        func(args []string) error
}

var commands = []command{
	{"all", "PAGE TARGET...", all},
	{"launch", "IBRUN COPY ROUNDS FILE CASE...", launch.Launch},
	{"before", "IBRUN OLDER ROUNDS CASE...", launch.Before},
	{"spread", "IBRUN", launch.Spread},
	{"sweep", "IBRUN ROUNDS FILE", launch.Sweep},
	{"tree", "IBRUN ROUNDS", launch.Tree},
	{"exec", "IBRUN NODES ROUNDS", launch.Exec},
	{"resize", "IBRUN PROGRAM NODES ROUNDS", launch.Resize},
	{"managers", "IBRUN NODES PERNODE ROUNDS", launch.Managers},
	{"ssh", "ROUNDS HOST", launch.SSH},
	{"spawn", "ROUNDS POSIX PROGRAM", launch.Spawn},
	{"topo", "IBRUN", launch.Topo},
	{":floor", "SHELL NODES WINDOW PROGRAM", launch.Floor},
	{":starts", "MIB PROGRAM", launch.Starts},
	{":managed", "IBRUN ROUNDS", launch.Managed},
	{"data", "IBRUN ROUNDS PAGE", message.Data},
	{"here", "IBRUN ROUNDS", message.Here},
	{"lazy", "NODES PERNODE ROUNDS ROUNDS IBRUN DENSE SPARSE", message.Lazy},
	{":rank", "ROLE NUMBER...", message.Rank},
	{"ib", "DEVICE MODE MACHINE", message.IB},
	{"curve-ib", "DEVICE ROUNDS", message.CurveIB},
	{":echo", "DEVICE MODE", message.Echo},
	{":turn", "DEVICE MODE BYTES TRIPS", message.Turn},
	{"apps", "NODES PERNODE ROUNDS BENCH MPICH OPENMPI PAGE", mpi.Apps},
	{"curve", "ROUNDS BENCH MPICH OPENMPI FILE", mpi.Curve},
	{"exchange", "IBRUN NODES PERNODE ROUNDS GO C", mpi.Exchange},
	{"hello", "IBRUN NODES PERNODE ROUNDS MPICH OPENMPI", mpi.Hello},
	{"newer", "IBRUN NODES PERNODE ROUNDS ROOT OPENMPI", mpi.Newer},
	{"busy", "ROUNDS OPENMPI", mpi.Busy},
	{"agent", "ROUNDS CLIENT", mpi.Agent},
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, list io.Writer) error {
	if len(args) == 0 {
		for _, c := range commands {
			if !strings.HasPrefix(c.name, ":") {
				fmt.Fprintln(list, "bench", c.name, c.args)
			}
		}
		return nil
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no such subcommand: %q; bench alone lists them", args[0])
	}
	if err := commands[i].run(args[1:]); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
