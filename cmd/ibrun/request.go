package main

import (
	"fmt"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/hostlist"
	"ibrun/job"
)

type action uint8

const (
	run action = iota
	help
	version
	dryRun
)

// segment is one program of the command line, between colons.
type segment struct {
	ranks   uint64
	perNode uint64
	argv    []string
	dir     string
	sets    []string // NAME=VALUE for this program
}

// request is a command line as it was written. Files that it names have not
// been opened.
type request struct {
	action   action
	now      segment
	segments []segment
	warnings []string

	hosts     []hostlist.Entry
	hostFiles []string
	exclude   []hostlist.Entry
	offset    uint64

	env        environRules
	output     job.Output
	label      bool
	timestamp  bool
	stdin      string // "", "none", "all" or a rank
	launch     job.Launch
	tree       string
	timeout    time.Duration
	wait       time.Duration
	killOnBad  bool
	allCodes   bool
	verbose    int
	quiet      bool
	preflight  bool
	configFile string
	showMap    bool
}

// Defaults that users may see.
const (
	launchTimeout = 15 * time.Second
	killGrace     = 2 * time.Second
)

func newRequest() *request {
	return &request{
		killOnBad: true, preflight: true, tree: tree.Shape{Kind: tree.Auto}.Name(),
		launch: job.Launch{Launcher: "ssh", Timeout: launchTimeout, Grace: killGrace},
	}
}

func (r *request) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, w := range r.warnings {
		if w == text {
			return
		}
	}
	r.warnings = append(r.warnings, text)
}

// warnLater gives the warning of an option whose capability is to come.
func (r *request) warnLater(word string) { r.warn("%s: %s", word, noBinding) }
