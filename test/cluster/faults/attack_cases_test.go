//go:build cluster || soak

package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"ibrun/test/vcluster/cluster"
)

// firstAgentLine matches standard output that consists of the first line of an agent. The agent prints this line before
// it reads from its parent, and prints nothing else if it then ends because it cannot decode the input.
const firstAgentLine = `^::ibrun-agent:[^\n]*\n?$`

// attackCases returns the cases of the catalogue that simulate an attacker. They send malformed frames to an agent,
// print escape sequences, and change the copy of ibrun on a node.
func attackCases() []entry {
	frames := func(fault string, bytes []byte) entry {
		return entry{class: "D", fault: "to an agent: " + fault, file: string(bytes),
			shell: []string{"sh", "-c", `"$1" :agent <"$2"`, "sh"}, args: []string{file},
			code: []int{0}, out: firstAgentLine}
	}
	random := bytes.Repeat([]byte{0xa7, 3, 0x19, 0xee, 0x50}, 1000)
	return []entry{
		frames("random bytes", random),
		frames("a frame of 4 GiB", []byte{0xff, 0xff, 0xff, 0xff, 1}),
		frames("a frame that is cut short", []byte{0, 0, 1, 0, 1, 2, 3}),
		frames("an unknown kind", []byte{0, 0, 0, 1, 250}),
		frames("nothing", nil),
		{class: "D", fault: "escape sequences of a rank reach a pipe as they are", code: []int{0},
			args: []string{"-H", "node0001", "-n", "1", "printf", "\x1b[31m\a"}, out: "^\x1b\\[31m\a$"},
		{class: "D", fault: "escape sequences of a start-up file are shown as text",
			args: []string{"-H", "node0002", "true"}, code: []int{125}, prints: `\\x1b\[31mbad`,
			before: func(s *site) error {
				return s.write("node0002", "/root/.bashrc", "printf '\\033[31mbad\\n' >&2; exit 3\n")
			},
			after: func(s *site) error { return s.unwrite("node0002", "/root/.bashrc") }},
		{class: "D", fault: "the folder of the copy is another user's link", code: []int{0}, ships: true,
			args: []string{"-H", "node0002", "echo", "started"}, out: started,
			before: func(s *site) error {
				return s.on("node0002", "sh", "-c", "rm -rf /root/.cache/ibrun; mkdir -p /root/.cache /tmp/theirs; "+
					"chown 65534 /tmp/theirs; ln -s /tmp/theirs /root/.cache/ibrun; chown -h 65534 /root/.cache/ibrun")
			},
			check: func(s *site) error {
				found, err := os.ReadDir(filepath.Join(s.Root("node0002"), "tmp/theirs"))
				if err == nil && len(found) > 0 {
					err = fmt.Errorf("%d files were put where another user owns the folder", len(found))
				}
				return err
			},
			after: func(s *site) error {
				return s.on("node0002", "sh", "-c", "rm -rf /root/.cache/ibrun /tmp/theirs")
			}},
		{class: "D", fault: "the copy on a node was changed", code: []int{0}, ships: true,
			args: []string{"-H", "node0002", "echo", "started"}, out: started,
			before: func(s *site) error {
				if err := s.on(cluster.FrontName, s.unseen(), "-H", "node0002", "true"); err != nil {
					return err
				}
				return s.on("node0002", "sh", "-c", "for f in /root/.cache/ibrun/*; do echo '#!/bin/sh' >$f; done")
			}},
	}
}
