// Command into makes an ibrun that was built whole: it joins the program of a leaf to it, and packs
// it, as packages build and pack say. Without a LEAF it joins none, and without zstd it packs
// nothing, and says so.
package main

import (
	"errors"
	"fmt"
	"os"

	"ibrun/internal/build"
	"ibrun/internal/build/pack"
)

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: into FILE KEPT [LEAF]; KEPT is where what zstd makes of FILE is kept")
		os.Exit(2)
	}
	if err := into(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "into: %v\n", err)
		os.Exit(1)
	}
}

func into(file, kept string, leaf []string) error {
	if len(leaf) > 0 {
		if err := build.Join(file, leaf[0]); err != nil {
			return err
		}
	}
	err := pack.Into(file, kept, pack.Best)
	if errors.Is(err, pack.ErrNone) {
		fmt.Fprintf(os.Stderr, "%v; nodes without ibrun will be sent three times as many bytes\n", err)
		return nil
	}
	return err
}
