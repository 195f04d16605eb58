package bind

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

// table is what ranks get, by machine: a request, and behind the bar the CPUs
// of each rank, written by hand from docs/placement.md. "0-3*4" is four ranks
// with the same; "note" and "error" come with a part of their text, and ranks
// with a note are not bound.
var table = map[string]string{
	"opteron": `
		n=1 | 0-15
		n=2 | 0-7 8-15
		n=3 | 0-7 8-11 12-15
		n=4 | 0-3 4-7 8-11 12-15
		n=5 | 0-1 2-3 4-7 8-11 12-15
		n=6 | 0-1 2-3 4-5 6-7 8-11 12-15
		n=7 | 0-1 2-3 4-5 6-7 8-9 10-11 12-15
		n=8 | 0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15
		n=9 | 0-1 2 3 4-5 6-7 8-9 10-11 12-13 14-15
		n=13 | 0 1 2 3 4-5 6 7 8-9 10 11 12-13 14 15
		n=16 | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
		n=17 | note: oversubscribed: 17 ranks on 16 allowed CPUs, so that none is bound
		n=17 overload | note: oversubscribed: 17 ranks on 16 allowed CPUs
		n=5 omp=3 | 0-3 4-6 7-9 10-12 13-15
		n=5 omp=4 | 0-1 2-3 4-7 8-11 12-15
		n=4 omp=4 | 0-3 4-7 8-11 12-15
		n=4 pe=4 | 0-3 4-7 8-11 12-15
		n=2 pe=4 | 0-3 4-7
		n=4 pe=3 | 0-2 4-6 8-10 12-14
		n=5 pe=3 | 0-2 3-5 6-8 9-11 12-14
		n=2 pe=8 | 0-7 8-15
		n=3 pe=1 | 0 1 2
		n=3 pe=64 | error: 3 ranks with 64 cores each need 192 cores; this node allows 16: write PE=5 or less, or start fewer ranks here with -ppn
		n=1 pe=17 | error: 1 rank with 17 cores needs 17 cores; this node allows 16: write PE=16 or less
		n=20 pe=1 | error: 20 ranks with 1 core each need 20 cores; this node allows 16: start fewer ranks
		n=3 pe=6 overload | 0-5 6-11 0-5
		n=3 pe=17 overload | error: 3 ranks with 17 cores each need 51 cores; this node allows 16: write PE=5 or less
		n=4 map=core | 0 1 2 3
		n=4 map=core omp=4 | 0-3 4-7 8-11 12-15
		n=4 map=core omp=5 | 0 1 2 3
		n=4 map=core bind=package | 0-3*4
		n=20 map=core | note: oversubscribed: 20 ranks on 16 allowed CPUs
		n=20 map=core overload | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 1 2 3
		n=20 map=core omp=2 overload | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 1 2 3
		n=5 pe=4 bind=package | error: 5 ranks with 4 cores each need 20 cores; this node allows 16
		n=4 map=package | 0-3 4-7 8-11 12-15
		n=8 map=package | 0-1 4-5 8-9 12-13 2-3 6-7 10-11 14-15
		n=6 map=package bind=core | 0 4 8 12 1 5
		n=6 map=package bind=core fill | 0 1 2 3 4 5
		n=18 map=package bind=core fill overload | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 1
		n=6 map=package pe=2 | 0-1 4-5 8-9 12-13 2-3 6-7
		n=6 map=package pe=2 fill | 0-1 2-3 4-5 6-7 8-9 10-11
		n=5 map=package pe=3 | error: 5 ranks with 3 cores each cannot fit into the package objects of this node, which have room for 4: write --map-by core:PE=3
		n=6 map=numa bind=numa | 0-3 4-7 8-11 12-15 0-3 4-7
		n=20 map=package bind=package | note: oversubscribed: 20 ranks on 16 allowed CPUs
		n=4 bind=core | 0 4 8 12
		n=16 bind=core | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
		n=2 bind=core omp=2 | 0-1 8-9
		n=2 bind=package | 0-3 8-11
		n=6 bind=numa | 0-3*2 4-7*2 8-11 12-15
		n=2 bind=none | free*2
		n=2 bind=none pe=64 | free*2
		n=4 ppr=2 | 0-3 4-7 8-11 12-15
		n=4 map=package ppr=2 | 0-1 2-3 4-5 6-7
		n=4 map=package ppr=2 bind=core | 0 1 4 5
		n=4 map=package ppr=2 pe=2 | 0-1 2-3 4-5 6-7
		n=4 map=package ppr=2 pe=3 | error: 2 ranks with 3 cores each do not fit into every package of this node
		n=4 map=package ppr=2 bind=core rank=package | 0 4 1 5
		n=6 map=core bind=core rank=package | 0 4 1 5 2 3
		n=8 rank=package | 0-1 4-5 8-9 12-13 2-3 6-7 10-11 14-15
		n=4 map=package rank=package | 0-3 4-7 8-11 12-15
		n=6 map=package bind=core rank=core | 0 1 4 5 8 12
		n=6 map=package bind=core rank=hwthread | 0 1 4 5 8 12
		n=17 rank=core | note: oversubscribed: 17 ranks on 16 allowed CPUs
		n=9 map=package ppr=2 | error: 9 ranks with 2 on each package need 5 of them; this node allows 4: write ppr:3:package
		n=10 map=package ppr=5 | note: oversubscribed: 5 ranks on each package
		n=10 map=package ppr=5 bind=package | 0-3*5 4-7*5
		n=4 slots=0:0/3:1-2/5,7/1:*;0:3 | 0 13-14 5,7 3-7
		n=2 slots=*/0-3 | 0-15 0-3
		n=1 slots=4:0 | error: rank file: no package 4: this node has packages 0-3
		n=1 slots=1:4 | error: rank file: slot 1:4: package 1 has cores 0-3
		n=1 slots=16 | error: rank file: slot 16: this node has cores 0-15
		n=2 slots=0 | error: 2 ranks and 1 places
		n=1 slots=x | error: invalid core
		n=3 cpus=0/5/2-3 | 0 5 2-3
		n=5 cpus=0/5/2-3 | 0 5 2-3 0 5
		n=1 cpus=0/77 | 0
		n=2 cpus=0/14-17 | error: no CPU 16-17 runs on this node, which has 0-15`,
	"cgroup": `
		n=1 | 0-3
		n=3 | 0-1 2 3
		n=4 | 0 1 2 3
		n=5 | note: oversubscribed: 5 ranks on 4 allowed CPUs
		n=2 map=package | 0-1 2-3
		n=2 map=package bind=package | 0-3*2
		n=2 map=package ppr=1 | error: 2 ranks with 1 on each package need 2 of them; this node allows 1: write ppr:2:package
		n=2 pe=3 | error: 2 ranks with 3 cores each need 6 cores; this node allows 4: write PE=2 or less
		n=2 slots=0-5/1 | 0-3 1
		n=2 slots=0/1:0 | error: rank file: slot 1:0: none of its CPUs is allowed on this node, which allows 0-3
		n=2 cpus=4/0 | error: CPU 4 is not allowed here`,
	"offlines": `
		n=1 | 0-1,3-4,6-12,15
		n=2 | 0-1,4,8-9,12 3,6-7,10-11,15
		n=3 | 0-1,4,8-9,12 3,7,11,15 6,10
		n=4 | 0,4,8,12 1,9 3,7,11,15 6,10
		n=5 | 0,8 4,12 1,9 3,7,11,15 6,10
		n=7 | 0,8 4,12 1,9 3,11 7,15 6 10
		n=8 | 0 8 4,12 1,9 3 11 7,15 6,10
		n=12 | 0 8 4 12 1 9 3 11 7 15 6 10
		n=13 | note: oversubscribed: 13 ranks on 12 allowed CPUs
		n=4 map=hwthread | 0 8 4 12
		n=4 map=core bind=hwthread | 0 4 1 3
		n=9 map=core bind=hwthread | 0 4 1 3 7 6 10 8 12
		n=5 map=package bind=core | 0,8 1,9 3,11 6 4,12
		n=6 map=package bind=core | 0,8 1,9 3,11 6 4,12 7,15
		n=3 map=l3cache | 0,4,8,12 1,9 3,7,11,15
		n=2 pe=2 bind=hwthread | 0,8 4,12
		n=2 pe=3 map=hwthread | 0,4,8 3,7,11
		n=5 pe=3 map=hwthread | error: 5 ranks with 3 CPUs each need 15 CPUs; this node allows 12: write PE=2 or less
		n=8 map=core | note: oversubscribed: 8 ranks on 7 allowed cores, so that none is bound; --map-by hwthread
		n=8 bind=core | note: oversubscribed: 8 ranks on 7 allowed cores
		n=8 bind=package | 0,4,8,12*3 1,9 3,7,11,15*3 6,10
		n=4 map=core ppr=2 | 0 8 4 12
		n=2 map=hwthread bind=core | 0,8*2
		n=2 cpus=0/2 | error: no CPU 2 runs on this node`,
	"sandy": `
		n=2 | 0-7 8-15
		n=3 | 0-3 4-7 8-15
		n=6 | 0-2 3-5 6-7 8-10 11-13 14-15
		n=5 omp=3 | 0-3 4-6 7-9 10-12 13-15
		n=6 omp=3 | 0-2 3-5 6-7 8-10 11-13 14-15
		n=2 pe=4 | 0-3 4-7
		n=2 pe=4 map=numa | 0-3 8-11
		n=2 bind=core | 0 8
		n=4 map=package bind=package | 0-7 8-15 0-7 8-15
		n=24 map=package bind=package | note: oversubscribed: 24 ranks on 16 allowed CPUs`,
	"interlagos": `
		n=3 | 0-31 32-47 48-63
		n=4 | 0-15 16-31 32-47 48-63
		n=6 | 0-7 8-15 16-23 24-31 32-47 48-63
		n=8 | 0-7 8-15 16-23 24-31 32-39 40-47 48-55 56-63
		n=12 | 0-3 4-7 8-15 16-19 20-23 24-31 32-35 36-39 40-47 48-51 52-55 56-63
		n=2 map=numa | 0-7 8-15
		n=9 map=numa bind=core | 0 8 16 24 32 40 48 56 1
		n=3 map=package bind=numa | 0-7 16-23 32-39
		n=4 pe=12 | 0-11 16-27 32-43 48-59
		n=5 pe=12 | 0-11 12-23 24-35 36-47 48-59
		n=2 map=package ppr=1 pe=2 | 0-1 16-17
		n=6 map=package ppr=3 bind=numa | 0-7*3 16-23*3`,
	"columns": `
		n=4 | 0,4,8,12,16,20,24,28,32,36 1,5,9,13,17,21,25,29,33,37 2,6,10,14,18,22,26,30,34,38 3,7,11,15,19,23,27,31,35,39
		n=8 | 0,4,8,12,16 20,24,28,32,36 1,5,9,13,17 21,25,29,33,37 2,6,10,14,18 22,26,30,34,38 3,7,11,15,19 23,27,31,35,39
		n=3 bind=core | 0 2 3
		n=3 map=core | 0 4 8
		n=5 map=package bind=hwthread | 0 1 2 3 4
		n=2 map=l3cache | error: l3cache: this node has no cache that several cores share
		n=2 bind=l3cache | error: l3cache: this node has no cache that several cores share: write numa or package`,
	"threads": `
		n=8 | 0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15
		n=9 | 0 8 1,9 2,10 3,11 4,12 5,13 6,14 7,15
		n=16 | 0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15
		n=3 bind=core | 0,8 2,10 4,12
		n=3 bind=hwthread | 0 2 4
		n=10 bind=core | note: oversubscribed: 10 ranks on 8 allowed cores
		n=10 bind=core overload | 0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15 0,8 1,9
		n=12 map=core bind=numa | 0-3,8-11*4 4-7,12-15*4 0-3,8-11*4
		n=20 bind=numa | note: oversubscribed: 20 ranks on 16 allowed CPUs
		n=2 pe=3 bind=hwthread | 0-1,8 2,9-10
		n=2 map=hwthread ppr=1 | 0 8
		n=4 map=hwthread ppr=2 | note: oversubscribed: 2 ranks on each hwthread`,
	"epyc": `
		n=3 | 0-15 16-23 24-31
		n=6 | 0-3 4-7 8-11 12-15 16-23 24-31
		n=8 | 0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31
		n=5 pe=3 | 0-2 4-6 8-10 12-14 16-18
		n=10 pe=3 | 0-2 3-5 6-8 9-11 12-14 15-17 18-20 21-23 24-26 27-29
		n=3 map=l3cache pe=2 | 0-1 4-5 8-9
		n=2 map=l3cache bind=numa | 0-7*2`,
	"snc": `
		n=4 | 0-3 4-7 8-11 12-15
		n=4 map=l3cache | 0-3 8-11 4-7 12-15
		n=2 bind=l3cache | 0-7 8-15`,
	"hybrid": `
		n=1 | 0-7
		n=2 | 0-3 4-7
		n=3 | 0-3 4-5 6-7
		n=6 | 0-1 2-3 4 5 6 7
		n=7 | 0 1 2 3 4-5 6 7`,
	"little": `
		n=2 | 2-3 0-1
		n=3 map=core | 2 3 0`,
	"crossed": `
		n=2 | 0-1,4-5 2-3,6-7
		n=3 | 0-1 4-5 2-3,6-7
		n=4 | 0-1 4-5 2-3 6-7
		n=4 map=package bind=core | 0 4 2 6
		n=2 pe=3 | 0-1,4 2-3,6`,
	"lopsided": `
		n=2 | 0 8-15
		n=3 | 0 8-11 12-15
		n=9 map=package bind=core | 0 8 9 10 11 12 13 14 15
		n=4 map=package | 0 8-10 11-13 14-15
		n=4 map=package omp=2 | 0 8-10 11-13 14-15
		n=4 omp=2 | 0,8-9 10-11 12-13 14-15
		n=4 map=package pe=2 | 8-9 10-11 12-13 14-15
		n=3 map=package ppr=2 pe=2 | error: 2 ranks with 2 cores each do not fit into every package`,
	"lone": `
		n=2 map=l3cache bind=l3cache | 0-1 2
		n=4 map=l3cache | 0-1 2 3-4 5
		n=6 map=core bind=l3cache | 0-1*2 2 3-4*2 5`,
	"one": `
		n=1 | 2
		n=3 | note: this node allows only CPU 2 to its 3 ranks`,
	"holes": `
		n=2 | 0 5-7
		n=3 | 0 5-6 7
		n=2 map=package | 0 5-7
		n=3 map=package bind=core | 0 5 6`,
}

// objects are the words of the command line.
var objects = map[string]job.Object{
	"none": job.Unbound, "hwthread": job.HWThread, "core": job.Core, "l3cache": job.L3, "numa": job.NUMA,
	"package": job.Package,
}

// request reads the part of a row before the bar.
func request(text string) (want job.Binding, ranks, omp int) {
	for word := range strings.FieldsSeq(text) {
		switch key, v, _ := strings.Cut(word, "="); key {
		case "n":
			ranks = number(v)
		case "omp":
			omp = number(v)
		case "pe":
			want.PE = uint32(number(v))
		case "ppr":
			want.PerObj = uint32(number(v))
		case "map":
			want.Map = objects[v]
		case "bind":
			want.Bind = objects[v]
		case "cpus":
			want.CPUs = strings.Split(v, "/")
		case "rank":
			want.Rank = objects[v]
		case "slots":
			want.Slots = strings.Split(v, "/")
		case "fill":
			want.Fill = true
		case "overload":
			want.Overload = true
		default:
			panic(word)
		}
	}
	return want, ranks, omp
}

// answer reads the part behind it: sets as the kernel writes them.
func answer(text string) (sets []string) {
	for word := range strings.FieldsSeq(text) {
		cpus, times, many := strings.Cut(word, "*")
		n := 1
		if many {
			n = number(times)
		}
		if cpus == "free" {
			cpus = ""
		}
		for range n {
			sets = append(sets, cpus)
		}
	}
	return sets
}

// holds checks one machine against the rows of its table.
func holds(t *testing.T, m *topo.Machine, rows string) (n int) {
	for row := range strings.Lines(rows) {
		if row = strings.TrimSpace(row); row == "" {
			continue
		}
		n++
		asked, expected, _ := strings.Cut(row, " | ")
		t.Run(asked, func(t *testing.T) {
			want, ranks, omp := request(asked)
			places, notes, err := Places(m, want, ranks, omp)
			if text, ok := strings.CutPrefix(expected, "error: "); ok {
				require.ErrorContains(t, err, text)
				require.Empty(t, places)
				return
			}
			require.NoError(t, err)
			if text, ok := strings.CutPrefix(expected, "note: "); ok {
				require.Len(t, notes, 1)
				require.Contains(t, notes[0], text)
				expected = fmt.Sprintf("free*%d", ranks)
			} else {
				require.Empty(t, notes)
			}
			require.Equal(t, answer(expected), sets(places))
		})
	}
	return n
}

func sets(places []Place) (texts []string) {
	for _, p := range places {
		texts = append(texts, p.CPUs.String())
	}
	return texts
}

func TestTable(t *testing.T) {
	n := 0
	for name, rows := range table {
		t.Run(name, func(t *testing.T) { n += holds(t, machine(shapes[name]), rows) })
	}
	require.GreaterOrEqual(t, n, 60)
}

// captures are the machines of the table that there is a capture of, or one of our own.
var captures = map[string]string{
	"made-opteron":                       "cgroup",
	"made-sandy":                         "sandy",
	"16amd64-4n4c-cgroup-distance-merge": "cgroup",
	"16em64t-4s2c2t-offlines":            "offlines",
	"32em64t-2n8c+dax+nvme+mic+dimms":    "sandy",
	"64amd64-4s2n4ca2co":                 "interlagos",
	"fakepcilocalities":                  "columns",
}

// TestTableOfCaptures holds the same table against the machines themselves.
func TestTableOfCaptures(t *testing.T) {
	held := 0
	for capture, m := range hwloctest.Machines(t) {
		name := captures[capture]
		if name == "" {
			continue
		}
		t.Run(capture, func(t *testing.T) {
			held += holds(t, m, table[name])
			if name == "cgroup" { // and without it
				m.Allowed, m.AllowedMems = m.Online, list("0-3")
				local(t, m)
				held += holds(t, m, table["opteron"])
			}
		})
	}
	require.GreaterOrEqual(t, held, 20)
}

// local checks that 16 ranks on four packages of four cores have their memory
// beside them.
func local(t *testing.T, m *topo.Machine) {
	places, _, err := Places(m, job.Binding{}, 16, 0)
	require.NoError(t, err)
	for rank, p := range places {
		require.Equal(t, fmt.Sprint(rank/4), p.Mems.String())
		require.False(t, p.Interleave)
	}
}
