//go:build ib

package verbs_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

func openOnly() error {
	lib, err := verbs.Open()
	if err != nil {
		return err
	}
	devices, err := lib.Devices()
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		return errors.New("no device")
	}
	_, err = lib.OpenDevice(os.Getenv("VERBS_DEVICE"))
	return err
}

// register takes memory and queue pairs until the device has no more.
func register() error {
	e, err := newEnd(os.Getenv("VERBS_DEVICE"), func(func() error) {})
	if err != nil {
		return err
	}
	for {
		if _, err := e.pd.NewQP(verbs.QPConfig{Type: verbs.UD, Send: e.cq, Receive: e.cq, MaxSend: 1,
			MaxReceive: 1}); err != nil {
			return err
		}
	}
}

// TestCannot: what is missing is said in one line, with what to do.
func TestCannot(t *testing.T) {
	needsFake(t)
	node := machine()
	closed, full, small, none := node, node, node, node
	closed.Open, full.MaxQP, small.MemLock, none.Devices = int(syscall.EACCES), 3, 1<<20, nil
	for name, c := range map[string]struct {
		role string
		env  []string
		want string
	}{
		"no library": {"open", []string{verbs.LibraryVariable + "=libibverbs-missing.so.1"},
			"no InfiniBand library: libibverbs-missing.so.1: cannot open shared object file: No such file or " +
				"directory: IBRUN_LIBIBVERBS=libibverbs-missing.so.1 names the library\n"},
		"another library": {"open", []string{verbs.LibraryVariable + "=libc.so.6"},
			"no InfiniBand library: libc.so.6 has no ibv_get_device_list@IBVERBS_1.1: IBRUN_LIBIBVERBS=libc.so.6 " +
				"names the library\n"},
		"no permission": {"open", network.Env(closed),
			"making a context of mlx5_0: permission denied: ls -l /dev/infiniband: users need to read and write " +
				"uverbs*\n"},
		"another device": {"open", append(network.Env(node), "VERBS_DEVICE=mlx5_7"),
			"making a context of mlx5_7: no such device: ibv_devices lists what is there\n"},
		"no device": {"open", network.Env(none), "no device\n"},
		"no queue pairs": {"register", network.Env(full),
			"making a queue pair of mlx5_0: cannot allocate memory: no more queue pairs, or locked memory"},
		"little memory": {"register", network.Env(small),
			"making a memory region of 4194304 bytes on mlx5_0: cannot allocate memory: locked memory is"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := role(t, c.role, append([]string{"VERBS_DEVICE=mlx5_0"}, c.env...)...)
			out, err := cmd.Output()
			require.Error(t, err)
			require.Contains(t, string(out), c.want)
		})
	}
}

// TestRefusals: what the device refuses, by its errno.
func TestRefusals(t *testing.T) {
	pairs(t, func(t *testing.T, first, _ string) {
		e := open(t, first)
		fresh := func(kind verbs.QPType) *verbs.QP {
			return e.freshQueuePair(t,
				verbs.QPConfig{Type: kind, Send: e.cq, Receive: e.cq, MaxSend: 4, MaxReceive: 4})
		}
		var taken []string // what should have been refused
		refused := func(what string, err error) {
			if !errors.Is(err, syscall.EINVAL) {
				taken = append(taken, fmt.Sprintf("%s: %v", what, err))
			}
		}
		q := fresh(verbs.RC)
		refused("reset to ready to send", q.Modify(verbs.QPState{State: verbs.ReadyToSend}))
		refused("reset to ready to receive", e.toReceive(q, e.route(e), 1, 1))
		refused("port", q.Modify(verbs.QPState{State: verbs.Init, Port: 9}))
		if !onReal { // rxe has one key and takes any index
			refused("pkey", q.Modify(verbs.QPState{State: verbs.Init, Port: 1, PKeyIndex: 99}))
			_, err := q.PostReceive([]verbs.Receive{e.at(1, 0, 8)})
			refused("receive in reset", err)
		}
		require.NoError(t, toInit(q, verbs.RC))
		_, err := q.PostSend([]verbs.Send{e.send(1, 0, 8)})
		refused("send in init", err)
		wrong := e.route(e)
		wrong.Global, wrong.SGIDIndex = true, uint8(e.port.GIDs)
		refused("GID index", e.toReceive(q, wrong, 1, 1))
		if e.port.MTU < verbs.MTU4096 && !onReal { // rxe fragments
			refused("MTU", q.Modify(verbs.QPState{State: verbs.ReadyToReceive, Route: e.route(e), MTU: verbs.MTU4096,
				ReadsIn: 1}))
		}
		require.NoError(t, e.toReceive(q, e.route(e), 1, 1))
		state, err := q.State()
		require.NoError(t, err)
		require.Equal(t, verbs.ReadyToReceive, state.State)

		u := fresh(verbs.UD)
		if !onReal { // the kernel refuses it to users, and we are root there
			require.ErrorIs(t, u.Modify(verbs.QPState{State: verbs.Init, Port: 1, QKey: 0x80000001}), syscall.EPERM)
		}
		require.NoError(t, toInit(u, verbs.UD))
		_, err = e.pd.NewAH(wrong)
		refused("GID index of a handle", err)
		if e.port.Link == verbs.LinkEthernet {
			_, err = e.pd.NewAH(verbs.Route{DLID: 1, Port: 1})
			refused("LID on Ethernet", err)
			require.ErrorContains(t, err, "an Ethernet port needs a GID in every address")
		}
		_, err = e.pd.Register(make([]byte, 64), verbs.RemoteWrite)
		refused("remote write without local", err)
		_, err = e.ctx.Port(7)
		refused("asking another port", err)
		require.Empty(t, taken)
	})
}

// TestFull: a queue takes what it has room for, and says how many that were.
func TestFull(t *testing.T) {
	pairs(t, func(t *testing.T, first, _ string) {
		e := open(t, first)
		q := e.queuePair(t, verbs.UD, nil)
		batch := make([]verbs.Receive, q.Granted().MaxReceive+1000)
		for i := range batch {
			batch[i] = e.at(uint64(i), 0, 64)
		}
		n, err := q.PostReceive(batch)
		require.ErrorIs(t, err, syscall.ENOMEM)
		require.GreaterOrEqual(t, n, q.Granted().MaxReceive)
		require.Less(t, n, len(batch))
	})
}

func TestWrongKeyOfOwnMemory(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, _ := connected(t, a, b, nil)
		s := a.send(1, 0, 100)
		s.LKey ^= 0x5a5a00
		postSend(t, p, s)
		got := a.done(t, 1)[0]
		require.Contains(t, []verbs.Status{verbs.LocalProtection, verbs.LocalQP}, got.Status, got.Status.String())
	})
}

// TestCloseOrder: owners close last, each object once.
func TestCloseOrder(t *testing.T) {
	pairs(t, func(t *testing.T, first, _ string) {
		ctx, err := library(t).OpenDevice(first)
		require.NoError(t, err)
		pd, err := ctx.NewPD()
		require.NoError(t, err)
		ch, err := ctx.NewChannel()
		require.NoError(t, err)
		cq, err := ctx.NewCQ(8, ch, 1)
		require.NoError(t, err)
		srq, err := pd.NewSRQ(8)
		require.NoError(t, err)
		qp, err := pd.NewQP(verbs.QPConfig{Type: verbs.RC, Send: cq, Receive: cq, Shared: srq, MaxSend: 1})
		require.NoError(t, err)
		mr, err := pd.Register(make([]byte, 100), verbs.LocalWrite)
		require.NoError(t, err)
		for _, c := range []interface{ Close() error }{ctx, pd, ch, cq, srq} {
			require.ErrorIs(t, c.Close(), syscall.EBUSY)
		}
		require.EqualError(t, srq.Close(),
			fmt.Sprintf("closing shared receive queue of %s: device or resource busy: still open on it: 1 of kind "+
				"\"queue pair\"", first))
		for range 2 {
			for _, c := range []interface{ Close() error }{mr, qp, srq, cq, ch, pd, ctx} {
				require.NoError(t, c.Close())
			}
		}
		_, err = pd.NewSRQ(8)
		require.ErrorIs(t, err, verbs.ErrClosed)
		_, err = ctx.NewPD()
		require.ErrorIs(t, err, verbs.ErrClosed)
		_, err = qp.PostSend([]verbs.Send{{}})
		require.ErrorIs(t, err, verbs.ErrClosed)
		_, err = cq.Poll(make([]verbs.Completion, 1))
		require.ErrorIs(t, err, verbs.ErrClosed)
		_, err = ch.Wait(make([]uint64, 1), 0)
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

// TestLinked: no library of InfiniBand is needed to start this program.
func TestLinked(t *testing.T) {
	program, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	require.NoError(t, err)
	require.NotEmpty(t, libraries)
	for _, l := range libraries {
		require.NotContains(t, l, "verbs")
	}
}

// TestPorts: the fake is what it was told to be.
func TestPorts(t *testing.T) {
	needsFake(t)
	lib := library(t)
	devices, err := lib.Devices()
	require.NoError(t, err)
	require.Len(t, devices, 4)
	require.Equal(t, verbs.Device{Name: "mlx5_0", GUID: 0x0002c90300a1b2c0, Transport: verbs.TransportInfiniBand},
		devices[0])
	e := open(t, "mlx5_0")
	limits, err := e.ctx.Limits()
	require.NoError(t, err)
	require.Equal(t, 1, limits.Ports)
	require.Equal(t, verbs.Port{State: verbs.PortActive, MTU: verbs.MTU4096, GIDs: 1, PKeys: 3, LID: 932, LMC: 1,
		Link: verbs.LinkInfiniBand}, e.port)
	require.Equal(t, "fe80::200:0:0:c1", e.gid.String())
	key, err := e.ctx.PKey(1, 1)
	require.NoError(t, err)
	require.Equal(t, uint16(0x8001), key)
	_, err = e.ctx.PKey(1, 3)
	require.ErrorIs(t, err, syscall.EINVAL)
	r := open(t, "roce0")
	require.Equal(t, uint8(2), r.index)
	_, err = r.ctx.GID(1, 1)
	require.ErrorIs(t, err, syscall.ENODATA)
	require.Equal(t, ipv4(10, 0, 0, 1), r.gid)
}

// TestAddressHandle looks at what the device was given, field by field.
func TestAddressHandle(t *testing.T) {
	needsFake(t)
	node := machine()
	node.Log = t.TempDir() + "/log"
	cmd := role(t, "handle", append(network.Env(node), "VERBS_DEVICE=mlx5_0")...)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(node.Log)
	require.NoError(t, err)
	require.Contains(t, string(text),
		"ah dev=mlx5_0 port=1 dlid=689 sl=5 src_path_bits=1 static_rate=3 is_global=1 sgid_index=0 hop_limit=64 "+
			"dgid=fe800000000000000002c90300a1b2d1 refused=0\n")
}

func handle() error {
	e, err := newEnd(os.Getenv("VERBS_DEVICE"), func(func() error) {})
	if err != nil {
		return err
	}
	_, err = e.pd.NewAH(verbs.Route{DLID: 689, SL: 5, PathBits: 1, Rate: 3, Port: 1, Global: true, HopLimit: 64,
		TrafficClass: 7, FlowLabel: 9,
		DGID: [16]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0xa1, 0xb2, 0xd1}})
	return err
}
