//go:build cluster

package ssh

import "testing"

func TestControlOverNodes(t *testing.T) { controlOverNodes(t, 4, 2) }

func TestResizeOverNodes(t *testing.T) { resizeOverNodes(t, 2, 2, 2) }

func TestTraffic(t *testing.T) { playTraffic(t, 10) }

func TestSpareInTime(t *testing.T) { playSpare(t, false) }
