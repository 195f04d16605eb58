package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// port is what a parent tells its children under the key that MPI uses for it, and publishes
// besides.
const (
	portKey = "PARENT_ROOT_PORT_NAME"
	port    = "tag#0$description#a$"
)

// family is a program that spawns, or was spawned, or both.
func (c *client) family(child bool, ranks int, argv []string) {
	c.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	c.kvs = c.ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
	if child != (os.Getenv("PMI_SPAWNED") == "1") {
		fail("rank %d: PMI_SPAWNED=%s", c.rank, os.Getenv("PMI_SPAWNED"))
	}
	if child {
		c.expect(portKey, port)
		if got := c.ask("cmd=lookup_name service=parent", "lookup_result")["port"]; got != port {
			fail("rank %d: lookup: %s", c.rank, got)
		}
		fmt.Printf("child %d of %d\n", c.rank, c.size)
	} else if c.rank == 0 {
		c.ask("cmd=publish_name service=parent port="+port, "publish_result")
	}
	if ranks > 0 && c.rank == 0 {
		fmt.Print(c.spawn(ranks, argv))
	}
	c.ask("cmd=barrier_in", "barrier_out")
	c.ask("cmd=finalize", "finalize_ack")
}

// spawn returns the answer.
func (c *client) spawn(ranks int, argv []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mcmd=spawn\nnprocs=%d\nexecname=%s\ntotspawns=1\nspawnssofar=1\nargcnt=%d\n", ranks, argv[0],
		len(argv)-1)
	for i, a := range argv[1:] {
		fmt.Fprintf(&b, "arg%d=%s\n", i+1, a)
	}
	fmt.Fprintf(&b, "preput_num=1\npreput_key_0=%s\npreput_val_0=%s\ninfo_num=0\nendcmd\n", portKey, port)
	if _, err := io.WriteString(c.out, b.String()); err != nil {
		fail("rank %d: spawn: %v", c.rank, err)
	}
	text, err := c.in.ReadString('\n')
	if err != nil {
		fail("rank %d: spawn: %v", c.rank, err)
	}
	return text
}
