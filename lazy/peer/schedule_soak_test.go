//go:build soak

package peer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestManyHeldSchedules runs more of the schedules of TestHeldSchedules.
func TestManyHeldSchedules(t *testing.T) { runHeldSchedules(t, 20_000) }

// TestManySchedules runs so many schedules that they use each row of the table.
func TestManySchedules(t *testing.T) {
	ever := runSchedules(t, 100_000)
	for _, r := range table {
		if !strings.HasPrefix(r.why, "cannot be") {
			assert.NotZero(t, ever[[2]int{int(r.state), int(r.input)}], "%v, %v is never reached", r.state, r.input)
		}
	}
}
