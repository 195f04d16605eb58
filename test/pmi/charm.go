package main

import "fmt"

// charmBarriers is how often each rank of Charm++ waits for all, finalizing included.
const charmBarriers = 12

// charm does what Charm++'s ucx layer was recorded to do: each rank puts the size of its address
// and the address in parts, reads those of all ranks, its own first, and asks neither for the
// mapping nor for its program's number.
func (c *client) charm(bytes int) {
	c.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	c.ask("cmd=get_maxes", "maxes")
	c.kvs = c.ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
	c.put(fmt.Sprintf("UCX-size-%d", c.rank), fmt.Sprint(bytes))
	c.put(fmt.Sprintf("UCX-%d-0", c.rank), c.value(c.rank, bytes))
	c.ask("cmd=barrier_in", "barrier_out")
	for d := range c.size {
		from := (c.rank + d) % c.size
		c.expect(fmt.Sprintf("UCX-size-%d", from), fmt.Sprint(bytes))
		c.expect(fmt.Sprintf("UCX-%d-0", from), c.value(from, bytes))
	}
	for range charmBarriers - 1 {
		c.ask("cmd=barrier_in", "barrier_out")
	}
	c.ask("cmd=finalize", "finalize_ack")
	if c.rank == 0 {
		fmt.Printf("%d ranks exchanged\n", c.size)
	}
}

func (c *client) put(key, value string) {
	c.ask(fmt.Sprintf("cmd=put kvsname=%s key=%s value=%s", c.kvs, key, value), "put_result")
}

// expect gets a value that must be as it is known to be.
func (c *client) expect(key, value string) {
	if got := c.ask(fmt.Sprintf("cmd=get kvsname=%s key=%s", c.kvs, key), "get_result")["value"]; got != value {
		fail("rank %d: %s: %.40s", c.rank, key, got)
	}
}
