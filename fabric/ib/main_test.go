//go:build cgo && !noib

package ib

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/test/fakeverbs"
)

// patience bounds every wait; nothing takes so long unless it hangs.
const patience = 30 * time.Second

// faultsVariable makes the network of this process a bad one.
const faultsVariable = "IBRUN_TEST_FAULTS"

var network *fakeverbs.Network

func setenv(env []string) {
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		os.Setenv(name, value)
	}
}

// machine has an InfiniBand and a RoCE device.
func machine() fakeverbs.Node {
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 0x0002c90300a1b2c0, Ports: []fakeverbs.Port{{LID: 932, SMLID: 1, GIDs: []verbs.GID{
			{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 15: 0xc1}},
		}}}},
		{Name: "roce0", GUID: 0x0002c90300a1b2e0, Ports: []fakeverbs.Port{{Link: verbs.LinkEthernet, MTU: verbs.MTU1024, GIDs: []verbs.GID{
			{Type: verbs.GIDRoCEv1, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}},
			{Type: verbs.GIDRoCEv2, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}},
		}}}},
	}}
}

func TestMain(m *testing.M) {
	if os.Getenv(aloneVariable) != "" {
		network = fakeverbs.Join()
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err == nil {
		network, err = fakeverbs.New(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	node := machine()
	node.Log = dir + "/log"
	if faults := os.Getenv(faultsVariable); faults != "" {
		node.Faults = fakeverbs.Faults{Seed: 1, Lose: 30, Double: 5, Swap: 5, RCLose: 1}
	}
	setenv(network.Env(node))
	code := m.Run()
	if err := closedInOrder(node.Log); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// closedInOrder reads what the library counted whenever a device was closed. The last may wait for the end of a stream.
func closedInOrder(log string) error {
	look, late := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer look.Stop()
	for {
		left, closed, err := fakeverbs.Left(log)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // no device was opened
		case err != nil:
			return err
		case len(left) > 0:
			return fmt.Errorf("left when a device was closed: %q", left)
		case closed > 0:
			return nil
		}
		select {
		case <-look.C:
		case <-late:
			return errors.New("no device was closed")
		}
	}
}

func opener(cfg Config) fabrictest.Opener {
	return func(t *testing.T, sink fabric.Sink) fabric.Fabric {
		f, err := Open(cfg, sink)
		require.NoError(t, err)
		return f
	}
}

func config(port string) Config {
	c := Config{Port: port, GIDIndex: -1, QKey: 0x11223344, DialTimeout: 2 * time.Second}
	if os.Getenv(faultsVariable) != "" {
		c.DialTimeout = 5 * time.Second // a stream's first packet may be lost twice
	}
	return c
}
