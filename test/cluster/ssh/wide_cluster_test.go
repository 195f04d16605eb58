//go:build cluster

package ssh

import "testing"

func TestControlOverNodes(t *testing.T) {
	c := shared(t, 4)
	controlOverNodes(t, c, 4, 2, map[string]string{"package ibrun": example(t, c, "test/cluster/talker")})
}

func TestResizeOverNodes(t *testing.T) { resizeOverNodes(t, 2, 2, 2) }

func TestTraffic(t *testing.T) { playTraffic(t, 10) }

func TestSpareInTime(t *testing.T) { playSpare(t, false) }
