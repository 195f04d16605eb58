package spawn

import (
	"hash/fnv"
	"path"
	"strconv"
	"strings"

	"ibrun/internal/job"
)

// environment is a list of NAME=VALUE in which a name comes once. Of what is the
// same for all ranks of a program there is one, which theirs begin with.
type environment struct {
	list  []string
	at    map[string]int // where a name is
	below map[string]int // the same of what it began with, which is not changed
	user  int            // how many entries of the list, its first, are the user's
}

func newEnvironment(most int) *environment {
	return &environment{list: make([]string, 0, most), at: make(map[string]int, most)}
}

// find says where a name is.
func (e *environment) find(entry string) (name string, i int, known bool) {
	name, _, _ = strings.Cut(entry, "=")
	if i, known = e.at[name]; !known {
		i, known = e.below[name]
	}
	return name, i, known
}

// set makes an entry count, whatever was there.
func (e *environment) set(entry string) {
	name, i, known := e.find(entry)
	if known {
		e.list[i] = entry
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, entry)
}

// suggest makes an entry count if the name is not there yet.
func (e *environment) suggest(entry string) {
	if _, _, known := e.find(entry); !known {
		e.set(entry)
	}
}

// shared is what the ranks of a program have in common: the user's side, and
// what this node contributes for the names that are its own.
func shared(node []string, p *job.Program) *environment {
	env := newEnvironment(len(p.Env) + 8)
	for _, entry := range p.Env {
		env.set(entry)
	}
	env.user = len(env.list)
	for _, entry := range node {
		if name, _, ok := strings.Cut(entry, "="); ok && matches(p.Drop, name) {
			env.suggest(entry)
		}
	}
	return env
}

// spare is the room for what is set besides in a rank's environment.
const spare = 8

// of is a rank's whole environment: what tells libraries of the rank's devices,
// unless the user's side does, and what tells the rank who it is.
func (e *environment) of(devices, own []string) *environment {
	most := len(devices) + len(own) + spare
	env := newEnvironment(most)
	env.list = append(make([]string, 0, len(e.list)+most), e.list...)
	env.below = e.at
	for _, entry := range devices {
		if _, i, known := e.find(entry); !known || i >= e.user {
			env.set(entry)
		}
	}
	for _, entry := range own {
		env.set(entry)
	}
	return env
}

func matches(globs []string, name string) bool {
	for _, g := range globs {
		if ok, _ := path.Match(g, name); ok {
			return true
		}
	}
	return false
}

// identity is what tells a rank who it is, in the words that programs of
// several origins look for, and by what it speaks PMI if it does.
func (s *Set) identity(r *rank, speaksPMI bool) []string {
	j, n := s.cfg.Job, s.cfg.Node
	rank, size, local, locals := num(r.rank), num(j.Size), num(r.local), num(n.Ranks)
	spawned := "0"
	if j.Spawner != "" {
		spawned = "1"
	}
	var pmi []string
	if speaksPMI {
		pmi = []string{"PMI_FD=" + strconv.Itoa(ControlFD), "PMI_SPAWNED=" + spawned, "PMI_JOBID=" + j.ID}
	}
	if j.PMIPort && speaksPMI {
		pmi = append(s.PMI.environ(r.slot), pmi[1:]...)
	}
	for _, v := range j.Own {
		fact := [job.Facts]string{job.OwnRank: rank, job.OwnLocalRank: local, job.OwnNode: num(s.cfg.NodeIndex),
			job.OwnHost: n.Host, job.AllRanks: size}[v.Fact]
		pmi = append(pmi, v.Name+"="+fact)
	}
	return append(pmi,
		"PMI_RANK="+rank, "PMI_SIZE="+size,
		"MPI_LOCALRANKID="+local, "MPI_LOCALNRANKS="+locals,
		"OMPI_COMM_WORLD_RANK="+rank, "OMPI_COMM_WORLD_SIZE="+size,
		"OMPI_COMM_WORLD_LOCAL_RANK="+local, "OMPI_COMM_WORLD_LOCAL_SIZE="+locals,
		"OMPI_COMM_WORLD_NODE_RANK="+local,
		"MV2_COMM_WORLD_RANK="+rank, "MV2_COMM_WORLD_SIZE="+size,
		"MV2_COMM_WORLD_LOCAL_RANK="+local, "MV2_COMM_WORLD_LOCAL_SIZE="+locals,
		"RANK="+rank, "WORLD_SIZE="+size, "LOCAL_RANK="+local, "LOCAL_WORLD_SIZE="+locals,
		"MASTER_ADDR="+j.FirstHost, "MASTER_PORT="+strconv.Itoa(masterPort(j.ID)),
		"IBRUN_RANK="+rank, "IBRUN_SIZE="+size,
		"IBRUN_LOCAL_RANK="+local, "IBRUN_LOCAL_SIZE="+locals,
		"IBRUN_NODE="+num(s.cfg.NodeIndex), "IBRUN_NODES="+num(j.Nodes),
		"IBRUN_HOST="+n.Host, "IBRUN_JOB_ID="+j.ID, "IBRUN_APPNUM="+num(r.program.App),
		"IBRUN_FD="+strconv.Itoa(ControlFD), "IBRUN_RESTART="+num(r.start),
		"PWD="+r.program.Dir,
	)
}

// num formats a number in decimal.
func num[N ~uint8 | ~uint32](n N) string { return strconv.FormatUint(uint64(n), 10) }

// masterPort is a port for programs that meet at rank 0's host, the same for
// all ranks of a job and likely different for another: 20000 to 29999, below
// Linux's ephemeral range.
func masterPort(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return 20000 + int(h.Sum32()%10000)
}

// expand fills in the pattern of a per-rank file: %r rank, %h host, %t rank on
// its node, %j job.
func (s *Set) expand(pattern string, r *rank) (string, error) {
	return job.Expand(pattern, func(letter byte, width int) (string, bool) {
		switch letter {
		case 'r':
			return job.Padded(uint64(r.rank), width), true
		case 't':
			return job.Padded(uint64(r.local), width), true
		case 'h':
			return s.cfg.Node.Host, true
		case 'j':
			return s.cfg.Job.ID, true
		}
		return "", false
	})
}
