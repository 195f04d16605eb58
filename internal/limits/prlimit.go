//go:build amd64 || arm64

package limits

// prlimit is prlimit64(2) of this process, for reading. What fails leaves l alone.
func prlimit(resource uintptr, l *Limit)
