// Command into adds the packed form of its program to an ibrun that was built. Without zstd it adds nothing and
// prints a warning.
package main

import (
	"errors"
	"fmt"
	"os"

	"ibrun/internal/build/pack"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: into FILE PACKED; PACKED is the file that retains the packed form for the next call")
		os.Exit(2)
	}
	if err := into(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "into: %v\n", err)
		os.Exit(1)
	}
}

func into(file, kept string) error {
	err := pack.Into(file, kept, pack.Best)
	if errors.Is(err, pack.ErrNone) {
		fmt.Fprintf(os.Stderr, "%v; nodes without ibrun will be sent three times as many bytes\n", err)
		return nil
	}
	return err
}
