// Package plural writes a number of things for the user. It knows no irregular nouns.
package plural

import "fmt"

// Of is a number and its noun: "1 node", "2 nodes".
func Of(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
