//go:build soak

package ssh

import "testing"

func TestControlOfManyRanks(t *testing.T) { controlOverNodes(t, 16, 16) }

func TestResizeOfManyNodes(t *testing.T) { resizeOverNodes(t, 8, 4, 8) }
