package native

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Unfit says what of a configuration only ssh itself can do, or judge.
type Unfit struct {
	Where string // file and line; empty: no line says it
	Why   string
}

func (u *Unfit) Error() string {
	if u.Where == "" {
		return u.Why
	}
	return u.Where + ": " + u.Why
}

// deepest is how far files may include each other (readconf.c, READCONF_MAX_DEPTH).
const deepest = 16

// reader collects what the lines that concern one host say. The first value of
// a keyword counts, unless all do.
type reader struct {
	sys     System
	alias   string // as given
	host    string // what Host lines look at: the alias, in the second pass the name that the first one found
	user    string // given by the caller, or empty
	final   bool   // the second pass, which "Match final" asks for
	again   bool   // somebody asked for it
	got     map[string][]string
	at      map[string]string // where the value of a keyword stands
	ignored string            // IgnoreUnknown
	lax     bool              // what is not understood is passed over
}

// scope is where a line stands.
type scope struct {
	name   string // of the file
	line   int
	user   bool // the user's file, or one that it includes
	depth  int
	never  bool // included by a section that does not count
	active bool
}

func (s *scope) where() string {
	if s.line == 0 {
		return s.name
	}
	return fmt.Sprintf("%s:%d", s.name, s.line)
}

func (s *scope) unfit(format string, args ...any) error {
	return &Unfit{s.where(), fmt.Sprintf(format, args...)}
}

// file reads a file; one that is not there is as an empty one unless it must be.
func (r *reader) file(name string, s scope, must bool) error {
	s.name = name
	f, err := os.Open(name)
	if err != nil {
		if !must && (errors.Is(err, fs.ErrNotExist) || s.depth == 0) {
			return nil
		}
		return &Unfit{"", err.Error()}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return &Unfit{"", err.Error()}
	}
	if !st.Mode().IsRegular() && name != os.DevNull {
		return &Unfit{name, "no regular file"} // a pipe can be read once, and that should be ssh
	}
	if s.user && !must || s.depth > 0 {
		if owner := st.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != r.sys.UID || st.Mode()&0o022 != 0 {
			return &Unfit{name, "others may write it"}
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return &Unfit{"", err.Error()}
	}
	for _, l := range strings.Split(string(text), "\n") {
		s.line++
		if err := r.line(l, &s); err != nil && !r.lax {
			return err
		}
	}
	return nil
}

// line takes in one line.
func (r *reader) line(text string, s *scope) error {
	key, args, err := words(text)
	if err != nil {
		return s.unfit("%v", err)
	}
	if key == "" {
		return nil
	}
	if to, ok := alias[key]; ok {
		key = to
	}
	if len(args) == 0 || slices.Contains(args, "") {
		return s.unfit("%s without a value", key)
	}
	switch key {
	case "host":
		s.active = !s.never && matchAny(r.host, args)
		return nil
	case "match":
		s.active, err = r.match(args, s)
		return err
	case "include":
		return r.include(args, s)
	}
	return r.keyword(key, args, s)
}

// keyword takes in what one keyword is told.
func (r *reader) keyword(key string, args []string, s *scope) error {
	if ok, limited := unless[key]; limited {
		if s.active && r.got[key] == nil {
			r.got[key] = args
			if len(args) != 1 || !slices.Contains(ok, strings.ToLower(args[0])) {
				return s.unfit("%s %s", key, strings.Join(args, " "))
			}
		}
		return nil
	}
	how := keywords[key]
	switch {
	case how == harmless:
		return nil
	case how == asExec:
		if MatchList(key, strings.ToLower(r.ignored)) || !s.active && forwards[key] {
			return nil
		}
		return s.unfit("%s is not for native ssh", key)
	case len(args) > 1 && (how == word || how == flag):
		return s.unfit("%s has more than one value", key)
	}
	if how == flag {
		if _, ok := flags[strings.ToLower(args[0])]; !ok {
			return s.unfit("%s is neither yes nor no", key)
		}
	}
	if key == "ignoreunknown" && r.ignored == "" && s.active {
		r.ignored = args[0]
	}
	if check := checks[key]; check != nil && !check(args[0]) {
		return s.unfit("%s %s", key, args[0])
	}
	if !s.active || how != many && r.got[key] != nil {
		return nil
	}
	if how == many {
		for _, a := range args {
			if !slices.Contains(r.got[key], a) {
				r.got[key] = append(r.got[key], a)
			}
		}
	} else {
		r.got[key] = args
	}
	if r.at[key] == "" {
		r.at[key] = s.where()
	}
	return nil
}

// forwards are what only matters to the host that it is meant for, though
// there only ssh itself does it. Other unknown words may not even be keywords.
var forwards = map[string]bool{
	"localforward": true, "remoteforward": true, "dynamicforward": true, "localcommand": true, "bindinterface": true,
	"channeltimeout": true, "tag": true, "versionaddendum": true, "smartcarddevice": true,
}

// include reads other files in the place of this line.
func (r *reader) include(globs []string, s *scope) error {
	if s.depth == deepest {
		return s.unfit("files include each other")
	}
	for _, g := range globs {
		switch {
		case strings.ContainsAny(g, "%$") || strings.HasPrefix(g, "~") && !(s.user && strings.HasPrefix(g, "~/")):
			return s.unfit("include %s", g)
		case strings.HasPrefix(g, "~/"):
			g = filepath.Join(r.sys.Home, g[2:])
		case filepath.IsAbs(g):
		case s.user:
			g = filepath.Join(r.sys.Home, ".ssh", g)
		default:
			g = filepath.Join("/etc/ssh", g)
		}
		names, err := filepath.Glob(g)
		if err != nil {
			return s.unfit("include %s: %v", g, err)
		}
		for _, n := range names {
			inner := scope{user: s.user, depth: s.depth + 1, never: s.never || !s.active, active: s.active}
			if err := r.file(n, inner, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// match judges the criteria of a Match line. All must hold.
func (r *reader) match(args []string, s *scope) (bool, error) {
	result := !s.never
	for len(args) > 0 {
		what := strings.ToLower(args[0])
		what, not := strings.CutPrefix(what, "!")
		what, value, joined := strings.Cut(what, "=")
		args = args[1:]
		var holds bool
		switch what {
		case "all":
			if not || joined || len(args) > 0 {
				return false, s.unfit("match all stands with other criteria")
			}
			return result, nil
		case "final":
			r.again = true
			holds = r.final
		case "host", "originalhost", "user", "localuser":
			if !joined && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if value == "" {
				return false, s.unfit("match %s without a value", what)
			}
			holds = r.fits(what, value)
		default:
			return false, s.unfit("match %s", what)
		}
		if holds == not {
			result = false
		}
	}
	return result, nil
}

func (r *reader) fits(what, patterns string) bool {
	switch what {
	case "host":
		host := r.host
		if v := r.got["hostname"]; v != nil {
			host = strings.NewReplacer("%%", "%", "%h", r.alias).Replace(v[0])
		}
		return MatchList(strings.ToLower(host), strings.ToLower(patterns))
	case "originalhost":
		return MatchList(strings.ToLower(r.alias), strings.ToLower(patterns))
	case "user":
		return MatchList(cmp.Or(r.user, r.first("user", r.sys.User)), patterns)
	default:
		return MatchList(r.sys.User, patterns)
	}
}
