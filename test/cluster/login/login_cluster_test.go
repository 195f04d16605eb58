//go:build cluster

package login

import "testing"

func TestSameVerdict(t *testing.T) { requireSameVerdict(t, situations) }
