package doctor

import (
	"strconv"
	"strings"

	"ibrun/internal/job"
)

// Fold writes names as a host list would: node[0001-0063],other. The order
// stays.
func Fold(names []string) string {
	var runs []job.Run
	for _, name := range names {
		runs = append(runs, numbered(name))
	}
	return job.NewNodes(0, runs).HostList()
}

// numbered takes a name apart at its last number. An address has none, since
// its numbers are no range.
func numbered(name string) job.Run {
	const digits = "0123456789"
	end := strings.LastIndexAny(name, digits) + 1
	if strings.Trim(name, digits+".:abcdefABCDEF") == "" && strings.ContainsAny(name, ".:") {
		end = 0
	}
	at := max(len(strings.TrimRight(name[:end], digits)), end-18)
	n, err := strconv.ParseUint(name[at:end], 10, 63)
	if err != nil {
		return job.Run{Prefix: name, Count: 1}
	}
	return job.Run{Prefix: name[:at], Suffix: name[end:], Width: uint8(end - at), Lo: n, Count: 1}
}
