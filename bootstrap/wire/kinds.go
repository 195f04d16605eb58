package wire

import "fmt"

// Sender is who a frame comes from. Several may be joined with |.
type Sender uint8

const (
	Parent Sender = 1 << iota // an agent's
	Child                     // an agent's
	Rank                      // at its agent
	Agent                     // of a rank
	Root                      // of the job by whose rank this one was spawned, or of such a job
)

func (s Sender) String() string {
	return map[Sender]string{Parent: "parent", Child: "child", Rank: "rank", Agent: "agent", Root: "root"}[s]
}

// kinds says of each kind how it is called, who may send it and how its payload is read.
var kinds = [256]struct {
	name  string
	from  Sender
	parse func(*reader) Message
	once  bool // it is the first of its sender's frames, and comes once
}{
	KindLaunch:     {"Launch", Parent, parseLaunch, true},
	KindReady:      {"Ready", Child, parseReady, false},
	KindExit:       {"Exit", Child, parseExit, false},
	KindOutput:     {"Output", Child, parseOutput, false},
	KindGrant:      {"Grant", Parent, parseGrant, false},
	KindStdin:      {"Stdin", Parent, parseStdin, false},
	KindStdinRoom:  {"StdinRoom", Child, parseStdinRoom, false},
	KindSignal:     {"Signal", Parent | Child, parseSignal, false},
	KindEnd:        {"End", Parent, parseEnd, false},
	KindFault:      {"Fault", Child, parseFault, false},
	KindWaiting:    {"Waiting", Child, parseWaiting, false},
	KindHeartbeat:  {"Heartbeat", Parent | Child, parseHeartbeat, false},
	KindAsk:        {"Ask", Parent | Child | Rank, parseAsk, false},
	KindAnswer:     {"Answer", Parent | Child | Agent, parseAnswer, false},
	KindCollect:    {"Collect", Child | Rank, func(r *reader) Message { return Collect(parseGathered(r)) }, false},
	KindRelease:    {"Release", Parent | Agent, func(r *reader) Message { return Release(parseGathered(r)) }, false},
	KindBlocks:     {"Blocks", Parent | Child, parseBlocks, false},
	KindTally:      {"Tally", Child | Rank, parseTally, false},
	KindPlaced:     {"Placed", Child, parsePlaced, false},
	KindName:       {"Name", Parent | Child | Rank | Agent | Root, parseName, false},
	KindNotice:     {"Notice", Child | Rank, parseNotice, false},
	KindBulkFetch:  {"BulkFetch", Parent | Child, parseBulkFetch, false},
	KindBulkValues: {"BulkValues", Parent | Child, parseBulkValues, false},
	KindTimes:      {"Times", Child, parseTimes, false},
	KindSteal:      {"Steal", Parent, parseSteal, false},
	KindReturn:     {"Return", Child, parseReturn, false},
	KindMembership: {"Membership", Parent, parseMembership, false},
	KindSpawnJob:   {"SpawnJob", Child | Rank, parseSpawnJob, false},
	KindJobSpawned: {"JobSpawned", Parent | Agent | Root, parseJobSpawned, false},
	KindFailures:   {"Failures", Parent | Child | Agent, parseFailures, false},
	KindOffspring:  {"Offspring", Root, parseOffspring, true},

	KindHello:    {"Hello", Rank, parseHello, false},
	KindWelcome:  {"Welcome", Agent, parseWelcome, true},
	KindPublish:  {"Publish", Rank, parsePublish, false},
	KindPut:      {"Put", Rank, parsePut, false},
	KindPutDone:  {"PutDone", Agent, parsePutDone, false},
	KindPair:     {"Pair", Rank | Agent, parsePair, false},
	KindAbort:    {"Abort", Rank, parseAbort, false},
	KindFinalize: {"Finalize", Rank, parseFinalize, false},
	KindLater:    {"Later", Rank, parseLater, false},
	KindWanted:   {"Wanted", Agent, parseWanted, false},
	KindRefused:  {"Refused", Agent, parseRefused, false},
}

func (k Kind) String() string {
	if name := kinds[k].name; name != "" {
		return name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// From reports whether a sender may say such a message.
func (k Kind) From(s Sender) bool { return kinds[k].from&s != 0 }
