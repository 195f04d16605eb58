package launch

import (
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"ibrun/test/bench/chart"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// A sweep is over how long a session takes, besides what it costs in CPU time, and over nodes.
var (
	sweepLatencies = []time.Duration{0, 50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	sweepNodes     = []int{16, 64, 256}
)

// swept is what a sweep found, as the file has it.
type swept struct {
	Machine string  `json:"machine"`
	Points  []point `json:"points"`
}

// point is one latency and number of nodes, one rank on each. Times are in milliseconds, medians.
type point struct {
	Latency   float64 `json:"latency_ms"`
	Nodes     int     `json:"nodes"`
	Predicted float64 `json:"predicted_ms"` // last agent up, by the model with what earlier launches cost
	Up        float64 `json:"up_ms"`        // last agent up, as it was
	Ours      float64 `json:"ibrun_ms"`     // these three: from the command to its end
	Hydra     float64 `json:"hydra_ms"`
	Floor     float64 `json:"floor_ms"` // bare sessions, all at once where they wait
}

// sweep measures all of it, and keeps it in a file.
func sweep(ibrun string, rounds int, file, picture string) error {
	ibrun, err := filepath.Abs(ibrun)
	if err != nil {
		return err
	}
	found := swept{Machine: figure.Machine()}
	fmt.Println(found.Machine)
	fmt.Printf("%8s %6s %12s %12s %12s %12s %12s\n", "latency", "nodes", "predicted", "agents up", ours, hydra,
		floorName)
	for _, latency := range sweepLatencies {
		for _, nodes := range sweepNodes {
			p, err := sweepPoint(ibrun, rounds, latency, nodes)
			if err != nil {
				return fmt.Errorf("%v, %d nodes: %w", latency, nodes, err)
			}
			fmt.Printf("%8v %6d %9.0f ms %9.0f ms %9.0f ms %9.0f ms %9.0f ms\n",
				latency, nodes, p.Predicted, p.Up, p.Ours, p.Hydra, p.Floor)
			found.Points = append(found.Points, p)
		}
	}
	return chart.Save(file, found, picture, "Launches over sessions that take long", []string{
		fmt.Sprintf("Medians of %d rounds in turns, one rank a node, rsh stand-in of a virtual cluster.", rounds),
		found.Machine,
	}, found.panels())
}

// panels are one for each number of nodes. Latencies are equally far apart on it.
func (f swept) panels() (panels []chart.Panel) {
	var x []chart.Tick
	at := map[float64]float64{}
	for i, l := range sweepLatencies {
		x = append(x, chart.Tick{At: math.Pow(2, float64(i)), Text: l.String()})
		at[ms(l)] = x[i].At
	}
	for _, nodes := range sweepNodes {
		p := chart.Panel{Title: fmt.Sprintf("%d nodes", nodes), X: x, XLabel: "what a session takes besides",
			Y: []chart.Tick{{At: 10, Text: "10 ms"}, {At: 100, Text: "0.1 s"}, {At: 1000, Text: "1 s"},
				{At: 10000, Text: "10 s"}}}
		for _, line := range []struct {
			series chart.Series
			value  func(point) float64
		}{
			{chart.Series{Name: "predicted, agents up", Colour: "#5b8db8", Dashed: true},
				func(p point) float64 { return p.Predicted }},
			{chart.Series{Name: "measured, agents up", Colour: "#5b8db8"}, func(p point) float64 { return p.Up }},
			{chart.Series{Name: "ibrun, whole job", Colour: colours[ours]}, func(p point) float64 { return p.Ours }},
			{chart.Series{Name: hydra + ", whole job", Colour: colours[hydra]},
				func(p point) float64 { return p.Hydra }},
			{chart.Series{Name: floorName, Colour: colours[floorName]},
				func(p point) float64 { return p.Floor }},
		} {
			for _, point := range f.Points {
				if point.Nodes == nodes {
					place := chart.Point{X: at[point.Latency], Y: line.value(point)}
					line.series.Points = append(line.series.Points, place)
				}
			}
			p.Series = append(p.Series, line.series)
		}
		panels = append(panels, p)
	}
	return panels
}

// sweepPoint measures one point. The round that does not count teaches ibrun what a session costs.
func sweepPoint(ibrun string, rounds int, latency time.Duration, nodes int) (p point, err error) {
	var predicted, up []float64
	r, err := measure(rounds, group{stand: true, latency: latency}, size{nodes, 1}, func(st *stage) []contestant {
		all := group{stand: true, latency: latency}.contestants(ibrun, st, size{nodes, 1})
		all = slices.DeleteFunc(all, func(c contestant) bool {
			return c.name != ours && c.name != hydra && c.name != floorName
		})
		mine := &all[0]
		mine.argv = slices.Insert(mine.argv, 1, "--timing", "--json")
		mine.read = func(said []byte) error {
			s, err := hosts.Times(said)
			if err == nil {
				predicted, up = append(predicted, s.Predicted.LastUp), append(up, s.LastUp)
			}
			return err
		}
		return all
	})
	if err != nil {
		return p, err
	}
	p = point{Latency: ms(latency), Nodes: nodes,
		Predicted: figure.Median(predicted[1:]), Up: figure.Median(up[1:])}
	for name, to := range map[string]*float64{ours: &p.Ours, hydra: &p.Hydra, floorName: &p.Floor} {
		w, there := r.find(name)
		if !there {
			return p, fmt.Errorf("%s: %w: make bench-sweep installs it", name, fs.ErrNotExist)
		}
		*to = w.Median
	}
	return p, nil
}
