//go:build soak

package upgrade

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestManySchedules runs so many schedules that they use each row of the table.
func TestManySchedules(t *testing.T) {
	ever := runSchedules(t, 100_000)
	for s := range states {
		for _, in := range of[s.region()] {
			if !strings.HasPrefix(index[s][in].why, "cannot be") {
				assert.NotZero(t, ever[[2]int{int(s), int(in)}], "%v, %v is never reached", s, in)
			}
		}
	}
}
