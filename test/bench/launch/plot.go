package launch

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
)

// Measures of the picture, in its units.
const (
	width    = 1000
	margin   = 24
	labels   = 170 // for the names of ways
	values   = 190 // for what stands behind a bar
	barStep  = 18
	barSize  = 13
	rowSpace = 34
	top      = 76
)

// colours of ways; grey is any other's.
var colours = map[string]string{ours: "#1f4e79", "ibrun --ssh exec": "#5b8db8", hydra: "#c8553d",
	openMPI: "#e0a458", uninstalled: "#8fb3d0", floorName: "#a7b1bd"}

// plot draws what a file holds.
func plot(file, picture string) error {
	kept, err := load(file)
	if err != nil {
		return err
	}
	if len(kept.Rows) == 0 {
		return errors.New("nothing was measured yet: make bench-launch")
	}
	var svg bytes.Buffer
	kept.draw(&svg)
	return os.WriteFile(picture, svg.Bytes(), 0o644)
}

// draw makes a bar for each way, as long as its share of the slowest of its row.
func (k *results) draw(w io.Writer) {
	height := top + margin
	for _, r := range k.Rows {
		height += rowSpace + barStep*len(r.Ways)
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`aria-label="Launch times of ibrun and of others">`+"\n", width, height)
	fmt.Fprint(w, `<style>text{font:12px system-ui,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2933}`+
		`.title{font-size:17px;font-weight:600}.sub{fill:#52606d}.case{font-weight:600}</style>`+"\n")
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text := func(x, y int, class, anchor, words string) {
		fmt.Fprintf(w, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n",
			x, y, class, anchor, html.EscapeString(words))
	}
	text(margin, 32, "title", "start", "From the command to the last line of all ranks")
	text(margin, 50, "sub", "start", "Medians of launches in turns on a virtual cluster, "+
		"whose nodes share one machine. Bars of a case are to one scale, cases are not.")
	machine, _ := k.Rows[0].where()
	text(margin, 67, "sub", "start", machine+". Load is what the machine did besides in the minute before a case.")
	y := top
	for _, r := range k.Rows {
		y += rowSpace
		_, load := r.where()
		text(margin, y-8, "case", "start", r.title())
		text(width-margin, y-8, "sub", "end",
			fmt.Sprintf("%d rounds, load %s; CPU of all hosts per node", r.Rounds, load))
		most := 0.0
		for _, way := range r.Ways {
			most = max(most, way.Median)
		}
		for _, way := range r.Ways {
			colour, known := colours[way.Name]
			if !known {
				colour = "#8a94a0"
			}
			length := int(way.Median / most * (width - 2*margin - labels - values))
			text(margin+labels-8, y+barSize-2, "", "end", way.Name)
			fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n",
				margin+labels, y, max(1, length), barSize, colour)
			text(margin+labels+length+6, y+barSize-2, "sub", "start",
				fmt.Sprintf("%s, %.1f ms CPU", seconds(way.Median), way.CPU))
			y += barStep
		}
	}
	fmt.Fprint(w, "</svg>\n")
}

// where is the machine, and its load when the row was begun to be measured.
func (r *row) where() (machine, load string) {
	machine, load, _ = strings.Cut(r.Machine, ", load ")
	return machine, load
}

func seconds(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}
