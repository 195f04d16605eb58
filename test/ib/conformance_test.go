//go:build ib

package ib

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/fabric/ib"
	"ibrun/test/rdmavm/inside"
)

// TestFabric holds the fabric against the conformance suite on a device that moves packets.
func TestFabric(t *testing.T) {
	inside.Require(t)
	fabrictest.Run(t, func(t *testing.T, sink fabric.Sink) fabric.Fabric {
		f, err := ib.Open(ib.Config{
			Port: "rxe0:1", GIDIndex: -1, QKey: 0x11223344, DialTimeout: 10 * time.Second,
		}, sink)
		require.NoError(t, err)
		return f
	}, fabrictest.Options{Lossy: true, Flood: 5000})
}
