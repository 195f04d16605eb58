// Package launch holds launches by ibrun against those of mpiexec.hydra, mpirun and parallel shells
// where they are installed, each over the same sshd or the same rsh stand-in of a virtual cluster,
// turn by turn. It keeps what it measured in a file, from which it draws a plot. As root:
//
//	bench launch turns IBRUN COPY ROUNDS FILE GROUP...  all cases of a group, or one: rsh:64x16
//	bench launch before IBRUN OLDER ROUNDS GROUP... the same job by two builds of ibrun
//	bench launch spread IBRUN                       20 launches of 64 nodes
//	bench launch plot FILE PICTURE.svg
//	bench launch sweep IBRUN ROUNDS FILE PICTURE.svg    over how long a session takes, and nodes
//
// IBRUN of turns is installed, as the other launchers are (test/installed), and COPY the same
// program elsewhere, which each node looks for.
//
// It refuses to prepare the machine: make bench-launch does.
package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// Roles. LagPrefix begins the name of a link to the program, by which it is the rsh stand-in with
// a latency: mpiexec.hydra gives its remote shell no arguments of ours. The program then calls Run
// with LagRole, the latency behind the prefix, and its arguments.
const (
	LagPrefix = "lag-"
	LagRole   = "lag"
	floorRole = "floor"
)

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) > 2 && args[0] == LagRole:
		return hosts.Lag(args[1], standIn, append([]string{"vrsh"}, args[2:]...))
	case len(args) == 5 && args[0] == floorRole:
		return floor(args[1], args[2], args[3], args[4])
	case len(args) >= 6 && args[0] == "turns":
		rounds, err := figure.Rounds(args[3])
		if err != nil {
			return err
		}
		return turns(args[1], args[2], rounds, args[4], args[5:])
	case len(args) >= 5 && args[0] == "before":
		rounds, err := figure.Rounds(args[3])
		if err != nil {
			return err
		}
		return before(args[1], args[2], rounds, args[4:])
	case len(args) == 2 && args[0] == "spread":
		return spread(args[1])
	case len(args) == 5 && args[0] == "sweep":
		rounds, err := figure.Rounds(args[2])
		if err != nil {
			return err
		}
		return sweep(args[1], rounds, args[3], args[4])
	case len(args) == 3 && args[0] == "plot":
		return plot(args[1], args[2])
	}
	return errors.New("usage: bench launch turns IBRUN COPY ROUNDS FILE GROUP... | " +
		"before IBRUN OLDER ROUNDS GROUP... | spread IBRUN | plot FILE PICTURE.svg | " +
		"sweep IBRUN ROUNDS FILE PICTURE.svg")
}

// standIn is where each host of a virtual cluster has the rsh stand-in (cluster.VRSH).
const standIn = "/run/vcluster/vrsh"

// turns measures some groups, adds them to the file, and says which bounds are kept.
func turns(ibrun, elsewhere string, rounds int, file string, names []string) error {
	kept, err := load(file)
	if err != nil {
		return err
	}
	if ibrun, err = filepath.Abs(ibrun); err != nil {
		return err
	}
	if elsewhere, err = filepath.Abs(elsewhere); err != nil {
		return err
	}
	return eachCase(rounds, names, func(g group, st *stage, s size) []contestant {
		all := g.contestants(ibrun, st, s)
		if g.here || g.alone {
			return all
		}
		second := g.contestants(elsewhere, st, s)[0]
		second.name = uninstalled
		return slices.Insert(all, 1, second)
	}, func(r *row, bounds *figure.Bounds) error {
		kept.put(*r)
		r.print()
		r.judge(bounds)
		return kept.save(file)
	})
}

// eachCase measures the cases of some groups, and gives each row to the caller. The error may be of
// the bounds.
func eachCase(rounds int, names []string, contestants func(group, *stage, size) []contestant,
	take func(*row, *figure.Bounds) error) error {
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, name := range names {
		name, g, err := named(name)
		if err != nil {
			return err
		}
		for _, c := range g.cases() {
			r, err := measure(rounds, g, c, func(st *stage) []contestant { return contestants(g, st, c) })
			if err != nil {
				return err
			}
			r.Group = name
			if err := take(&r, &bounds); err != nil {
				return err
			}
		}
	}
	return bounds.Err()
}

// mostAfter bounds the time of a build of ibrun beside that of an older one, where a change was to
// change nothing.
const mostAfter = 1.03

// before launches the same jobs by two builds of ibrun, turn by turn.
func before(ibrun, earlier string, rounds int, names []string) error {
	ibrun, err := filepath.Abs(ibrun)
	if err != nil {
		return err
	}
	if earlier, err = filepath.Abs(earlier); err != nil {
		return err
	}
	return eachCase(rounds, names, func(g group, st *stage, s size) []contestant {
		first, second := g.contestants(ibrun, st, s)[0], g.contestants(earlier, st, s)[0]
		second.name = older
		return []contestant{first, second}
	}, func(r *row, bounds *figure.Bounds) error {
		r.print()
		mine, _ := r.find(ours)
		was, _ := r.find(older)
		bounds.AtMost(r.title()+": ibrun / ibrun of before", mine.Median/was.Median, mostAfter)
		return nil
	})
}
