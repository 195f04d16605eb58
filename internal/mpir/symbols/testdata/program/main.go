// Command program has the MPIR names, as ibrun has them, and uses them.
package main

import (
	"fmt"

	"ibrun/internal/mpir"
)

func main() { fmt.Println(mpir.BeingDebugged(), mpir.Spawned(nil)) }
