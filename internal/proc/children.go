package proc

// Children are the live children of a process, as far as they can be told.
func Children(pid int) []int { return children(pid).live }

// Stat is what /proc/PID/stat has behind the name: state, parent and so on, proc(5). Nothing: there
// is no such process.
func Stat(pid int) []string {
	_, words := stat(pid)
	return words
}
