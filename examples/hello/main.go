// Command hello is the least program to start with ibrun: each rank says who and where it is.
//
// It refuses to use anything of ibrun but the environment that each rank sees, so it stands for any
// program.
package main

import (
	"fmt"
	"os"
)

func main() {
	host, err := os.Hostname()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
	fmt.Printf("hello from rank %s of %s, local rank %s of %s on %s\n",
		variable("RANK", "0"), variable("WORLD_SIZE", "1"),
		variable("LOCAL_RANK", "0"), variable("LOCAL_WORLD_SIZE", "1"), host)
}

// variable is an environment variable's value, or what a program started by hand has instead.
func variable(name, otherwise string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return otherwise
}
