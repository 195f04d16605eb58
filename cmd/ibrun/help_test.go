package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelpFits(t *testing.T) {
	for _, l := range strings.Split(helpText, "\n") {
		require.LessOrEqual(t, len(l), 80, l)
	}
}
