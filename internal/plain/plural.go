package plain

import "fmt"

// Plural returns n followed by the noun thing, to which it appends an s unless n is 1: "1 node", "2 nodes".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
