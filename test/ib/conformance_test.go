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

// TestFabric runs the tests of package fabrictest, which all fabrics must pass, on package fabric/ib with Soft-RoCE.
func TestFabric(t *testing.T) {
	inside.Require(t)
	fabrictest.Run(t, func(t *testing.T, sink fabric.Sink) fabric.Fabric {
		limit := waitfor.Deadline // dial timeout: a busy machine takes 10 s to connect fifty streams
		if strings.HasSuffix(t.Name(), "/dial_fails") {
			limit = 2 * time.Second // this subtest waits until Dial times out
		}
		f, err := ib.Open(ib.Config{Port: "rxe0:1", GIDIndex: -1, QKey: 0x11223344, DialTimeout: limit}, sink)
		require.NoError(t, err)
		return f
	}, fabrictest.Options{Lossy: true, Flood: 5000})
}
