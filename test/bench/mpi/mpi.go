// Package mpi holds programs of PMI and MPI under ibrun against the same under their own launchers,
// turn by turn:
//
//	bench mpi exchange IBRUN NODES PPN ROUNDS GO C         a PMI exchange over ssh and as over rsh
//	bench mpi hello IBRUN NODES PPN ROUNDS MPICH OPENMPI   programs of both libraries say hello
//	bench mpi newer IBRUN NODES PPN ROUNDS ROOT OPENMPI    Open MPI 5 in a root of test/fleet
//	bench mpi apps NODES PPN ROUNDS BENCH MPICH OPENMPI PAGE   steps of patterns of messages
//	bench mpi curve ROUNDS BENCH MPICH OPENMPI FILE PICTURE    round trips of all sizes
//	bench mpi busy ROUNDS OPENMPI                    four ranks on two CPUs that others keep busy
//	bench mpi agent ROUNDS CLIENT                    an agent's memory with 16 clients of PMIx
//
// IBRUN is installed, as the other launchers are (test/installed). The exchange has bin/ibrun, too,
// which each node looks for; its clients are test/pmi and c/exchange.c. MPICH and OPENMPI of apps
// and curve are c/pattern.c; BENCH is this program, of which a rank is test/bench/pattern. All but
// the last two run on the front of a virtual cluster, all in the directory that has bin/ibrun and
// bin/fleet. Elsewhere MPICH and OPENMPI are test/mpi/testdata/mpi.c, built for each; CLIENT is
// pmixclient.c there. `make bench-mpi` runs them.
//
// It refuses to build programs and to bring clusters up.
package mpi

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
	"ibrun/test/bench/pattern"
)

// built is an ibrun that is not installed.
const built = "bin/ibrun"

// standIn is where each host of a virtual cluster has the rsh stand-in (cluster.VRSH).
const standIn = "/run/vcluster/vrsh"

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "pattern": // a rank of apps and curve
		return pattern.Run(args[1:])
	case len(args) == 7 && args[0] == "exchange":
		return onCluster(args[1], args[2:5], func(j job) error {
			return errors.Join(j.exchange("PMI exchange", args[5]),
				j.exchange("PMI exchange of programs in C", args[6]))
		})
	case len(args) == 7 && args[0] == "hello":
		return onCluster(args[1], args[2:5], func(j job) error { return j.hello(args[5], args[6]) })
	case len(args) == 7 && args[0] == "newer":
		return onCluster(args[1], args[2:5], func(j job) error { return j.newer(args[5], args[6]) })
	case len(args) == 8 && args[0] == "apps":
		return onCluster(built, args[1:4], func(j job) error { return j.apps(args[4], args[5], args[6], args[7]) })
	case len(args) == 7 && args[0] == "curve":
		return onCluster(built, []string{"2", "1", args[1]}, func(j job) error {
			return j.curve(args[2], args[3], args[4], args[5], args[6])
		})
	case len(args) == 3 && (args[0] == "busy" || args[0] == "agent"):
		rounds, err := figure.Rounds(args[1])
		if err != nil {
			return err
		}
		if args[0] == "agent" {
			return agent(rounds, args[2])
		}
		return busy(rounds, args[2])
	}
	return errors.New("usage: bench mpi exchange IBRUN NODES PPN ROUNDS GO C | " +
		"hello IBRUN NODES PPN ROUNDS MPICH OPENMPI | newer IBRUN NODES PPN ROUNDS ROOT OPENMPI | " +
		"apps NODES PPN ROUNDS BENCH MPICH OPENMPI PAGE | curve ROUNDS BENCH MPICH OPENMPI FILE PICTURE | " +
		"pattern ... | busy ROUNDS OPENMPI | agent ROUNDS CLIENT")
}

// job is a size of job on a cluster.
type job struct {
	ibrun                  string // the program
	nodes, perNode, rounds int
	ranks                  string // all of them, as launchers are told
	hydra, openMPI         string // files of hosts
}

// onCluster measures jobs of a size: nodes, ranks per node, rounds.
func onCluster(ibrun string, size []string, measure func(job) error) (err error) {
	j := job{ibrun: ibrun}
	for i, to := range []*int{&j.nodes, &j.perNode, &j.rounds} {
		if *to, err = strconv.Atoi(size[i]); err != nil || *to < 1 {
			return fmt.Errorf("invalid number of nodes, ranks per node or rounds: %q", size[i])
		}
	}
	j.ranks = strconv.Itoa(j.nodes * j.perNode)
	dir, err := os.MkdirTemp("", "bench-mpi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if j.hydra, j.openMPI, err = hosts.Files(dir, hosts.Names(j.nodes), j.perNode); err != nil {
		return err
	}
	return measure(j)
}

func (j job) underIbrun(argv ...string) []string {
	return append([]string{j.ibrun, "-n", j.ranks, "-f", j.hydra}, argv...)
}

func (j job) underHydra(argv ...string) []string {
	return append([]string{"mpiexec.hydra", "-launcher", "ssh", "-n", j.ranks, "-f", j.hydra}, argv...)
}

func (j job) underOpenMPI(argv ...string) []string {
	return append([]string{"mpirun.openmpi", "--hostfile", j.openMPI,
		"-x", "OMPI_MCA_mpi_yield_when_idle", "-n", j.ranks}, argv...)
}
