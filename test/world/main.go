// Command world is a test program that the scripts of test/script run as a job. Its ranks call package ibrun and check
// the results. The command line is
//
//	world SCENARIO[,SCENARIO...] [ARGUMENT]
//
// All ranks run the scenarios one after the other and pass the argument to each of them. If a check fails, the rank
// prints an error and exits with code 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	app "ibrun"
	"ibrun/test/waitfor"
)

// rank is the rank that this process runs. It implements waitfor.TB: Fatalf ends the process and thereby the job.
type rank struct {
	*app.World
	ctx  context.Context
	left bool // main must not call Finalize, because the scenario has called it or the rank must end without it
}

func (r *rank) Helper() {}

func (r *rank) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "rank %d of %d: %s\n%s", r.Rank(), r.Size(), fmt.Sprintf(format, args...), debug.Stack())
	os.Exit(1)
}

func (r *rank) check(ok bool, format string, args ...any) {
	if !ok {
		r.Fatalf(format, args...)
	}
}

func (r *rank) noError(err error) { r.check(err == nil, "%v", err) }

func (r *rank) errorIs(err, want error) {
	r.check(errors.Is(err, want), "error is %v, want %v", err, want)
}

func (r *rank) contains(err error, text string) {
	r.check(err != nil && strings.Contains(err.Error(), text), "error is %v, want one that contains %q", err, text)
}

func (r *rank) equal(want, got any) {
	r.check(reflect.DeepEqual(want, got), "got %v, want %v", got, want)
}

// scenarios maps the name of each scenario to its function. The parameter arg is the ARGUMENT of the command line, or
// "".
var scenarios = map[string]func(r *rank, arg string){
	"abort":       (*rank).abort,
	"again":       (*rank).again,
	"child":       (*rank).child,
	"collectives": (*rank).collectives,
	"converse":    (*rank).converse,
	"ended":       (*rank).joinsNot,
	"failures":    (*rank).failures,
	"flood":       (*rank).flood,
	"gone":        (*rank).endsEarly,
	"heavy":       (*rank).heavy,
	"hold":        (*rank).hold,
	"kvs":         (*rank).kvs,
	"large":       (*rank).large,
	"leave":       func(r *rank, _ string) { r.left = true }, // without Finalize
	"messages":    (*rank).messages,
	"ranks":       (*rank).noSuchRanks,
	"ring":        (*rank).ring,
	"stuck":       (*rank).entersNoBarrier,
	"trouble":     (*rank).disagree,
	"twice":       (*rank).initTwice,
	"will":        (*rank).will,
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func init() {
	// With "first-thread" the main thread ends and the other threads stay. Init functions run on the main thread.
	if os.Args[1] == "first-thread" {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitfor.Deadline)
	defer cancel()
	w, err := app.Init(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := &rank{World: w, ctx: ctx}
	for name := range strings.SplitSeq(os.Args[1], ",") {
		scenarios[name](r, append(os.Args[2:], "")[0])
	}
	if !r.left {
		r.noError(w.Finalize(ctx))
	}
}
