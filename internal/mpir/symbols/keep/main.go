// Command keep leaves a binary its MPIR names, and drops its other symbols: keep FILE.
package main

import (
	"fmt"
	"os"

	"ibrun/internal/mpir/symbols"
)

func main() {
	if err := symbols.Keep(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintf(os.Stderr, "keep: %v\n", err)
		os.Exit(1)
	}
}
