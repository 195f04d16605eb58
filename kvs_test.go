package ibrun

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
)

func TestKeys(t *testing.T) {
	require.NoError(t, checkPut("k", nil))
	require.NoError(t, checkPut("k\x00", make([]byte, rankwire.MaxValue)))
	for _, bad := range []string{"", strings.Repeat("k", rankwire.MaxKey+1), secondaryKey, "\x00"} {
		require.Error(t, checkPut(bad, nil), "%q", bad)
	}
	require.Error(t, checkPut("k", make([]byte, rankwire.MaxValue+1)))
}
