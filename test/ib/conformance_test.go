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

// TestFabric runs the tests that each fabric must pass (fabrictest) with package fabric/ib on Soft-RoCE.
func TestFabric(t *testing.T) {
	inside.Require(t)
	fabrictest.Run(t, func(t *testing.T, sink fabric.Sink) fabric.Fabric {
		limit := waitfor.Deadline // a busy machine takes 10 s to connect fifty streams
		if strings.HasSuffix(t.Name(), "/dial_fails") {
			limit = 2 * time.Second // the subtest waits until Dial has failed after this time
		}
		f, err := ib.Open(ib.Config{Port: "rxe0:1", GIDIndex: -1, QKey: 0x11223344, DialTimeout: limit}, sink)
		require.NoError(t, err)
		return f
	}, fabrictest.Options{Lossy: true, Flood: 5000})
}
