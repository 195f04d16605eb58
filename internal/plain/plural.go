package plain

import "fmt"

// Plural is a number and its noun: "1 node", "2 nodes".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
