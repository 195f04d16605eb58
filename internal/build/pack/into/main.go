// Command into packs an ibrun that was built: into FILE KEPT (package pack). Without zstd FILE
// stays as it is.
package main

import (
	"errors"
	"fmt"
	"os"

	"ibrun/internal/build/pack"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: into FILE KEPT")
		os.Exit(2)
	}
	switch err := pack.Into(os.Args[1], os.Args[2], pack.Best); {
	case errors.Is(err, pack.ErrNone):
		fmt.Fprintf(os.Stderr, "%v; nodes without ibrun will be sent three times as many bytes\n", err)
	case err != nil:
		fmt.Fprintf(os.Stderr, "into: %v\n", err)
		os.Exit(1)
	}
}
