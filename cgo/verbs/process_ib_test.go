//go:build ib

package verbs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/test/fakeverbs"
)

// card is what two processes tell each other out of band.
type card struct {
	LID      uint16
	GID      [16]byte
	Datagram uint32 // numbers of the queue pairs
	Stream   uint32
	PSN      uint32
	Addr     uint64
	RKey     uint32
}

// side is one process's end with both kinds of queue pair.
type side struct {
	*end
	ud, rc *verbs.QP
	psn    uint32
}

// newSide is for processes that end without closing, as ranks may.
func newSide(device string, psn uint32) (*side, error) {
	e, err := newEnd(device, func(func() error) {})
	if err != nil {
		return nil, err
	}
	s := &side{end: e, psn: psn}
	cfg := verbs.QPConfig{Type: verbs.UD, Send: e.cq, Receive: e.cq, MaxSend: 64, MaxReceive: 2 * floods}
	if s.ud, err = e.pd.NewQP(cfg); err != nil {
		return nil, err
	}
	cfg.Type = verbs.RC
	if s.rc, err = e.pd.NewQP(cfg); err != nil {
		return nil, err
	}
	return s, errors.Join(toInit(s.ud, verbs.UD), toInit(s.rc, verbs.RC),
		s.ud.Modify(verbs.QPState{State: verbs.ReadyToReceive}), s.ud.Modify(verbs.QPState{State: verbs.ReadyToSend}))
}

func (s *side) card() card {
	return card{LID: s.port.LID, GID: s.gid.Addr, Datagram: s.ud.Number(), Stream: s.rc.Number(), PSN: s.psn,
		Addr: s.mr.Addr(), RKey: s.mr.RKey()}
}

// to is the way to whom a card is of.
func (s *side) to(c card) verbs.Route {
	return s.route(&end{port: verbs.Port{LID: c.LID}, gid: verbs.GID{Addr: c.GID}})
}

func (s *side) connect(c card) error {
	if err := s.toReceive(s.rc, s.to(c), c.Stream, c.PSN); err != nil {
		return err
	}
	// a second
	return s.rc.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: s.psn, Timeout: 15, Retry: 6, RNRRetry: 7,
		ReadsOut: 4})
}

// play is what this program does as another node's process.
func play(name string) int {
	act, ok := map[string]func() error{
		"echo": echo, "flood": flood, "open": openOnly, "register": register, "handle": handle,
	}[name]
	if !ok {
		return 9
	}
	if err := act(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// echo answers one datagram and one message of 100,000 bytes, then lives
// until its input ends.
func echo() error {
	s, err := newSide(os.Getenv("VERBS_DEVICE"), 0x222222)
	if err != nil {
		return err
	}
	if _, err := s.ud.PostReceive([]verbs.Receive{s.at(1, 0, 256)}); err != nil {
		return err
	}
	if _, err := s.rc.PostReceive([]verbs.Receive{s.at(2, 1<<20, 200_000)}); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.card()); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	var peer card
	if err := in.Decode(&peer); err != nil {
		return err
	}
	if err := s.connect(peer); err != nil {
		return err
	}
	way, err := s.pd.NewAH(s.to(peer))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode("ready"); err != nil {
		return err
	}
	for answered := 0; answered < 2; {
		got, err := s.wait(1)
		if err != nil {
			return err
		}
		for _, c := range got {
			switch {
			case c.Status != verbs.Success:
				return fmt.Errorf("request %d: %v", c.ID, c.Status)
			case c.ID == 1:
				b := s.send(11, verbs.GRHSize, int(c.Length)-verbs.GRHSize)
				b.AH, b.QPN, b.QKey = way.Ref(), c.Source, qkey
				_, err = s.ud.PostSend([]verbs.Send{b})
			case c.ID == 2:
				_, err = s.rc.PostSend([]verbs.Send{s.send(12, 1<<20, int(c.Length))})
			default:
				answered++
			}
			if err != nil {
				return err
			}
		}
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// another is an echo in a process of its own, and our side of it.
func another(t *testing.T, ours, theirs string) (s *side, peer card, cmd *exec.Cmd) {
	t.Helper()
	cmd = role(t, "echo", "VERBS_DEVICE="+theirs)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	e := open(t, ours)
	s = &side{end: e, psn: 0x111111, ud: e.datagrams(t), rc: e.queuePair(t, verbs.RC, nil)}
	from := json.NewDecoder(out)
	require.NoError(t, from.Decode(&peer))
	require.NoError(t, json.NewEncoder(in).Encode(s.card()))
	require.NoError(t, s.connect(peer))
	var ready string
	require.NoError(t, from.Decode(&ready))
	return s, peer, cmd
}

func TestTwoProcesses(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		s, peer, cmd := another(t, first, second)
		way := s.handle(t, s.to(peer))
		const long = 100_000
		fill(s.mr.Bytes()[:long], 3)
		postReceive(t, s.ud, s.at(1, 1<<20, 256))
		postReceive(t, s.rc, s.at(2, 2<<20, long))
		small := s.send(3, 0, 64)
		small.AH, small.QPN, small.QKey = way.Ref(), peer.Datagram, qkey
		postSend(t, s.ud, small)
		postSend(t, s.rc, s.send(4, 0, long))
		for _, c := range s.done(t, 4) {
			require.Equal(t, verbs.Success, c.Status, "%d: %v", c.ID, c.Status)
		}
		require.True(t, bytes.Equal(s.mr.Bytes()[:64], s.mr.Bytes()[1<<20+verbs.GRHSize:][:64]))
		require.True(t, bytes.Equal(s.mr.Bytes()[:long], s.mr.Bytes()[2<<20:][:long]))

		read := s.send(5, 3<<20, long)
		read.Op, read.RemoteAddr, read.RKey = verbs.OpRead, peer.Addr+1<<20, peer.RKey
		postSend(t, s.rc, read)
		require.Equal(t, verbs.Success, s.done(t, 1)[0].Status)
		require.True(t, bytes.Equal(s.mr.Bytes()[:long], s.mr.Bytes()[3<<20:][:long]))

		require.NoError(t, cmd.Process.Kill()) // a peer that dies says nothing
		_, _ = cmd.Process.Wait()
		postSend(t, s.rc, s.send(6, 0, 8))
		got := s.done(t, 1)[0]
		require.Equal(t, verbs.RetryExceeded, got.Status, got.Status.String())
	})
}

const (
	floods = 400
	sent   = 1 << 20 // the number of each send request
)

// flood sends itself numbered datagrams over a bad network and says which came.
func flood() error {
	s, err := newSide(os.Getenv("VERBS_DEVICE"), 0)
	if err != nil {
		return err
	}
	way, err := s.pd.NewAH(s.to(s.card()))
	if err != nil {
		return err
	}
	defer way.Close()
	var came []int
	take := func(got []verbs.Completion) {
		for _, c := range got {
			if c.ID != sent {
				b := s.mr.Bytes()[4096+64*c.ID+verbs.GRHSize:]
				came = append(came, int(b[0])|int(b[1])<<8)
			}
		}
	}
	for id := range 2 * floods {
		if _, err := s.ud.PostReceive([]verbs.Receive{s.at(uint64(id), 4096+64*id, 64)}); err != nil {
			return err
		}
	}
	out := make([]verbs.Completion, 64)
	for i := range floods {
		s.mr.Bytes()[0], s.mr.Bytes()[1] = byte(i), byte(i>>8)
		b := s.send(sent, 0, 2)
		b.AH, b.QPN, b.QKey = way.Ref(), s.ud.Number(), qkey
		if _, err := s.ud.PostSend([]verbs.Send{b}); err != nil {
			return err
		}
		n, err := s.cq.Poll(out)
		if err != nil {
			return err
		}
		take(out[:n])
	}
	counts, err := fakeverbs.Join().Order("count " + s.ctx.Device())
	if err != nil {
		return err
	}
	for len(came) < counts[0]["sent"]-counts[0]["lost"]+counts[0]["double"] {
		got, err := s.wait(1)
		if err != nil {
			return err
		}
		take(got)
	}
	return json.NewEncoder(os.Stdout).Encode(came)
}

// TestFaultsHappen counts, in another process each time, what a bad network
// did to datagrams; the fake's own counts say the same.
func TestFaultsHappen(t *testing.T) {
	needsFake(t)
	run := func(f fakeverbs.Faults) (came []int) {
		node := machine()
		node.Faults = f
		cmd := role(t, "flood", append(network.Env(node), "VERBS_DEVICE=mlx5_0")...)
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		require.NoError(t, json.Unmarshal(out, &came))
		return came
	}
	tally := func(came []int) (lost, doubled, overtaken int) {
		times, high := map[int]int{}, -1
		for _, n := range came {
			times[n]++
			if n < high {
				overtaken++
			}
			high = max(high, n)
		}
		for i := range floods {
			switch times[i] {
			case 0:
				lost++
			case 1:
			default:
				doubled++
			}
		}
		return lost, doubled, overtaken
	}
	lost, doubled, overtaken := tally(run(fakeverbs.Faults{}))
	require.Equal(t, [3]int{0, 0, 0}, [3]int{lost, doubled, overtaken})

	lost, doubled, overtaken = tally(run(fakeverbs.Faults{Seed: 1, Lose: 30}))
	require.InDelta(t, 0.30, float64(lost)/floods, 0.10)
	require.Equal(t, [2]int{0, 0}, [2]int{doubled, overtaken})

	lost, doubled, overtaken = tally(run(fakeverbs.Faults{Seed: 2, Double: 20}))
	require.InDelta(t, 0.20, float64(doubled)/floods, 0.08)
	require.Equal(t, [2]int{0, 0}, [2]int{lost, overtaken})

	lost, doubled, overtaken = tally(run(fakeverbs.Faults{Seed: 3, Swap: 20}))
	require.Positive(t, overtaken)
	require.Equal(t, [2]int{0, 0}, [2]int{lost, doubled})

	all := fakeverbs.Faults{Seed: 4, Lose: 30, Double: 10}
	once := run(all)
	require.Equal(t, once, run(all), "a seed says what happens")
	all.Seed = 5
	require.NotEqual(t, once, run(all))
}

// TestReliableOverLoss: connected queue pairs lose nothing though packets are lost.
func TestReliableOverLoss(t *testing.T) {
	needsFake(t)
	node := machine()
	node.Faults = fakeverbs.Faults{Seed: 1, RCLose: 2}
	cmd := exec.Command(os.Args[0], "-test.run", "^(TestConnectedPingPong|TestRemoteMemory|TestSharedQueue)$",
		"-test.count=1")
	cmd.Env = append(os.Environ(), append(network.Env(node), givenVariable+"=1")...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
