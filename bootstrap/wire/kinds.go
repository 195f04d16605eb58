// Package wire has what agents say to each other, and turns it into frames and back. What ranks say
// and agents pass on is in package rankwire; the Vocabulary here has it, too. The package is pure.
// docs/dev/protocol.md is normative for the bytes; this package refuses what that page does not allow.
package wire

import (
	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
)

// The numbers that are missing here are those of package rankwire.
const (
	KindLaunch     frame.Kind = 1  // down
	KindReady      frame.Kind = 2  // up
	KindExit       frame.Kind = 3  // up
	KindOutput     frame.Kind = 4  // up
	KindGrant      frame.Kind = 5  // down: credit for Output
	KindStdin      frame.Kind = 6  // down
	KindStdinRoom  frame.Kind = 7  // up: credit for Stdin
	KindSignal     frame.Kind = 8  // down
	KindEnd        frame.Kind = 9  // down
	KindFault      frame.Kind = 10 // up
	KindWaiting    frame.Kind = 11 // up
	KindHeartbeat  frame.Kind = 12 // both
	KindBlocks     frame.Kind = 17 // both: eager mode
	KindPlaced     frame.Kind = 19 // up
	KindBulkFetch  frame.Kind = 22 // both: values, lazily
	KindBulkValues frame.Kind = 23 // both
	KindTimes      frame.Kind = 24 // up
	KindSteal      frame.Kind = 25 // down
	KindReturn     frame.Kind = 26 // up
	KindMembership frame.Kind = 27 // down: with spares or fewer nodes allowed
	KindSweep      frame.Kind = 28 // down, to an agent that has no job
	KindSwept      frame.Kind = 29 // up
	KindOffspring  frame.Kind = 32 // to a root from the one that has started it
)

// KindRecord is of a job that is recorded.
const KindRecord frame.Kind = 34 // up

// These are of a job that chooses when addresses come.
const (
	KindTableFetch  frame.Kind = 124 // both
	KindTableValues frame.Kind = 125 // both
)

// both are the two ends of a link between agents.
const both = frame.Parent | frame.Child

// Vocabulary is what agents say to each other.
var Vocabulary = frame.Vocabulary{
	KindLaunch:     {Name: "Launch", From: frame.Parent, Parse: parseLaunch, Once: true},
	KindReady:      {Name: "Ready", From: frame.Child, Parse: parseReady},
	KindExit:       {Name: "Exit", From: frame.Child, Parse: parseExit},
	KindOutput:     {Name: "Output", From: frame.Child, Parse: parseOutput},
	KindGrant:      {Name: "Grant", From: frame.Parent, Parse: parseGrant},
	KindStdin:      {Name: "Stdin", From: frame.Parent, Parse: parseStdin},
	KindStdinRoom:  {Name: "StdinRoom", From: frame.Child, Parse: parseStdinRoom},
	KindSignal:     {Name: "Signal", From: both, Parse: parseSignal},
	KindEnd:        {Name: "End", From: frame.Parent, Parse: parseEnd},
	KindFault:      {Name: "Fault", From: frame.Child, Parse: parseFault},
	KindWaiting:    {Name: "Waiting", From: frame.Child, Parse: parseWaiting},
	KindHeartbeat:  {Name: "Heartbeat", From: both, Parse: parseHeartbeat},
	KindBlocks:     {Name: "Blocks", From: both, Parse: parseBlocks},
	KindPlaced:     {Name: "Placed", From: frame.Child, Parse: parsePlaced},
	KindBulkFetch:  {Name: "BulkFetch", From: both, Parse: parseBulkFetch},
	KindBulkValues: {Name: "BulkValues", From: both, Parse: parseBulkValues},
	KindTableFetch: {Name: "TableFetch", From: both, Parse: parseTableFetch},
	KindTimes:      {Name: "Times", From: frame.Child, Parse: parseTimes},
	KindSteal:      {Name: "Steal", From: frame.Parent, Parse: parseSteal},
	KindReturn:     {Name: "Return", From: frame.Child, Parse: parseReturn},
	KindMembership: {Name: "Membership", From: frame.Parent, Parse: parseMembership},
	KindSweep:      {Name: "Sweep", From: frame.Parent, Parse: parseSweep, Once: true},
	KindSwept:      {Name: "Swept", From: frame.Child, Parse: parseSwept},
	KindRecord:     {Name: "Record", From: frame.Child, Parse: parseRecord},
	KindFloor:      {Name: "Floor", From: frame.Parent, Parse: parseFloor},
	KindFloorSet:   {Name: "FloorSet", From: frame.Child, Parse: parseFloorSet},
	KindRespawn:    {Name: "Respawn", From: frame.Parent, Parse: parseRespawn},
	KindRespawned:  {Name: "Respawned", From: frame.Child, Parse: parseRespawned},
	KindRecall:     {Name: "Recall", From: frame.Parent, Parse: parseRecall},
	KindRecalled:   {Name: "Recalled", From: frame.Child, Parse: parseRecalled},
	KindRest:       {Name: "Rest", From: frame.Child, Parse: parseRest},
	KindReplace:    {Name: "Replace", From: frame.Parent, Parse: parseReplace},
	KindReplaced:   {Name: "Replaced", From: frame.Child, Parse: parseReplaced},
	KindStanding:   {Name: "Standing", From: frame.Parent, Parse: parseStanding},
	KindQuery:      {Name: "Query", From: frame.Parent, Parse: parseQuery},
	KindReply:      {Name: "Reply", From: frame.Child, Parse: parseReply},

	KindTableValues: {Name: "TableValues", From: both, Parse: parseTableValues},

	KindDaemons:      {Name: "Daemons", From: frame.Parent, Parse: parseDaemons},
	KindDaemonOutput: {Name: "DaemonOutput", From: frame.Child, Parse: parseDaemonOutput},
	KindDaemonGrant:  {Name: "DaemonGrant", From: frame.Parent, Parse: parseDaemonGrant},
	KindDaemonsEnd:   {Name: "DaemonsEnd", From: frame.Parent, Parse: parseDaemonsEnd},
	KindDaemonsEnded: {Name: "DaemonsEnded", From: frame.Child, Parse: parseDaemonsEnded},
	KindDaemonInput:  {Name: "DaemonInput", From: frame.Parent, Parse: parseDaemonInput},
	KindDaemonRoom:   {Name: "DaemonRoom", From: frame.Child, Parse: parseDaemonRoom},

	KindCCSRequest:     {Name: "CCSRequest", From: frame.Parent, Parse: parseCCSRequest},
	KindCCSReply:       {Name: "CCSReply", From: frame.Child, Parse: parseCCSReply},
	KindEnter:          {Name: "Enter", From: frame.Parent, Parse: parseEnter},
	KindDeparted:       {Name: "Departed", From: frame.Child, Parse: parseDeparted},
	KindSession:        {Name: "Session", From: frame.Parent, Parse: parseSession},
	KindSessionCollect: {Name: "SessionCollect", From: frame.Child, Parse: parseSessionCollect},
	KindSessionRelease: {Name: "SessionRelease", From: frame.Parent, Parse: parseSessionRelease},
	KindSessionPiece:   {Name: "SessionPiece", From: both, Parse: parseSessionPiece},
	KindSessionRoom:    {Name: "SessionRoom", From: both, Parse: parseSessionRoom},

	KindOffspring: {Name: "Offspring", From: frame.Root, Parse: parseOffspring, Once: true},
	KindBelow:     {Name: "Below", From: frame.Child, Parse: parseBelow},
	KindJoin:      {Name: "Join", From: frame.Parent, Parse: parseJoin, Once: true},
	KindJoined:    {Name: "Joined", From: frame.Child, Parse: parseJoined},
	KindResume:    {Name: "Resume", From: frame.Parent, Parse: parseResume},
	KindState:     {Name: "State", From: frame.Child, Parse: parseState},
	KindReport:    {Name: "Report", From: frame.Child, Parse: parseReport},
	KindPassed:    {Name: "Passed", From: frame.Parent, Parse: parsePassed},
	KindChunk:     {Name: "Chunk", From: frame.Child, Parse: parseChunk},

	rankwire.KindAsk:        relayed(rankwire.KindAsk, both),
	rankwire.KindAnswer:     relayed(rankwire.KindAnswer, both),
	rankwire.KindCollect:    relayed(rankwire.KindCollect, frame.Child),
	rankwire.KindRelease:    relayed(rankwire.KindRelease, frame.Parent),
	rankwire.KindTally:      relayed(rankwire.KindTally, frame.Child),
	rankwire.KindName:       relayed(rankwire.KindName, both|frame.Root),
	rankwire.KindNotice:     relayed(rankwire.KindNotice, frame.Child),
	rankwire.KindSpawnJob:   relayed(rankwire.KindSpawnJob, frame.Child),
	rankwire.KindJobSpawned: relayed(rankwire.KindJobSpawned, frame.Parent|frame.Root),
	rankwire.KindFailures:   relayed(rankwire.KindFailures, both),
	rankwire.KindResize:     relayed(rankwire.KindResize, frame.Parent),
	rankwire.KindFollow:     relayed(rankwire.KindFollow, both),

	rankwire.KindOverview:      relayed(rankwire.KindOverview, frame.Child),
	rankwire.KindOverviewReply: relayed(rankwire.KindOverviewReply, frame.Parent),
}

// relayed is the format of what ranks and agents say, for those who say it between agents.
func relayed(k frame.Kind, from frame.Sender) frame.Format {
	format := rankwire.Vocabulary[k]
	format.From = from
	return format
}
