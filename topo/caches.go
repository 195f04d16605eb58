package topo

import "strconv"

// caches are the last-level caches: for each CPU that of level 3 or, where there
// is none, that of the highest level. A level of which no cache serves two cores
// tells nothing about placement and is left out; of one that matters, those that
// have one core left, because others are offline, are kept.
//
// A fourth level is outside of the packages (s390), or one for all of a package,
// and is passed over for the third.
func (r *reader) caches(m *Machine) []Object {
	var levels []int // of each part, in the same order
	caches, _ := r.parts(m.Online, "last-level cache", func(cpu int) (Object, bool) {
		o, level, ok := r.cache(cpu)
		if ok {
			levels = append(levels, level)
		}
		return o, ok
	})
	cores := levelOf(m.Cores)
	shared := map[int]bool{}
	for i, c := range caches {
		if core, _ := cores.at(c.CPUs.First()); !c.CPUs.In(core.CPUs) {
			shared[levels[i]] = true
		}
	}
	var kept []Object
	for i, c := range caches {
		if shared[levels[i]] {
			kept = append(kept, c)
		}
	}
	return kept
}

// cache is the last-level cache of a CPU (drivers/base/cacheinfo.c), and its
// level. The highest indices are mostly the highest levels.
func (r *reader) cache(cpu int) (best Object, level int, ok bool) {
	dir := folder(cpu) + "/cache"
	there := r.numbered(dir, "index")
	where := ""
	for n := there.Last(); n >= 0 && level < 3; n-- {
		if !there.Has(n) {
			continue
		}
		index := dir + "/index" + strconv.Itoa(n)
		l, ok := r.number(index + "/level")
		if !ok || l <= level || l > 3 {
			continue
		}
		if kind, _ := r.text(index + "/type"); kind != "Instruction" {
			where, level = index, l
		}
	}
	if where == "" {
		return Object{}, 0, false
	}
	set, ok := r.either(where+"/shared_cpu_list", where+"/shared_cpu_map")
	if !ok {
		return Object{}, 0, false
	}
	return Object{r.id(where + "/id"), set}, level, true
}
