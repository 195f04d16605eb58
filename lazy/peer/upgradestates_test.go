package peer

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const upgradeFile = "../../docs/dev/upgrade.md"

// TestUpgradeTable checks that upgradeTable has exactly one row for each state of a region and each input of that
// region, and that each row without actions gives a reason.
func TestUpgradeTable(t *testing.T) {
	rows := map[[2]int]int{}
	for _, r := range upgradeTable {
		says := len(r.actions) > 0 || r.why != "" || r.inputs[0] == onOver
		require.True(t, says, "%v, %v is ignored without a reason", r.states, r.inputs)
		for _, s := range r.states {
			require.Equal(t, r.states[0].region(), s.region())
			require.Subset(t, inputsOf[s.region()], r.inputs, "%v", s)
			require.True(t, r.next == same || r.next.region() == s.region(), "%v, %v leads elsewhere", s, r.inputs)
			for _, in := range r.inputs {
				rows[[2]int{int(s), int(in)}]++
			}
		}
	}
	for s := range upgradeStates {
		for _, in := range inputsOf[s.region()] {
			require.Equal(t, 1, rows[[2]int{int(s), int(in)}], "%v of %q, %v", s, s.region(), in)
		}
	}
}

// renderUpgradeTable returns the tables of docs/dev/upgrade.md, with the rows in the order of their inputs. The text
// before the tables is written by hand.
func renderUpgradeTable() string {
	var b strings.Builder
	for region := range regions {
		fmt.Fprintf(&b, "\n## %s\n\n| state | event | next | what happens | why |\n", region)
		b.WriteString("|---|---|---|---|---|\n")
		for _, in := range inputsOf[region] {
			for _, r := range upgradeTable {
				if r.states[0].region() == region && slices.Contains(r.inputs, in) {
					b.WriteString(renderUpgradeRow(r, in))
				}
			}
		}
	}
	return b.String()
}

func renderUpgradeRow(r upgradeRow, in upgradeInput) string {
	from, what := make([]string, 0, len(r.states)), make([]string, 0, len(r.actions))
	for _, s := range r.states {
		from = append(from, s.String())
	}
	for _, a := range r.actions {
		switch a := a.(type) {
		case controlKind:
			what = append(what, "send "+a.String())
		case EffectKind:
			what = append(what, effectNames[a])
		case *upgradeStep:
			what = append(what, a.name)
		}
	}
	if len(what) == 0 {
		what = append(what, "-")
	}
	next := ""
	if r.next != same {
		next = r.next.String()
	}
	return fmt.Sprintf("| %s | %v | %s | %s | %s |\n", strings.Join(from, ", "), in, next, strings.Join(what, "; "), r.why)
}

// TestUpgradeStates checks that the tables in docs/dev/upgrade.md match upgradeTable. With -update, it writes them.
func TestUpgradeStates(t *testing.T) {
	have, err := os.ReadFile(upgradeFile)
	require.NoError(t, err)
	at := strings.Index(string(have), "\n## The stream\n")
	require.NotEqual(t, -1, at)
	text, rows := string(have)[:at], string(have)[at:]
	if *update {
		rows = renderUpgradeTable()
		require.NoError(t, os.WriteFile(upgradeFile, []byte(text+rows), 0o644))
	}
	require.Equal(t, renderUpgradeTable(), rows, "go test ./lazy/peer -run TestUpgradeStates -update")
}

// inputsOf lists, for each region, the inputs for which upgradeTable must have rows.
var inputsOf = [regions][]upgradeInput{
	stream: {
		onNeed, onNeedOffer, onWant, onOffer, onOfferMade, onOfferFailed, onConnected, onAccepted, onTaken,
		onDialFailed, onGiveUp, onUnanswered, onRest, onLeave, onLeaveBusy, onStay, onBothBack, onBroken,
		onLost, onCut, onResume, onStopped, onResumed, onMoved, onPeerEnded, onTried, onRested, onReset,
	},
	outgoing: {onMove, onMark, onReturned, onOver},
	incoming: {onSwitch, onMissed, onEndMark, onOver},
}
