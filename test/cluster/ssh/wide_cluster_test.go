//go:build cluster

package ssh

import "testing"

func TestControlOverNodes(t *testing.T) {
	parallel(t, working)
	c := shared(t, 4)
	controlOverNodes(t, c, 4, 2, map[string]string{"package ibrun": example(t, c, "test/cluster/talker")})
}

func TestResizeOverNodes(t *testing.T) {
	parallel(t, working)
	resizeOverNodes(t, 2, 2, 2)
}

func TestTraffic(t *testing.T) {
	parallel(t, working)
	playTraffic(t, 10)
}

func TestSpareInTime(t *testing.T) {
	parallel(t, working)
	playSpare(t, false)
}
