// Package hosts is what launchers are given by benchmarks: the nodes of a virtual cluster in their
// files of hosts, and a remote shell with latency.
//
// It refuses to start launchers.
package hosts

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Names are those of the first nodes of a virtual cluster.
func Names(nodes int) (names []string) {
	for i := range nodes {
		names = append(names, fmt.Sprintf("node%04d", i+1))
	}
	return names
}

// Files writes nodes, each with so many ranks, into a folder: as ibrun and mpiexec.hydra read them,
// and as Open MPI does.
func Files(dir string, nodes []string, ranks int) (hydra, openMPI string, err error) {
	var colons, slots strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&colons, "%s:%d\n", n, ranks)
		fmt.Fprintf(&slots, "%s slots=%d\n", n, ranks)
	}
	hydra, openMPI = filepath.Join(dir, "hydra"), filepath.Join(dir, "openmpi")
	if err = os.WriteFile(hydra, []byte(colons.String()), 0o644); err == nil {
		err = os.WriteFile(openMPI, []byte(slots.String()), 0o644)
	}
	return hydra, openMPI, err
}

// Address is this node's own on the link of a virtual cluster.
func Address() (net.IP, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP, nil
		}
	}
	return nil, errors.New("this node has no address")
}

// Lag is what a remote shell with latency does: it waits so long, and becomes a program with argv.
func Lag(latency, program string, argv []string) error {
	d, err := time.ParseDuration(latency)
	if err != nil {
		return err
	}
	<-time.After(d)
	return syscall.Exec(program, argv, os.Environ())
}
