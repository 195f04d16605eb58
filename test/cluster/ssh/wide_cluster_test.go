//go:build cluster

package ssh

import "testing"

func TestControlOverNodes(t *testing.T) { controlOverNodes(t, 4, 2) }

func TestResizeOverNodes(t *testing.T) { resizeOverNodes(t, 2, 2, 2) }
