package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/internal/exit"
	"ibrun/internal/safefile"
	"ibrun/topo/capture"
)

// showMachine is ibrun --display topo without a program.
func showMachine(r *cli.Request) int {
	m, err := capture.Machine(r.TopoInput)
	if err != nil {
		return complain(err)
	}
	if err := report.WriteMachine(os.Stdout, m, r.Binding.Data); err != nil {
		return complain(err)
	}
	return 0
}

// captureTo is ibrun --capture FILE: a tar, packed, since most of it is zeros.
func captureTo(name string) int {
	f, err := safefile.Replace(name)
	if err != nil {
		return complain(exit.Usagef("--capture: %v", err))
	}
	z := gzip.NewWriter(f)
	err = errors.Join(capture.Write(z, os.DirFS("/")), z.Close(), f.Close())
	if err != nil {
		return complain(fmt.Errorf("--capture %s: %w", name, err))
	}
	return 0
}
