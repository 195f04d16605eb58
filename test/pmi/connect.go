package main

import (
	"bufio"
	"net"
	"os"
	"strconv"
)

// connect finds the agent: by the inherited descriptor, or, where there is
// none, by the port, where the client says its number and is told its rank.
func connect() *client {
	if at := os.Getenv("PMI_PORT"); at != "" && os.Getenv("PMI_FD") == "" {
		return call(at, os.Getenv("PMI_ID"))
	}
	var err error
	c := &client{}
	if c.rank, err = strconv.Atoi(os.Getenv("PMI_RANK")); err == nil {
		c.size, err = strconv.Atoi(os.Getenv("PMI_SIZE"))
	}
	fd, e := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil || e != nil {
		fail("no PMI: PMI_RANK, PMI_SIZE or PMI_FD is missing")
	}
	f := os.NewFile(uintptr(fd), "pmi")
	c.in, c.out = bufio.NewReader(f), f
	return c
}

func call(at, id string) *client {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		fail("PMI_PORT: %v", err)
	}
	c := &client{rank: -1, in: bufio.NewReader(conn), out: conn}
	line := "cmd=initack pmiid=" + id
	c.ask(line, "initack")
	number := func(name string) int {
		n, err := strconv.Atoi(c.answer(line, "set")[name])
		if err != nil {
			fail("%s: no %s", line, name)
		}
		return n
	}
	c.size = number("size")
	c.rank = number("rank")
	number("debug")
	return c
}
