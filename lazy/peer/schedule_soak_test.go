//go:build soak

package peer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestManyHeldSchedules runs more of the schedules of TestHeldSchedules.
func TestManyHeldSchedules(t *testing.T) { runHeldSchedules(t, 20_000) }

// TestManySchedules runs so many schedules that they use each row of the table of the connection.
func TestManySchedules(t *testing.T) {
	ever := runSchedules(t, 100_000)
	for state := range states {
		for in, r := range index[state] {
			if !strings.HasPrefix(r.why, "cannot be") {
				assert.NotZero(t, ever[[2]int{int(state), in}], "%v, %v is never reached", state, input(in))
			}
		}
	}
}

// TestManyStreamSchedules runs so many schedules of upgrades that they use each row of upgradeTable.
func TestManyStreamSchedules(t *testing.T) {
	ever := runStreamSchedules(t, 100_000)
	for s := range upgradeStates {
		for _, in := range inputsOf[s.region()] {
			if !strings.HasPrefix(upgradeIndex[s][in].why, "cannot be") {
				assert.NotZero(t, ever[[2]int{int(s), int(in)}], "%v, %v is never reached", s, in)
			}
		}
	}
}
