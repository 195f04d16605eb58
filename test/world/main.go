// Command world is a rank that uses package ibrun, for the scripts of test/script: world SCENARIO[,SCENARIO...]
// [ARGUMENT]. A rank that finds an error prints it and exits with 1.
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

// rank is one rank of a scenario. It implements waitfor.TB: a failure ends the rank, and so the job.
type rank struct {
	*app.World
	ctx  context.Context
	left bool // the scenario has called Finalize, or the rank must end without calling it
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

func (r *rank) errorIs(err, want error) { r.check(errors.Is(err, want), "%v, want %v", err, want) }

func (r *rank) contains(err error, text string) {
	r.check(err != nil && strings.Contains(err.Error(), text), "%v, want one with %s", err, text)
}

func (r *rank) equal(want, got any) {
	r.check(reflect.DeepEqual(want, got), "got %v, want %v", got, want)
}

// scenarios maps the names of scenarios to their functions, which take one argument.
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
	"overview":    (*rank).overview,
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
	if os.Args[1] == "first-thread" { // init runs on the first thread, which ends; other threads go on
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
