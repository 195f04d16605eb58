package bind

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSlots(t *testing.T) {
	for text, want := range map[string][]Slot{
		"3":         {{-1, 3, 1}},
		"1-2,4":     {{-1, 1, 2}, {-1, 4, 1}},
		"0:0-3;1:2": {{0, 0, 4}, {1, 2, 1}},
		"1:*":       {{1, 0, 0}},
		"*":         {{-1, 0, 0}},
	} {
		got, err := ParseSlots(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}
