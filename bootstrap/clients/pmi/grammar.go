package pmi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// command is a row of the grammar. Replies are written as they go over the
// wire, with % where a value goes; a reply's rc is 0 when the command was done.
type command struct {
	version int
	name    string
	in      string  // fields; those with ? may be missing, others not named here are ignored
	makes   Request // what it asks of the owner; nil: the engine answers
	reply   string  // the reply's command; empty: there is none
	ok      string
	absent  string // nothing was found; empty: cannot be
	no      string // refused
	take    func(*Engine, *command, message)
}

// grammar is all that we understand. Sources: recorded sessions (testdata), and
// what clients of MPICH and Slurm read; only lookups differ between the
// two, value and port, so the reply has both.
var grammar []command

func init() { // not above: what the rows do looks rows up
	grammar = []command{
		{1, "initack", "pmiid", Identify{}, "initack", "rc=0\ncmd=set size=%\ncmd=set rank=%\ncmd=set debug=0", "",
			"rc=-1 msg=%", (*Engine).initack},
		{1, "init", "pmi_version pmi_subversion ?" + longValues, nil, "response_to_init",
			"pmi_version=% pmi_subversion=% rc=0", "", "pmi_version=2 pmi_subversion=0 rc=-1 msg=%", (*Engine).init},
		{1, "get_maxes", "", nil, "maxes", "kvsname_max=% keylen_max=% vallen_max=% rc=0", "", "rc=-1 msg=%",
			(*Engine).maxes},
		{1, "get_appnum", "", nil, "appnum", "appnum=% rc=0", "", "rc=-1 msg=%", (*Engine).appnum},
		{1, "get_my_kvsname", "", nil, "my_kvsname", "kvsname=% rc=0", "", "rc=-1 msg=%", (*Engine).kvsname},
		{1, "get_universe_size", "", nil, "universe_size", "size=% rc=0", "", "rc=-1 msg=%", (*Engine).universe},
		{1, "put", "kvsname key value", Put{}, "put_result", "rc=0 msg=success", "", "rc=-1 msg=%", (*Engine).put},
		{1, "get", "kvsname key", Get{}, "get_result", "rc=0 msg=success value=%",
			"rc=-1 msg=key_not_found value=unknown", "rc=-1 msg=% value=unknown", (*Engine).get},
		{1, "barrier_in", "", Fence{}, "barrier_out", "rc=0", "", "rc=-1 msg=%", (*Engine).fence},
		{1, "publish_name", "service port", Publish{}, "publish_result", "rc=0 msg=success info=ok", "",
			"rc=-1 msg=% info=none", (*Engine).publish},
		{1, "lookup_name", "service", Lookup{}, "lookup_result", "rc=0 port=% info=ok",
			"rc=1 msg=service_not_found info=none", "rc=-1 msg=% info=none", (*Engine).lookup},
		{1, "unpublish_name", "service", Unpublish{}, "unpublish_result", "rc=0 info=ok",
			"rc=1 msg=service_not_found info=none", "rc=-1 msg=% info=none", (*Engine).unpublish},
		{1, "spawn", "nprocs execname ?totspawns ?spawnssofar ?argcnt ?preput_num ?info_num", Spawn{}, "spawn_result",
			"rc=0", "", "rc=-1 msg=%", nil},
		{1, "finalize", "", Finalize{}, "finalize_ack", "rc=0", "", "rc=-1 msg=%", (*Engine).finalize},
		{1, "abort", "?exitcode", Abort{}, "", "", "", "", (*Engine).abort},

		{2, "fullinit", "?pmijobid ?pmirank ?threaded", nil, "fullinit-response",
			"pmi-version=2;pmi-subversion=0;rank=%;size=%;appnum=%;debugged=FALSE;pmiverbose=FALSE;rc=0", "", refused2,
			(*Engine).fullinit},
		{2, "job-getid", "", nil, "job-getid-response", "jobid=%;rc=0", "", refused2, (*Engine).jobid},
		{2, "kvs-put", "key value", Put{}, "kvs-put-response", "rc=0", "", refused2, (*Engine).put},
		{2, "kvs-get", "key ?jobid ?srcid", Get{}, "kvs-get-response", "found=TRUE;value=%;rc=0", "found=FALSE;rc=0",
			"found=FALSE;" + refused2, (*Engine).get},
		{2, "kvs-fence", "", Fence{}, "kvs-fence-response", "rc=0", "", refused2, (*Engine).fence},
		{2, "info-getjobattr", "key", nil, "info-getjobattr-response", "found=TRUE;value=%;rc=0", "found=FALSE;rc=0",
			"found=FALSE;" + refused2, (*Engine).jobAttr},
		{2, "info-putnodeattr", "key value", NodePut{}, "info-putnodeattr-response", "rc=0", "", refused2,
			(*Engine).nodePut},
		{2, "info-getnodeattr", "key ?wait", NodeGet{}, "info-getnodeattr-response", "found=TRUE;value=%;rc=0",
			"found=FALSE;rc=0", "found=FALSE;" + refused2, (*Engine).nodeGet},
		{2, "ring", "ring-count ring-left ring-right", Ring{}, "ring-response",
			"rc=0;ring-count=%;ring-left=%;ring-right=%", "", refused2, (*Engine).ring},
		{2, "name-publish", "name port ?infokeycount", Publish{}, "name-publish-response", "rc=0", "", refused2,
			(*Engine).publish},
		{2, "name-lookup", "name ?infokeycount", Lookup{}, "name-lookup-response", "found=TRUE;value=%;port=%;rc=0",
			"found=FALSE;rc=1;errmsg=service not found", "found=FALSE;" + refused2, (*Engine).lookup},
		{2, "name-unpublish", "name ?infokeycount", Unpublish{}, "name-unpublish-response", "rc=0",
			"rc=1;errmsg=service not found", refused2, (*Engine).unpublish},
		{2, "spawn", "ncmds", Spawn{}, "spawn-response", "rc=0;jobid=%;nerrs=0", "", refused2, (*Engine).spawnFrame},
		{2, "finalize", "", Finalize{}, "finalize-response", "rc=0", "", refused2, (*Engine).finalize},
		{2, "abort", "?isworld ?msg", Abort{}, "", "", "", "", (*Engine).abort},
	}
}

const refused2 = "rc=-1;errmsg=%"

// longValues is a field of init by which our own library (cgo/libpmi) says how
// long values may be that it takes; get_maxes then says what was agreed on.
const longValues = "ibrun_values"

// find returns the row of a command; nil: unknown.
func find(version int, name string) *command {
	i := slices.IndexFunc(grammar, func(c command) bool { return c.version == version && c.name == name })
	if i < 0 {
		return nil
	}
	return &grammar[i]
}

// mappingKey is where MPI libraries look for Config.Mapping.
const mappingKey = "PMI_process_mapping"

func (e *Engine) initack(c *command, m message) {
	id, err := strconv.Atoi(m.value("pmiid"))
	switch {
	case err == nil && id >= 0 && e.cfg.Rank < 0:
		e.ask(c, Identify{id})
	case err != nil || id < 0 || id >= e.cfg.Size:
		e.refuse(c, "no such rank")
		e.fail("initack of rank %s of %d", seen(m.value("pmiid")), e.cfg.Size)
	case e.cfg.Rank != id:
		e.refuse(c, "another rank is expected")
		e.fail("initack of rank %d instead of rank %d", id, e.cfg.Rank)
	default:
		e.answered(c, Identify{id}, Answer{Rank: id, App: e.cfg.AppNum})
	}
}

// init agrees on a version: 1.1 for all 1.x, 2.0 for all 2.x.
func (e *Engine) init(c *command, m message) {
	major, errMajor := strconv.Atoi(m.value("pmi_version"))
	_, errMinor := strconv.Atoi(m.value("pmi_subversion"))
	switch {
	case errMajor != nil || errMinor != nil || major != 1 && major != 2:
		e.refuse(c, "versions 1.1 and 2.0 are spoken here")
	case major == 1:
		e.version, e.state = 1, open
		if long, err := strconv.Atoi(m.value(longValues)); err == nil {
			e.cfg.MaxValue = max(e.cfg.MaxValue, min(long, MaxLong)&^1)
		}
		e.done(c, "1", "1")
	default:
		e.done(c, "2", "0")
		e.version, e.state = 2, greeted
	}
}

func (e *Engine) maxes(c *command, _ message) {
	e.done(c, strconv.Itoa(MaxName), strconv.Itoa(MaxKey), strconv.Itoa(e.cfg.MaxValue))
}

func (e *Engine) appnum(c *command, _ message) { e.done(c, strconv.Itoa(e.cfg.AppNum)) }

func (e *Engine) kvsname(c *command, _ message) { e.done(c, e.cfg.KVS) }

func (e *Engine) universe(c *command, _ message) {
	e.done(c, strconv.Itoa(max(e.cfg.Universe, -1)))
}

func (e *Engine) jobid(c *command, _ message) { e.done(c, e.cfg.JobID) }

func (e *Engine) fullinit(c *command, m message) {
	if rank, ok := m.get("pmirank"); ok && rank != strconv.Itoa(e.cfg.Rank) {
		e.refuse(c, "this is the descriptor of rank "+strconv.Itoa(e.cfg.Rank))
		return
	}
	e.state = open
	values := []string{strconv.Itoa(e.cfg.Rank), strconv.Itoa(e.cfg.Size), strconv.Itoa(e.cfg.AppNum)}
	row := *c
	if e.cfg.Spawner != "" { // by this a client knows that it was spawned
		row.ok, values = c.ok+";spawner-jobid=%", append(values, e.cfg.Spawner)
	}
	e.done(&row, values...)
}

func (e *Engine) put(c *command, m message) {
	key, value := m.value("key"), m.value("value")
	bad := e.wrong(m, key, value)
	if bad == "" && key == mappingKey {
		bad = "reserved key"
	}
	e.askOrRefuse(bad, c, Put{key, value})
}

// askOrRefuse passes r to the user of the Engine if bad is empty. Otherwise, it rejects c with bad as the reason.
func (e *Engine) askOrRefuse(bad string, c *command, r Request) {
	if bad != "" {
		e.refuse(c, bad)
		return
	}
	e.ask(c, r)
}

func (e *Engine) get(c *command, m message) {
	key := m.value("key")
	bad := e.wrong(m, key, "")
	if bad == "" && key == mappingKey {
		e.mapped++
		e.own(c, e.cfg.Mapping)
		return
	}
	e.askOrRefuse(bad, c, Get{key})
}

// wrong says what is wrong with a put or get; empty: nothing.
func (e *Engine) wrong(m message, key, value string) string {
	if name, ok := m.get("kvsname"); ok && name != e.cfg.KVS {
		return "no such kvsname"
	}
	if id := m.value("jobid"); e.version == 2 && id != "" && id != e.cfg.JobID {
		return "no such jobid"
	}
	return e.wrongPair(key, value)
}

func (e *Engine) wrongPair(key, value string) string {
	switch {
	case key == "":
		return "empty key"
	case len(key) > MaxKey:
		return "key longer than " + strconv.Itoa(MaxKey)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '=' || r == 0x7f }):
		return "key with a space or ="
	case len(value) > e.cfg.MaxValue:
		return "value longer than " + strconv.Itoa(e.cfg.MaxValue)
	case e.version == 1 && value != "" && !e.fits(find(1, "get"), value):
		return "value too long for a line"
	}
	return ""
}

// own answers with a value of the engine's; empty: there is none.
func (e *Engine) own(c *command, value string) {
	if value == "" || !e.fits(c, value) {
		e.reply(c, c.absent)
		return
	}
	e.done(c, value)
}

func (e *Engine) jobAttr(c *command, m message) {
	value := ""
	switch m.value("key") {
	case mappingKey:
		value = e.cfg.Mapping
	case "universeSize":
		if e.cfg.Universe > 0 {
			value = strconv.Itoa(e.cfg.Universe)
		}
	}
	e.own(c, value)
}

func (e *Engine) nodePut(c *command, m message) {
	key, value := m.value("key"), m.value("value")
	e.askOrRefuse(e.wrongPair(key, value), c, NodePut{key, value})
}

func (e *Engine) nodeGet(c *command, m message) {
	key := m.value("key")
	e.askOrRefuse(e.wrongPair(key, ""), c, NodeGet{key, m.value("wait") == "TRUE"})
}

func (e *Engine) ring(c *command, m message) {
	count, err := strconv.ParseInt(m.value("ring-count"), 10, 32)
	left, right, bad := m.value("ring-left"), m.value("ring-right"), ""
	if err != nil {
		bad = "ring-count is no number"
	} else if max(len(left), len(right)) > e.cfg.MaxValue {
		bad = "value longer than " + strconv.Itoa(e.cfg.MaxValue)
	}
	e.askOrRefuse(bad, c, Ring{int(count), left, right})
}

func (e *Engine) fence(c *command, _ message) { e.ask(c, Fence{}) }

// service returns the name of the service in m. If the name is invalid, bad is the reason; otherwise bad is empty.
func (e *Engine) service(m message) (name, bad string) {
	name = cmp.Or(m.value("service"), m.value("name"))
	if name == "" || len(name) > MaxValue {
		bad = "service name of no bytes or more than " + strconv.Itoa(MaxValue)
	}
	return name, bad
}

func (e *Engine) publish(c *command, m message) {
	name, bad := e.service(m)
	port := m.value("port")
	if bad == "" && (len(port) > MaxValue || e.version == 1 && !e.fits(find(1, "lookup_name"), port)) {
		bad = "port too long"
	}
	e.askOrRefuse(bad, c, Publish{name, port})
}

func (e *Engine) lookup(c *command, m message) {
	name, bad := e.service(m)
	e.askOrRefuse(bad, c, Lookup{name})
}

func (e *Engine) unpublish(c *command, m message) {
	name, bad := e.service(m)
	e.askOrRefuse(bad, c, Unpublish{name})
}

func (e *Engine) finalize(c *command, _ message) {
	e.tell(Finalize{})
	e.done(c)
	e.state = closed
}

// abort ends the engine: the client expects no reply, and exits.
func (e *Engine) abort(_ *command, m message) {
	code := 1
	if n, err := strconv.Atoi(m.value("exitcode")); err == nil {
		code = n
	}
	e.tell(Abort{code, m.value("msg")})
	e.state = ended
}

// answered replies to a command with the owner's answer.
func (e *Engine) answered(c *command, r Request, a Answer) {
	var values []string
	switch r.(type) {
	case Identify:
		e.cfg.Rank, e.cfg.AppNum, e.state = a.Rank, a.App, named
		values = []string{strconv.Itoa(e.cfg.Size), strconv.Itoa(a.Rank)}
	case Spawn:
		if c.version == 2 {
			values = []string{a.Value}
		}
	case Get, NodeGet, Lookup:
		values = []string{a.Value}
	case Ring:
		values = []string{strconv.Itoa(a.Count), a.Left, a.Right}
	}
	if c.absent != "" && !a.Found {
		e.reply(c, c.absent)
		return
	}
	e.done(c, values...)
}
