package ib

import (
	"bufio"
	"fmt"
	"os"

	"ibrun/test/bench/curve"
	"ibrun/test/bench/figure"
)

// mostCurve is the longest message of the curve. Soft-RoCE under emulation carries it in some ms.
const mostCurve = 1 << 20

// curveOf prints round trips of all lengths in turns with those of ibv_rc_pingpong. A machine that
// ends with it prints more, so each of its lines begins with a word.
func curveOf(device, rounds string) error {
	n, err := figure.Rounds(rounds)
	if err != nil {
		return err
	}
	f, _, err := open(device, events)
	if err != nil {
		return err
	}
	p, err := echoes(f, device, events)
	if err != nil {
		return err
	}
	defer p.other.Kill()
	for _, bytes := range curve.Lengths(mostCurve) {
		const trips = 50
		var took figure.Pair
		if err := took.Measure(n,
			func() (float64, error) { return p.pingpong(bytes, trips) },
			func() (float64, error) { return verbs(device, events, bytes, trips) }); err != nil {
			return err
		}
		for i := range took.Ours {
			fmt.Printf("curve %d %f %f\n", bytes, took.Ours[i], took.Theirs[i])
		}
	}
	return nil
}

// plot draws what curveOf has printed.
func plot(printed, rounds, file, picture string) error {
	from, err := os.Open(printed)
	if err != nil {
		return err
	}
	defer from.Close()
	ways := []curve.Way{{Name: "ibrun", Colour: "#1f4e79"}, {Name: "ibv_rc_pingpong -e", Colour: "#7b8794"}}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var bytes int
		var ours, theirs float64
		if n, _ := fmt.Sscanf(lines.Text(), "curve %d %f %f", &bytes, &ours, &theirs); n == 3 {
			ways[0].Add(bytes, ours)
			ways[1].Add(bytes, theirs)
		}
	}
	how := "Medians of " + rounds + " turns, two processes, Soft-RoCE in a virtual machine with two CPUs."
	return curve.Save("Messages over InfiniBand", how, ways, mostCurve, file, picture)
}
