//go:build soak

package executable

import "testing"

func TestManyStartedAtOnce(t *testing.T) { startAtOnce(t, 500) }
