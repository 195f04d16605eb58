package tree

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// CostCache is what earlier launches have cost, by launcher and site. Its text is
// JSON with a version, so that another build's may be told from ours.
type CostCache struct {
	Version int    `json:"version"`
	Places  []Site `json:"places"` // the last to be written first
}

// Site is one launcher towards nodes of one kind.
type Site struct {
	Launcher string  `json:"launcher"`
	Site     string  `json:"site"`
	Entries  []Entry `json:"seen"` // the oldest first
}

// Entry is what one launch has shown.
type Entry struct {
	SEQ      time.Duration `json:"seq_ns"`
	REM      time.Duration `json:"rem_ns"`
	Window   int           `json:"window"`
	Sessions int           `json:"sessions"`
}

const (
	costCacheVersion = 1
	maxLaunches      = 15 // launches of one site: the median of them counts
	mostSites        = 64
	maxCostCache     = 1 << 20 // bytes of a cost cache that is worth reading
	longest          = time.Hour

	// EnoughSessions is how many one parent must have made for a launch to be
	// remembered: fewer run side by side and say nothing of the time between starts.
	EnoughSessions = 8
)

// ParseCostCache reads a cost cache. Whatever is not one is an empty one: it is a memory,
// and a job must not suffer from a bad one.
func ParseCostCache(text []byte) CostCache {
	var b CostCache
	if len(text) > maxCostCache || json.Unmarshal(text, &b) != nil || b.Version != costCacheVersion {
		return CostCache{Version: costCacheVersion}
	}
	for i := range b.Places {
		s := &b.Places[i]
		s.Entries = slices.DeleteFunc(s.Entries, func(e Entry) bool {
			return e.SEQ < leastCost || e.REM < leastCost || e.SEQ > longest || e.REM > longest
		})
		s.Entries = s.Entries[max(0, len(s.Entries)-maxLaunches):]
	}
	b.Places = slices.DeleteFunc(b.Places, func(s Site) bool { return len(s.Entries) == 0 })
	b.Places = b.Places[:min(len(b.Places), mostSites)]
	return b
}

// Bytes is what ParseCostCache reads.
func (b CostCache) Bytes() []byte {
	text, _ := json.MarshalIndent(b, "", " ") // of numbers and strings: it cannot fail
	return append(text, '\n')
}

// Note adds a launch, and reports whether it has shown enough to be worth it.
func (b *CostCache) Note(launcher, site string, f Fit) bool {
	if f.Most < EnoughSessions {
		return false
	}
	s := Site{Launcher: launcher, Site: site}
	if i := b.find(launcher, site); i >= 0 {
		s = b.Places[i]
		b.Places = slices.Delete(b.Places, i, i+1)
	}
	s.Entries = append(s.Entries, Entry{f.SEQ, f.REM, f.InFlight, f.Sessions})
	s.Entries = s.Entries[max(0, len(s.Entries)-maxLaunches):]
	b.Places = slices.Insert(b.Places, 0, s)
	b.Places = b.Places[:min(len(b.Places), mostSites)]
	return true
}

func (b CostCache) find(launcher, site string) int {
	return slices.IndexFunc(b.Places, func(s Site) bool { return s.Launcher == launcher && s.Site == site })
}

// Cost is what launches to a site have cost, and how many there were; ok is
// false if there was none. The window is not among them: it belongs to a job.
func (b CostCache) Cost(launcher, site string) (c Cost, launches int, ok bool) {
	i := b.find(launcher, site)
	if i < 0 {
		return c, 0, false
	}
	c, _, _ = b.Places[i].Middle()
	return c, len(b.Places[i].Entries), true
}

// Middle is the medians of all that was seen of a site, with the largest window
// and the number of sessions in all.
func (s Site) Middle() (c Cost, window, sessions int) {
	var seq, rem []time.Duration
	for _, e := range s.Entries {
		seq, rem = append(seq, e.SEQ), append(rem, e.REM)
		window, sessions = max(window, e.Window), sessions+e.Sessions
	}
	return Cost{SEQ: quantile(seq, 0.5), REM: quantile(rem, 0.5)}, window, sessions
}

// SiteOf is the kind of node that a host is: its domain if it has one, otherwise
// its name without digits at the end.
func SiteOf(host string) string {
	if name, domain, ok := strings.Cut(host, "."); ok && strings.Trim(name, "0123456789") != "" {
		return domain
	}
	if site := strings.TrimRight(host, "0123456789"); site != "" {
		return site
	}
	return host
}
