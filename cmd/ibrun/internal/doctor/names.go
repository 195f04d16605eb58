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
	var parts []string
	for _, r := range job.NewNodes(0, runs).Runs() {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, ",")
}

// numbered takes a name apart at its last number. An address has none, since
// its numbers are no range.
func numbered(name string) job.Run {
	end := len(name)
	if strings.Trim(name, "0123456789.:abcdefABCDEF") == "" && strings.ContainsAny(name, ".:") {
		end = 0
	}
	for end > 0 && (name[end-1] < '0' || name[end-1] > '9') {
		end--
	}
	at := end
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' && end-at < 18 {
		at--
	}
	n, err := strconv.ParseUint(name[at:end], 10, 63)
	if err != nil {
		return job.Run{Prefix: name, Count: 1}
	}
	return job.Run{Prefix: name[:at], Suffix: name[end:], Width: uint8(end - at), Lo: n, Count: 1}
}
