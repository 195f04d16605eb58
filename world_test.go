package ibrun

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// TestKeys checks that checkPut accepts keys and values up to their maximum lengths, and rejects longer values and
// invalid keys.
func TestKeys(t *testing.T) {
	require.NoError(t, checkPut("k", nil))
	require.NoError(t, checkPut("k\x00", make([]byte, rankwire.MaxValue)))
	for _, bad := range []string{"", strings.Repeat("k", rankwire.MaxKey+1), secondaryKey, "\x00"} {
		require.Error(t, checkPut(bad, nil), "key %q", bad)
	}
	require.Error(t, checkPut("k", make([]byte, rankwire.MaxValue+1)))
}

// notOfARank holds the counts that have no field in Stats, because only agents or users of PMI (the process management
// interface of MPI) increase them.
var notOfARank = map[job.Count]bool{
	job.CountRanks: true, job.CountPuts: true, job.CountGets: true, job.CountFences: true,
	job.CountBarriers: true, job.CountAway: true, job.CountBulkFetches: true,
}

// TestStatsHaveEachCount sets one count of package job at a time. Exactly one field of Stats must show it, or none if
// the count is in notOfARank. No field may show two counts.
func TestStatsHaveEachCount(t *testing.T) {
	fields := map[string]bool{}
	for i := range job.Counts {
		var tally job.Tally
		tally.Sum[i] = 7
		stats := reflect.ValueOf(statsOf(&tally))
		set := 0
		for f := range stats.NumField() {
			if stats.Field(f).IsZero() {
				continue
			}
			set++
			name := stats.Type().Field(f).Name
			require.False(t, fields[name], "%s shows more than one count", name)
			fields[name] = true
			if d, ok := stats.Field(f).Interface().(time.Duration); ok {
				require.Equal(t, 7*time.Microsecond, d)
			} else {
				require.EqualValues(t, 7, stats.Field(f).Interface())
			}
		}
		require.Equal(t, map[bool]int{true: 0, false: 1}[notOfARank[i]], set,
			"number of fields that show the count %s", job.CountNames[i])
	}
	var tally job.Tally
	tally.Latency.Observe(time.Millisecond)
	tally.Latency.Observe(time.Second)
	stats := statsOf(&tally)
	require.InEpsilon(t, time.Second, stats.FirstMessageLongest, 0.1)
	require.NotZero(t, stats.FirstMessageMedian)
	require.Len(t, fields, reflect.TypeFor[Stats]().NumField()-2)
}
