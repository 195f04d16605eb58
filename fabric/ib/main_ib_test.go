//go:build ib

package ib

import (
	"os"
	"testing"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/test/fakeverbs"
	"ibrun/test/rdmavm/inside"
)

// patience bounds every wait; nothing takes so long unless it hangs.
const patience = 3 * time.Minute

// faultsVariable makes the network of this process a bad one.
const faultsVariable = "IBRUN_TEST_FAULTS"

var network *fakeverbs.Network

// machine has an InfiniBand and a RoCE device.
func machine() fakeverbs.Node {
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 0x0002c90300a1b2c0, Ports: []fakeverbs.Port{{LID: 932, SMLID: 1, GIDs: []verbs.GID{
			{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 15: 0xc1}},
		}}}},
		{Name: "roce0", GUID: 0x0002c90300a1b2e0, Ports: []fakeverbs.Port{{Link: verbs.LinkEthernet, MTU: verbs.MTU1024,
			GIDs: []verbs.GID{
				{Type: verbs.GIDRoCEv1, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}},
				{Type: verbs.GIDRoCEv2, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}},
			}}}},
	}}
}

func TestMain(m *testing.M) {
	if inside.In() { // TestKernelAnswers has started this program in a virtual machine
		os.Exit(m.Run())
	}
	if os.Getenv(aloneVariable) != "" {
		network = fakeverbs.Join()
		os.Exit(m.Run())
	}
	node := machine()
	if os.Getenv(faultsVariable) != "" {
		node.Faults = fakeverbs.Faults{Seed: 1, Lose: 30, Double: 5, Swap: 5, RCLose: 1}
	}
	os.Exit(fakeverbs.Run(m, node, func(n *fakeverbs.Network) { network = n }))
}

func config(port string) Config {
	c := Config{Port: port, GIDIndex: -1, QKey: 0x11223344, DialTimeout: 2 * time.Second}
	if os.Getenv(faultsVariable) != "" {
		c.DialTimeout = 5 * time.Second // a stream's first packet may be lost twice
	}
	return c
}
