// Command pmi is a PMI-1 client without an MPI library: it puts a value, waits for all, gets those of some others, and takes its leave,
// as MPI_Init and MPI_Finalize do. With -all it gets everybody's; with -charm it does what Charm++ does. It exits with 1 if an answer is not what it must be.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

type client struct {
	in         *bufio.Reader
	out        io.Writer
	rank, size int
	kvs        string
}

func main() {
	all := flag.Bool("all", false, "get the values of all ranks")
	bytes := flag.Int("bytes", 400, "of each value")
	charm := flag.Bool("charm", false, "exchange as Charm++'s ucx layer does")
	spawn := flag.Int("spawn", 0, "ranks of the program behind the options that rank 0 spawns")
	child := flag.Bool("child", false, "be one that was spawned so")
	flag.Parse()
	c := connect()
	if *charm {
		c.charm(*bytes)
		return
	}
	if *child || *spawn > 0 {
		c.family(*child, *spawn, flag.Args())
		return
	}
	c.run(*all, *bytes)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pmi: "+format+"\n", args...)
	os.Exit(1)
}

// ask says a line and returns the fields of the answer.
func (c *client) ask(line, want string) map[string]string {
	if _, err := io.WriteString(c.out, line+"\n"); err != nil {
		fail("rank %d: %s: %v", c.rank, line, err)
	}
	return c.hear(line, want)
}

// hear returns the fields of an answer to a line.
func (c *client) hear(line, want string) map[string]string {
	text, err := c.in.ReadString('\n')
	if err != nil {
		fail("rank %d: %s: %v", c.rank, line, err)
	}
	fields := map[string]string{}
	for _, f := range strings.Fields(text) {
		k, v, _ := strings.Cut(f, "=")
		fields[k] = v
	}
	if fields["cmd"] != want || fields["rc"] != "0" && fields["rc"] != "" {
		fail("rank %d: %s: %s", c.rank, line, text)
	}
	return fields
}

func (c *client) value(rank, bytes int) string {
	word := fmt.Sprintf("%08x", rank*2654435761)
	return strings.Repeat(word, bytes/len(word)+1)[:bytes]
}

func (c *client) run(all bool, bytes int) {
	c.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	c.ask("cmd=get_maxes", "maxes")
	c.kvs = c.ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
	c.ask("cmd=barrier_in", "barrier_out")
	c.put(fmt.Sprintf("addr-%d", c.rank), c.value(c.rank, bytes))
	c.ask("cmd=barrier_in", "barrier_out")
	for d := 1; d < c.size; {
		from := (c.rank + d) % c.size
		c.expect(fmt.Sprintf("addr-%d", from), c.value(from, bytes))
		if all {
			d++
		} else {
			d *= 2
		}
	}
	c.ask("cmd=barrier_in", "barrier_out")
	c.ask("cmd=finalize", "finalize_ack")
	if c.rank == 0 {
		fmt.Printf("%d ranks exchanged\n", c.size)
	}
}
