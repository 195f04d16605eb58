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
func showMachine(r *cli.Request) error {
	m, err := capture.Machine(r.TopoInput)
	if err != nil {
		return err
	}
	return report.WriteMachine(os.Stdout, m, r.Binding.Data)
}

// captureTo is ibrun --capture FILE: a tar, packed, since most of it is zeros.
func captureTo(name string) error {
	f, err := safefile.Replace(name)
	if err != nil {
		return exit.Usagef("--capture: %v", err)
	}
	z := gzip.NewWriter(f)
	if err := errors.Join(capture.Write(z, os.DirFS("/")), z.Close(), f.Close()); err != nil {
		return fmt.Errorf("--capture %s: %w", name, err)
	}
	return nil
}
