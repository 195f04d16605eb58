//go:build soak

package main

import (
	"flag"
	"testing"
)

var restarts = flag.Int("restarts", 100, "of ranks in each job")

func TestMuchTraffic(t *testing.T) { playTraffic(t, *restarts) }

func TestSpareOfACutNode(t *testing.T) { playSpare(t, true) }
