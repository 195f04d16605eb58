// Command pmi is a PMI-1 client without an MPI library: it puts a value, waits for all, gets those
// of some others, and takes its leave, as MPI_Init and MPI_Finalize do. With -all it gets
// everybody's; with -time N rank 0 puts and gets so many values of its own besides, and prints the
// median of each round trip to its agent; with -charm it does what Charm++ does. It exits with 1 if
// an answer is not what it must be.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
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
	rounds := flag.Int("time", 0, "puts and gets that rank 0 times")
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
	c.run(*all, *bytes, *rounds)
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
	return c.answer(line, want)
}

// answer returns the fields of an answer to a line.
func (c *client) answer(line, want string) map[string]string {
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

// timed does something so many times and returns the median, in microseconds.
func timed(rounds int, do func(i int)) float64 {
	took := make([]time.Duration, rounds)
	for i := range took {
		began := time.Now()
		do(i)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[rounds/2].Nanoseconds()) / 1000
}

// measure times puts and gets that need not leave the node, beside a request
// that the agent answers without looking anything up.
func (c *client) measure(bytes, rounds int) {
	value := c.value(0, bytes)
	put := timed(rounds, func(i int) {
		c.ask(fmt.Sprintf("cmd=put kvsname=%s key=t-%d-%d value=%s", c.kvs, c.rank, i, value), "put_result")
	})
	get := timed(rounds, func(i int) {
		c.ask(fmt.Sprintf("cmd=get kvsname=%s key=t-%d-%d", c.kvs, c.rank, i),
			"get_result")
	})
	floor := timed(rounds, func(int) { c.ask("cmd=get_my_kvsname", "my_kvsname") })
	fmt.Printf("put %.1f us, get %.1f us, a request without a value %.1f us: medians of %d round trips to the agent\n",
		put, get, floor, rounds)
}

func (c *client) run(all bool, bytes, rounds int) {
	c.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")
	c.ask("cmd=get_maxes", "maxes")
	c.kvs = c.ask("cmd=get_my_kvsname", "my_kvsname")["kvsname"]
	c.ask("cmd=barrier_in", "barrier_out")
	c.put(fmt.Sprintf("addr-%d", c.rank), c.value(c.rank, bytes))
	c.ask("cmd=barrier_in", "barrier_out")
	if rounds > 0 && c.rank == 0 {
		c.measure(bytes, rounds)
	}
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
