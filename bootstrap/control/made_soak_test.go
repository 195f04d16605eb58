//go:build soak

package control

import "testing"

func TestAskedWhileMadeOften(t *testing.T) { askWhileMade(t, 1000) }
