package cli

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// EnvironRules say what of the user's environment ranks get.
type EnvironRules struct {
	all     bool     // forward everything, said in so many words
	Chosen  []string // only these; nil unless limited
	Limited bool
	Always  []string // globs forwarded though they are node-local
	Sets    []string // NAME=VALUE for all programs
}

// export obeys -x NAME, -x 'GLOB*' or -x NAME=VALUE.
func (e *EnvironRules) export(v string) error {
	if name, _, ok := strings.Cut(v, "="); ok {
		if name == "" {
			return fmt.Errorf("%q has no name", v)
		}
		e.Sets = append(e.Sets, v)
		return nil
	}
	if _, err := path.Match(v, "x"); err != nil || v == "" {
		return fmt.Errorf("%q is no name and no pattern", v)
	}
	e.Always = append(e.Always, v)
	return nil
}

// only limits what is forwarded to some names.
func (e *EnvironRules) only(names []string) error {
	if slices.Contains(names, "") {
		return fmt.Errorf("the list has an empty name")
	}
	e.Limited, e.Chosen = true, append(e.Chosen, names...)
	return nil
}

// slurm obeys --export=ALL, NONE, or a list of names and settings.
func (e *EnvironRules) slurm(v string) error {
	all := false
	for i, w := range strings.Split(v, ",") {
		switch {
		case i > 0 && (w == "ALL" || w == "NONE") || all && w == "NONE":
			return fmt.Errorf("%s: ALL or NONE stands first, and once", Quote(v))
		case w == "ALL":
			all = true
		case w == "NONE":
			e.Limited = true
		case strings.Contains(w, "="):
			if err := validSet(w); err != nil {
				return err
			}
			e.Sets = append(e.Sets, w)
		case w == "":
			return fmt.Errorf("%q has an empty name", v)
		default:
			e.Chosen = append(e.Chosen, w)
		}
	}
	e.Limited = e.Limited || !all
	return nil
}

func validSet(v string) error {
	if name, _, _ := strings.Cut(v, "="); name == "" {
		return fmt.Errorf("a variable has no name")
	}
	return nil
}
