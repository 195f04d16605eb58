//go:build ib

package ib

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/fabric/ib"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/waitfor"
)

// TestFabric runs the conformance suite of fabrics on a real device.
func TestFabric(t *testing.T) {
	inside.Require(t)
	fabrictest.Run(t, func(t *testing.T, sink fabric.Sink) fabric.Fabric {
		limit := waitfor.Deadline // on a busy machine it takes 10 s to make fifty streams
		if strings.HasSuffix(t.Name(), "/dial_fails") {
			limit = 2 * time.Second // the dial fails only after this time
		}
		f, err := ib.Open(ib.Config{Port: "rxe0:1", GIDIndex: -1, QKey: 0x11223344, DialTimeout: limit}, sink)
		require.NoError(t, err)
		return f
	}, fabrictest.Options{Lossy: true, Flood: 5000})
}
