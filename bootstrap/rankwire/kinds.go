// Package rankwire has what a rank and the agent of its node say to each other, and turns it into
// frames and back. Some of it the agents pass on among themselves, in the same form; what else
// agents say to each other is in package wire, which no rank needs. It is pure. docs/dev/protocol.md is
// normative for the bytes; this package refuses what that page does not allow.
package rankwire

import "ibrun/bootstrap/frame"

const (
	// Passed on by agents.
	KindAsk        frame.Kind = 13 // from a rank
	KindAnswer     frame.Kind = 14 // to a rank
	KindCollect    frame.Kind = 15 // from a rank
	KindRelease    frame.Kind = 16 // to a rank
	KindTally      frame.Kind = 18 // from a rank
	KindName       frame.Kind = 20 // both
	KindNotice     frame.Kind = 21 // from a rank
	KindSpawnJob   frame.Kind = 30 // from a rank
	KindJobSpawned frame.Kind = 31 // to a rank
	KindFailures   frame.Kind = 33 // to a rank: if the job goes on when ranks fail

	KindOverview      frame.Kind = 115 // from a rank
	KindOverviewReply frame.Kind = 116 // to a rank

	// Between a rank and its agent only.
	KindHello    frame.Kind = 64 // from a rank
	KindWelcome  frame.Kind = 65 // to a rank
	KindPublish  frame.Kind = 66 // from a rank
	KindPut      frame.Kind = 67 // from a rank
	KindPutDone  frame.Kind = 68 // to a rank
	KindPair     frame.Kind = 69 // both
	KindAbort    frame.Kind = 70 // from a rank
	KindFinalize frame.Kind = 71 // from a rank
	KindLater    frame.Kind = 72 // from a rank
	KindWanted   frame.Kind = 73 // to a rank
	KindRefused  frame.Kind = 74 // to a rank

	KindRestarted frame.Kind = 75 // to a rank: if failed ranks start again
	KindRollback  frame.Kind = 85 // from a rank: the same
)

// Vocabulary is what a rank and its agent say to each other.
var Vocabulary = frame.Vocabulary{
	KindAsk:        {Name: "Ask", From: frame.Rank, Parse: parseAsk},
	KindAnswer:     {Name: "Answer", From: frame.Agent, Parse: parseAnswer},
	KindCollect:    {Name: "Collect", From: frame.Rank, Parse: parseCollect},
	KindRelease:    {Name: "Release", From: frame.Agent, Parse: parseRelease},
	KindTally:      {Name: "Tally", From: frame.Rank, Parse: parseTally},
	KindName:       {Name: "Name", From: frame.Rank | frame.Agent, Parse: parseName},
	KindNotice:     {Name: "Notice", From: frame.Rank, Parse: parseNotice},
	KindSpawnJob:   {Name: "SpawnJob", From: frame.Rank, Parse: parseSpawnJob},
	KindJobSpawned: {Name: "JobSpawned", From: frame.Agent, Parse: parseJobSpawned},
	KindFailures:   {Name: "Failures", From: frame.Agent, Parse: parseFailures},

	KindOverview:      {Name: "Overview", From: frame.Rank, Parse: parseOverview},
	KindOverviewReply: {Name: "OverviewReply", From: frame.Agent, Parse: parseOverviewReply},

	KindHello:    {Name: "Hello", From: frame.Rank, Parse: parseHello},
	KindWelcome:  {Name: "Welcome", From: frame.Agent, Parse: parseWelcome, Once: true},
	KindPublish:  {Name: "Publish", From: frame.Rank, Parse: parsePublish},
	KindPut:      {Name: "Put", From: frame.Rank, Parse: parsePut},
	KindPutDone:  {Name: "PutDone", From: frame.Agent, Parse: parsePutDone},
	KindPair:     {Name: "Pair", From: frame.Rank | frame.Agent, Parse: parsePair},
	KindAbort:    {Name: "Abort", From: frame.Rank, Parse: parseAbort},
	KindFinalize: {Name: "Finalize", From: frame.Rank, Parse: parseFinalize},
	KindLater:    {Name: "Later", From: frame.Rank, Parse: parseLater},
	KindWanted:   {Name: "Wanted", From: frame.Agent, Parse: parseWanted},
	KindRefused:  {Name: "Refused", From: frame.Agent, Parse: parseRefused},

	KindRestarted: {Name: "Restarted", From: frame.Agent, Parse: parseRestarted},
	KindRollback:  {Name: "Rollback", From: frame.Rank, Parse: parseRollback},
	KindResize:    {Name: "Resize", From: frame.Agent, Parse: parseResize},

	KindFollow: {Name: "Follow", From: frame.Rank | frame.Agent, Parse: parseFollow},

	KindMember:    {Name: "Member", From: frame.Agent, Parse: parseMember, Once: true},
	KindToolPiece: {Name: "ToolPiece", From: frame.Rank | frame.Agent, Parse: parseToolPiece},
	KindToolRoom:  {Name: "ToolRoom", From: frame.Rank | frame.Agent, Parse: parseToolRoom},
}
