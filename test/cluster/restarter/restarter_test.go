//go:build cluster

package main

import "testing"

func TestTraffic(t *testing.T) { playTraffic(t, 10) }

func TestSpareInTime(t *testing.T) { playSpare(t, false) }
