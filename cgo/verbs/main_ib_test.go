//go:build ib

package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/test/fakeverbs"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/skip"
)

// givenVariable makes these tests use the library that the environment names, and not a fake of
// their own.
const givenVariable = "VERBS_TEST_GIVEN"

// patience bounds every wait; nothing takes so long unless it hangs.
const patience = 3 * time.Minute

var (
	onReal  = inside.In() || os.Getenv(givenVariable) != ""
	network *fakeverbs.Network // nil on devices that take no orders
)

func ipv4(a, b, c, d byte) verbs.GID {
	return verbs.GID{Type: verbs.GIDRoCEv2, Addr: [16]byte{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d}}
}

// machine has two InfiniBand and two RoCE devices; the LIDs are those of a
// fat tree's neighbours.
func machine() fakeverbs.Node {
	ib := func(lid uint16, lmc uint8, guid byte) fakeverbs.Port {
		gid := verbs.GID{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 15: guid}}
		return fakeverbs.Port{LID: lid, SMLID: 1, LMC: lmc, GIDs: []verbs.GID{gid}, PKeys: []uint16{0xffff, 0x8001,
			0x0001}}
	}
	roce := func(host byte) fakeverbs.Port {
		local := verbs.GID{Type: verbs.GIDRoCEv1, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: host}}
		return fakeverbs.Port{Link: verbs.LinkEthernet, MTU: verbs.MTU1024,
			GIDs: []verbs.GID{local, {Type: verbs.GIDUnknown}, ipv4(10, 0, 0, host)}}
	}
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 0x0002c90300a1b2c0, Ports: []fakeverbs.Port{ib(932, 1, 0xc1)}},
		{Name: "mlx5_1", GUID: 0x0002c90300a1b2d0, Ports: []fakeverbs.Port{ib(688, 0, 0xd1)}},
		{Name: "roce0", GUID: 0x0002c90300a1b2e0, Ports: []fakeverbs.Port{roce(1)}},
		{Name: "roce1", GUID: 0x0002c90300a1b2f0, Ports: []fakeverbs.Port{roce(2)}},
	}}
}

func TestMain(m *testing.M) {
	if role := os.Getenv("VERBS_ROLE"); role != "" {
		os.Exit(play(role))
	}
	if onReal {
		os.Exit(m.Run())
	}
	os.Exit(fakeverbs.Run(m, machine(), func(n *fakeverbs.Network) { network = n }))
}

// needsFake skips what no real device does on order.
func needsFake(t *testing.T) {
	if onReal {
		skip.Done(t, "the run over the fake library, which alone does this")
	}
}

func library(t testing.TB) *verbs.Library {
	t.Helper()
	lib, err := verbs.Open()
	require.NoError(t, err)
	return lib
}

// role runs this test program again in a role of play, as another node.
func role(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "VERBS_ROLE="+name), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// end is one open port with a queue for everything.
type end struct {
	ctx     *verbs.Context
	port    verbs.Port
	gid     verbs.GID
	index   uint8
	pd      *verbs.PD
	channel *verbs.Channel
	cq      *verbs.CQ
	mr      *verbs.MR
}

const (
	endMemory = 4 << 20
	cookie    = 0xc00c1e
)

// open makes an end on a device. Everything is closed with the test, and must close.
func open(t testing.TB, device string) *end {
	t.Helper()
	e, err := newEnd(device, func(close func() error) { t.Cleanup(func() { require.NoError(t, close()) }) })
	require.NoError(t, err)
	return e
}

func newEnd(device string, later func(func() error)) (e *end, err error) {
	lib, err := verbs.Open()
	if err != nil {
		return nil, err
	}
	e = &end{}
	if e.ctx, err = lib.OpenDevice(device); err != nil {
		return nil, err
	}
	later(e.ctx.Close)
	if e.port, err = e.ctx.Port(1); err != nil {
		return nil, err
	}
	e.chooseGID()
	if e.pd, err = e.ctx.NewPD(); err != nil {
		return nil, err
	}
	later(e.pd.Close)
	if e.channel, err = e.ctx.NewChannel(); err != nil {
		return nil, err
	}
	later(e.channel.Close)
	if e.cq, err = e.ctx.NewCQ(1024, e.channel, cookie); err != nil {
		return nil, err
	}
	later(e.cq.Close)
	if e.mr, err = e.pd.Allocate(endMemory, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err != nil {
		return nil, err
	}
	later(e.mr.Close)
	return e, nil
}

// chooseGID takes the first that is RoCE v2 over IPv4, else the first that is there.
func (e *end) chooseGID() {
	for i := e.port.GIDs - 1; i >= 0; i-- {
		g, err := e.ctx.GID(1, i)
		if err != nil || g.Addr == [16]byte{} {
			continue
		}
		if e.gid.Type != verbs.GIDRoCEv2 || g.Type == verbs.GIDRoCEv2 && g.Addr[10] == 0xff {
			e.gid, e.index = g, uint8(i)
		}
	}
}

// route is the way from e to another end.
func (e *end) route(to *end) verbs.Route {
	r := verbs.Route{DLID: to.port.LID, Port: 1}
	if e.port.Link == verbs.LinkEthernet {
		r.Global, r.DGID, r.SGIDIndex, r.HopLimit = true, to.gid.Addr, e.index, 255
	}
	return r
}

// wait returns n completions, waiting in the Go poller.
func (e *end) wait(n int) ([]verbs.Completion, error) {
	var all []verbs.Completion
	out, cookies := make([]verbs.Completion, 64), make([]uint64, 8)
	if err := e.channel.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	for {
		got, err := e.cq.ArmPoll(out)
		if err != nil {
			return all, err
		}
		all = append(all, out[:got]...)
		if len(all) >= n {
			return all, nil
		}
		if got > 0 {
			continue
		}
		events, err := e.channel.Wait(cookies, 0)
		if err != nil {
			return all, fmt.Errorf("%d of %d completions: %w", len(all), n, err)
		}
		for _, c := range cookies[:events] {
			if c != cookie {
				return all, fmt.Errorf("an event of queue %#x", c)
			}
		}
	}
}

// done waits for n completions, which are all there will be.
func (e *end) done(t testing.TB, n int) []verbs.Completion {
	t.Helper()
	got, err := e.wait(n)
	require.NoError(t, err)
	require.Len(t, got, n)
	return got
}

// at is a receive of a piece of the end's memory.
func (e *end) at(id uint64, offset, size int) verbs.Receive {
	return verbs.Receive{ID: id, Addr: e.mr.Addr() + uint64(offset), Length: uint32(size), LKey: e.mr.LKey()}
}

// pairs runs a test over each link layer that has two ports.
func pairs(t *testing.T, test func(t *testing.T, a, b string)) {
	devices, err := library(t).Devices()
	require.NoError(t, err)
	byLink := map[verbs.LinkLayer][]string{}
	for _, d := range devices {
		ctx, err := library(t).OpenDevice(d.Name)
		require.NoError(t, err)
		port, err := ctx.Port(1)
		require.NoError(t, err)
		require.NoError(t, ctx.Close())
		if port.State == verbs.PortActive {
			byLink[port.Link] = append(byLink[port.Link], d.Name)
		}
	}
	ran := 0
	for link, names := range byLink {
		if len(names) < 2 {
			names = append(names, names...) // a port reaches itself
		}
		ran++
		name := "infiniband"
		if link == verbs.LinkEthernet {
			name = "roce"
		}
		t.Run(name, func(t *testing.T) { test(t, names[0], names[1]) })
	}
	require.Positive(t, ran, "no active port")
}
