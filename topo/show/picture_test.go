package show

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

func TestPicture(t *testing.T) {
	forbidden := big()
	forbidden.Allowed = cpuset.Of(16, 18)
	unknown := holes()
	for i := range unknown.Memories {
		unknown.Memories[i].Bytes = 0
	}
	unknown.Notes = nil
	hostile := flat()
	hostile.HCAs = []topo.HCA{{Name: "\x1b[2J" + strings.Repeat("x", 400), IWARP: true, Place: topo.Place{NUMA: 99},
		Ports: []topo.Port{{State: "\r\n\u202e"}}}}
	hostile.Notes = []string{"a\tb " + strings.Repeat("long ", 30)}
	for name, c := range map[string]struct {
		machine *topo.Machine
		want    string
	}{
		"Ranger": {ranger(), `
4 packages, 4 NUMA nodes, 4 shared caches, 16 cores, 16 CPUs, 32.0 GiB, load 0.25
package 0, NUMA node 0: 8.0 GiB
  cache  0 1 2 3
package 1, NUMA node 1: 8.0 GiB
  cache  4 5 6 7
  mlx4_0:1  InfiniBand, ACTIVE, LID 0x3a4, 16 Gb/s
  mlx4_0:2  InfiniBand, DOWN (Polling), 10 Gb/s
  ib0       InfiniBand, up, MTU 65520
package 2, NUMA node 2: 8.0 GiB
  cache  8 9 10 11
package 3, NUMA node 3: 8.0 GiB
  cache  12 13 14 15
at no known NUMA node
  eth0  Ethernet, up, 1 Gb/s, MTU 1500
  eth1  Ethernet, down, MTU 1500
without hardware: 1 loopback interface
`},
		"NUMA nodes in packages": {rome(), `
2 packages, 8 NUMA nodes, 16 shared caches, 64 cores, 128 CPUs, 512.0 GiB
package 0
  NUMA node 0: 64.0 GiB
    cache  0,64 1,65 2,66 3,67
    cache  4,68 5,69 6,70 7,71
  NUMA node 1: 64.0 GiB
    cache  8,72 9,73 10,74 11,75
    cache  12,76 13,77 14,78 15,79
  NUMA node 2: 64.0 GiB
    cache  16,80 17,81 18,82 19,83
    cache  20,84 21,85 22,86 23,87
    mlx5_0:1  Ethernet, ACTIVE, 200 Gb/s, on ens1, on ens1.7
  NUMA node 3: 64.0 GiB
    cache  24,88 25,89 26,90 27,91
    cache  28,92 29,93 30,94 31,95
package 1
  NUMA node 4: 64.0 GiB
    cache  32,96 33,97 34,98 35,99
    cache  36,100 37,101 38,102 39,103
  NUMA node 5: 64.0 GiB
    cache  40,104 41,105 42,106 43,107
    cache  44,108 45,109 46,110 47,111
  NUMA node 6: 64.0 GiB
    cache  48,112 49,113 50,114 51,115
    cache  52,116 53,117 54,118 55,119
  NUMA node 7: 64.0 GiB
    cache  56,120 57,121 58,122 59,123
    cache  60,124 61,125 62,126 63,127
`},
		"packages in a NUMA node": {undivided(), `
2 packages, 1 NUMA node, 4 cores, 4 CPUs, 8.0 GiB
NUMA node 0: 8.0 GiB
  package 0
    cores  0 1
  package 1
    cores  2 3
  hfi1_0  HCA without ports
`},
		"hybrid": {hybrid(), `
1 package, 1 NUMA node, 1 shared cache, 12 cores, 16 CPUs, 16.0 GiB
(~: slower core)
package 0, NUMA node 0: 16.0 GiB
  cache  0-1 2-3 4-5 6-7 ~8 ~9 ~10 ~11 ~12 ~13 ~14 ~15
`},
		"offline, forbidden, memory alone": {holes(), `
2 packages, 3 NUMA nodes, 4 cores, 6 CPUs, 1028.5 GiB
allowed: 4 of 6 CPUs: 0,4-5,9; memory of 2 of 3 NUMA nodes: 0,7; time of 1.5 CPUs
(in parentheses: not allowed)
package 0, NUMA node 0: 4.0 GiB
  cores  0,(8) 9
package 3, NUMA node 1: (512.0 MiB)
  cores  4,(12) 5
NUMA node 7: 1024.0 GiB, no CPUs
note: sys/devices/system/cpu/cpu7/topology/core_id holds "x", which is no number
`},
		"flat": {flat(), `
1 package, 1 NUMA node, 1 core, 1 CPU
package ?, NUMA node 0
  cores  0
`},
		"memory of unknown size": {unknown, `
2 packages, 3 NUMA nodes, 4 cores, 6 CPUs
allowed: 4 of 6 CPUs: 0,4-5,9; memory of 2 of 3 NUMA nodes: 0,7; time of 1.5 CPUs
(in parentheses: not allowed)
package 0, NUMA node 0
  cores  0,(8) 9
package 3, NUMA node 1: (memory)
  cores  4,(12) 5
NUMA node 7, no CPUs
`},
		"hostile": {hostile, `
1 package, 1 NUMA node, 1 core, 1 CPU
package ?, NUMA node 0
  cores  0
at no known NUMA node
  ?[2Jxxxxxxxxxxxxxxxxx...:0  iWARP, ???
note: a?b long long long long long long long long long long long long long long long long long long
      long long long long long long long long long long long long
`},
		"256 CPUs": {big(), `
8 packages, 8 NUMA nodes, 8 shared caches, 128 cores, 256 CPUs, 64.0 GiB
package 0, NUMA node 0: 8.0 GiB
  cache  16 cores of 2 CPUs: 0-15,128-143
package 1, NUMA node 1: 8.0 GiB
  cache  16 cores of 2 CPUs: 16-31,144-159
package 2, NUMA node 2: 8.0 GiB
  cache  16 cores of 2 CPUs: 32-47,160-175
package 3, NUMA node 3: 8.0 GiB
  cache  16 cores of 2 CPUs: 48-63,176-191
  mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1 and 60 more  InfiniBand, DOWN (Disabled)
package 4, NUMA node 4: 8.0 GiB
  cache  16 cores of 2 CPUs: 64-79,192-207
package 5, NUMA node 5: 8.0 GiB
  cache  16 cores of 2 CPUs: 80-95,208-223
package 6, NUMA node 6: 8.0 GiB
  cache  16 cores of 2 CPUs: 96-111,224-239
package 7, NUMA node 7: 8.0 GiB
  cache  16 cores of 2 CPUs: 112-127,240-255
without hardware: 1000 virtual interfaces, 500 up
`},
		"NUMA nodes in caches, CPUs in turns": {interleaved(), `
2 packages, 4 NUMA nodes, 2 shared caches, 192 cores, 192 CPUs, 1024.0 GiB
package 0, cache
  NUMA node 0: 256.0 GiB
    cores  48 cores: 0-94 in steps of 2
  NUMA node 1: 256.0 GiB
    cores  48 cores: 96-190 in steps of 2
package 1, cache
  NUMA node 2: 256.0 GiB
    cores  48 cores: 1-95 in steps of 2
  NUMA node 3: 256.0 GiB
    cores  48 cores: 97-191 in steps of 2
`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, "\n"+Picture(c.machine))
		})
	}
	require.Contains(t, Picture(forbidden), `
package 1, NUMA node 1: 8.0 GiB
  cache  16 cores of 2 CPUs: 16,18,(17,19-31,144-159)
package 2, NUMA node 2: 8.0 GiB
  cache  16 cores of 2 CPUs: (32-47,160-175)
`)
}

// Kinds of cores are told apart in ranges too, and so many caches that they
// would hide the rest are not drawn.
func TestPictureOfMany(t *testing.T) {
	m := hwloctest.Described("l3:none core:60 mib:8192")
	m.Slower = cpuset.Span(40, 59)
	require.Contains(t, Picture(m), "\n  cores  40 cores: 0-39; 20 slower cores: 40-59\n")

	require.Equal(t, 1+1+64, strings.Count(Picture(hwloctest.Described("l3:64 core:128 mib:8192")), "\n"))
	require.Contains(t, Picture(hwloctest.Described("l3:65 core:130 mib:8192")), `130 CPUs, 8.0 GiB
package 0, NUMA node 0: 8.0 GiB
  cores  130 cores: 0-129
`)
}

func TestBroken(t *testing.T) {
	require.Equal(t, []string{"ab cd", "ef"}, broken("ab cd ef", " ", 5))
	require.Equal(t, []string{"ab", "cde", "fgh", "i"}, broken("ab cdefgh i", " ", 3))
	require.Equal(t, []string{"1,2,", "3"}, broken("1,2,3", " ,", 4))
	require.Equal(t, []string{""}, broken("", " ", 4))
}
