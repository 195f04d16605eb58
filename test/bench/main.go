// Command bench measures ibrun beside what it is compared with. `bench` alone lists the subjects;
// the targets bench-* of the Makefile build what each of them needs, and run it.
//
// It refuses to measure anything itself: each subject is a package below.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ibrun/test/bench/between"
	"ibrun/test/bench/charm"
	"ibrun/test/bench/every"
	"ibrun/test/bench/exec"
	"ibrun/test/bench/ib"
	"ibrun/test/bench/launch"
	"ibrun/test/bench/lazy"
	"ibrun/test/bench/managers"
	"ibrun/test/bench/mpi"
	"ibrun/test/bench/resize"
	"ibrun/test/bench/spawn"
	"ibrun/test/bench/ssh"
	"ibrun/test/bench/topo"
	"ibrun/test/bench/tree"
)

// subject is what can be measured.
type subject struct {
	name, what string
	run        func(args []string) error
}

var subjects = []subject{
	{"launch", "launches beside mpiexec.hydra, mpirun and bare sessions on virtual clusters", launch.Run},
	{"data", "messages between nodes beside plain UDP and TCP, held against bounds", between.Run},
	{"lazy", "messages beside plain UDP and TCP, and the time until ranks may send", lazy.Run},
	{"mpi", "programs of MPI and PMI beside their own launchers", mpi.Run},
	{"exec", "a command beside the ranks of a running job beside a launch of its own", exec.Run},
	{"charm", "a program of Charm++'s layer netlrts under ibrun beside charmrun", charm.Run},
	{"resize", "a running job that grows and shrinks beside a restart of it", resize.Run},
	{"managers", "a launch in a job of Slurm beside plain srun", managers.Run},
	{"ib", "InfiniBand beside ibv_rc_pingpong", ib.Run},
	{"spawn", "the start of a rank beside posix_spawn", spawn.Run},
	{"ssh", "one ssh hop by native ssh beside the program ssh", ssh.Run},
	{"topo", "reading a node beside lstopo, and what binding adds to a start", topo.Run},
	{"all", "all that make has targets for, with the results in a file and on a page", every.Run},
	{"tree", "launches over a remote shell with latency beside the best tree", tree.Run},
}

func main() {
	args := os.Args[1:]
	if latency, ok := strings.CutPrefix(filepath.Base(os.Args[0]), launch.LagPrefix); ok {
		args = append([]string{"launch", launch.LagRole, latency}, args...)
	}
	if err := run(args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, list io.Writer) error {
	if len(args) == 0 {
		for _, s := range subjects {
			if _, err := fmt.Fprintf(list, "bench %-8s %s\n", s.name, s.what); err != nil {
				return err
			}
		}
		return nil
	}
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no such subject: %q; bench alone lists them", args[0])
	}
	return subjects[i].run(args[1:])
}
