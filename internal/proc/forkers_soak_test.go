//go:build soak

package proc

import "testing"

func TestManyForkersAreKilled(t *testing.T) { killForkers(t, 200) }

func TestManyForkersAreStopped(t *testing.T) { stopForkers(t, 50, 300) }
