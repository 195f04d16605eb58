package control

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var (
	blockwise = job.NewLayout([]job.Share{{Nodes: 4, Ranks: 4}})
	dealt     = blockwise.Dealt(1)
)

func spans(of ...job.Slot) rankwire.SlotSpans {
	var list []rankwire.SlotSpan
	for i := 0; i < len(of); i += 2 {
		list = append(list, rankwire.SlotSpan{First: of[i], Count: uint32(of[i+1] - of[i])})
	}
	return rankwire.NewSlotSpans(list...)
}

// Lists of ranks become slots and come back as the user wrote them, in blocks and dealt.
func TestRanks(t *testing.T) {
	for _, l := range []job.Layout{blockwise, dealt} {
		for in, out := range map[string]string{"0-3,7": "0-3,7", "7,0-3,2": "0-3,7", "5": "5",
			"0-15": "0-15"} {
			got, err := ParseRanks(l, in)
			require.NoError(t, err)
			count := uint32(0)
			for s := range got.All() {
				count += s.Count
			}
			require.Equal(t, out, ranksOf(l, rankwire.RankGroup{Count: count, Ranks: got}))
		}
		for in, why := range map[string]string{"16": "the job has 16", "x": "no list", "3-1": "no list",
			"1,": "no list", "-1": "no list", "0-99999999999": "no list"} {
			_, err := ParseRanks(l, in)
			require.ErrorContains(t, err, why, in)
		}
	}
	none, err := ParseRanks(blockwise, "")
	require.NoError(t, err)
	require.Zero(t, none.Len())
	require.Equal(t, "0-1,3,and 7 more", ranksOf(blockwise, rankwire.RankGroup{Count: 10, Ranks: spans(0, 2, 3, 4)}))
}

func stuck() rankwire.Standings {
	return rankwire.Standings{Nodes: 4,
		Groups: rankwire.NewRankGroups(
			rankwire.RankGroup{State: rankwire.Waits, Op: 2, Count: 14, AgeMs: 12_300, CPUMs: 61_000, Memory: 3 << 30,
				Ranks: spans(0, 5, 6, 15)},
			rankwire.RankGroup{State: rankwire.Joined, Op: 1, Count: 1, Ranks: spans(5, 6)},
			rankwire.RankGroup{State: rankwire.Over, Count: 1, Ranks: spans(15, 16)},
		),
		Rows: rankwire.NewRankRows(
			rankwire.RankRow{Rank: 5, Host: "node0002", PID: 77, State: rankwire.Joined, Op: 1, Kernel: 'S',
				Waits: "read", CPUMs: 61_500, Busy: 999, Memory: 5 << 20, CPUs: "0-3", HCA: "mlx5_0:1"},
			rankwire.RankRow{Rank: 0, Host: "node0001", PID: 70, State: rankwire.Waits, Op: 2, Kernel: 'R', AgeMs: 100},
			rankwire.RankRow{Rank: 15, Host: "node0004", State: rankwire.Over},
		), More: 13}
}

// Who is missing is named with its node and what it does; ranks that have ended are not missing.
func TestCollectives(t *testing.T) {
	s := StandingOf(blockwise, stuck())
	require.Equal(t, []string{
		"Barrier 2: 14 ranks have waited for 12.3 s; missing: rank 5 on node0002 (process 77, in read)",
	}, s.Collectives())
	require.Equal(t, []string{
		"14 ranks: in Barrier 2 for up to 12.3 s (ranks 0-4,6-14)",
		"1 rank: joined, after collective 1 (ranks 5)",
		"1 rank: exited (ranks 15)",
	}, s.Summary())
	s.Rows = nil
	require.Equal(t, "Barrier 2: 14 ranks have waited for 12.3 s; missing: 1 ranks (5)", s.Collectives()[0])
	s.Groups = s.Groups[:1]
	require.Contains(t, s.Collectives()[0], "missing: nobody")
	s.Silent = 1
	require.Contains(t, s.Collectives()[0], "nodes that do not answer")
	require.Contains(t, s.Summary()[1], "1 node has not answered")
}

// A dealt job names ranks by the numbers of the user.
func TestDealt(t *testing.T) {
	s := StandingOf(dealt, stuck())
	require.Equal(t, dealt.Rank(5), s.Rows[0].Rank)
	require.Equal(t, "0,4,8,12", ranksOf(dealt, rankwire.RankGroup{Count: 4, Ranks: spans(0, 4)}))
}

func TestTable(t *testing.T) {
	s := StandingOf(blockwise, stuck())
	require.Equal(t, []string{
		"RANK  HOST      PID  S  CPU%     TIME  MEMORY  WAITS IN  CPUS  HCA       STATE",
		"   0  node0001   70  R   0.0  0:00.00      0B  -         -     -         Barrier 2 for 0.1 s",
		"   5  node0002   77  S  99.9  1:01.50    5.0M  read      0-3   mlx5_0:1  joined, after 1",
		"  15  node0004    -  -   0.0  0:00.00      0B  -         -     -         exited",
		"and 13 more",
	}, s.Table(false))
	require.Contains(t, s.Table(true)[1], "node0002")
	ranks, cpu, memory := s.Totals()
	require.Equal(t, uint32(16), ranks)
	require.Equal(t, 61.0, cpu)
	require.Equal(t, "3.0G", BytesText(memory))
	require.Equal(t, "2.0T", BytesText(2<<40))
}

func TestStacks(t *testing.T) {
	a := stuck()
	groups := slices.Collect(a.Groups.All())
	groups[0].Text = "poll <- main\nepoll_wait"
	a.Groups = rankwire.NewRankGroups(groups[:2]...)
	a.Cut = 3
	s := StandingOf(blockwise, a)
	require.Equal(t, []string{
		"14 ranks: 0-4,6-14 (in Barrier 2)", "    poll <- main", "    epoll_wait", "1 rank: 5 (joined)",
		"and 3 ranks in other states",
	}, s.Stacks())
}
