// Command launch holds launches by ibrun against those of mpiexec.hydra, mpirun
// and parallel shells where they are installed, each over the same sshd or the
// same rsh stand-in of a virtual cluster, turn by turn. It keeps what it measured
// in a file, from which it draws a plot. As root:
//
//	bench-launch turns IBRUN ROUNDS FILE GROUP...   all cases of a group, or one of them: rsh:64x16
//	bench-launch spread IBRUN                       20 launches of 64 nodes
//	bench-launch plot FILE PICTURE.svg
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ibrun/test/bench/figure"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if delay, ok := strings.CutPrefix(filepath.Base(os.Args[0]), lagPrefix); ok {
		return lag(delay, args)
	}
	switch {
	case len(args) == 4 && args[0] == floorRole:
		return floor(args[1], args[2], args[3])
	case len(args) >= 5 && args[0] == "turns":
		rounds, err := strconv.Atoi(args[2])
		if err != nil || rounds < 1 {
			return fmt.Errorf("%q rounds", args[2])
		}
		return turns(args[1], rounds, args[3], args[4:])
	case len(args) == 2 && args[0] == "spread":
		return spread(args[1])
	case len(args) == 3 && args[0] == "plot":
		return plot(args[1], args[2])
	}
	return errors.New("usage: bench-launch turns IBRUN ROUNDS FILE GROUP... | spread IBRUN | plot FILE PICTURE.svg")
}

// turns measures some groups, adds them to the file, and says which bounds are kept.
func turns(ibrun string, rounds int, file string, names []string) error {
	kept, err := load(file)
	if err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	bounds := figure.Bounds{To: os.Stdout}
	for _, name := range names {
		name, g, err := named(name)
		if err != nil {
			return err
		}
		for _, c := range g.cases() {
			r, err := measure(ibrun, rounds, g, c)
			if err != nil {
				return err
			}
			r.Group = name
			kept.put(r)
			r.print()
			r.judge(&bounds)
			if err := kept.save(file); err != nil {
				return err
			}
		}
	}
	return bounds.Err()
}
