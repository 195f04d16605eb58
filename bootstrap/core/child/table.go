package child

import "strings"

// Action is an action that the parent performs after an event of a child. Its value is the text that describes the
// action in docs/dev/children.md.
type Action string

// The actions. In their texts, "it" is the child.
const (
	OpenSession  Action = "open a session"
	FreeSlot     Action = "free a slot of the window"
	SendLaunch   Action = "send Launch"
	SendStanding Action = "send Standing"
	SendResume   Action = "send Resume"
	SendMissed   Action = "send what it has missed"
	SendEnd      Action = "send End"
	SendOver     Action = "send End: it may leave"
	SendEnter    Action = "send Enter"
	Close        Action = "close the link or session"
	ReturnNodes  Action = "return its nodes, or report them as dead"
	YieldNodes   Action = "it answers for no nodes"
	KeepPlace    Action = "keep its place"
	TakePlace    Action = "take the place of the lost child"
	LeavePlace   Action = "leave its place to the successor"
	Rejoin       Action = "join the agent as a new child"
	AdoptBelow   Action = "adopt its children"
	NoteLoss     Action = "note how it was lost"
	NoteFailure  Action = "note why it was not joined"
	CountReady   Action = "count it as ready"
	CountFailed  Action = "count its nodes as not started"
	AddTally     Action = "add its counts"
	AddEnds      Action = "add how its ranks ended"
	AddNotRun    Action = "its ranks have not run"
	AddLost      Action = "its ranks are lost"
	Remove       Action = "nothing waits for it any more"
	TellFault    Action = "report the loss"
	TellUnplaced Action = "report Replaced with the cause"
	TellLeft     Action = "tell the user"
	CheckGrown   Action = "are all new agents ready?"
	CancelGrowth Action = "the job keeps its size"
	Orphan       Action = "if the job runs, this subtree ends"
)

// row contains the next state and the actions for each pair of a state in states and an event in events. why gives the
// reason for the transition. If the events are impossible in the states, why begins with "cannot be: ".
type row struct {
	states  State
	events  Event
	next    State
	actions []Action
	why     string
}

// stay as the next state of a row means that the state does not change.
const stay State = 0

func (r *row) impossible() bool { return strings.HasPrefix(r.why, "cannot be: ") }

// do returns its arguments as a slice, to keep the rows of table short.
func do(actions ...Action) []Action { return actions }

// table contains exactly one row for each pair of a state and an event. TestPage generates docs/dev/children.md from
// table.
var table = []row{
	{Waiting, Start, Starting, do(OpenSession), "there is a free slot in the window"},
	{GrowWaiting, Start, GrowStarting, do(OpenSession), "as for other children"},
	{over, Start, stay, nil, "the job has ended before its turn"},
	{Opening | Relinking | Linked | Lost, Start, stay, nil, "cannot be: only what waits is started"},

	{Waiting, GiveBack, Gone, do(YieldNodes, CountFailed, Remove), "the parent has other ways to its nodes"},
	{unlinked&^Waiting | Linked | Lost | over, GiveBack, stay, nil, "cannot be: only nodes that wait are given back"},

	{Starting, SessionUp, Up, do(FreeSlot, SendLaunch), "its Launch names its part of the job"},
	{GrowStarting, SessionUp, GrowUp, do(FreeSlot, SendLaunch), "its Launch has the layout that the job is to get"},
	{SuccessorStarting, SessionUp, SuccessorUp, do(FreeSlot, SendLaunch, SendStanding), "the job has run without it"},
	{Relinking, SessionUp, Resumed, do(SendResume), "it says State before anything else is sent"},

	{Starting, SessionFailed, Gone, do(FreeSlot, YieldNodes, CountFailed, Remove, ReturnNodes),
		"another agent tries, or the root decides"},
	{GrowStarting, SessionFailed, Gone, do(FreeSlot, YieldNodes, Remove, CancelGrowth), "all nodes come, or none"},
	{SuccessorStarting, SessionFailed, Gone, do(FreeSlot, YieldNodes, Remove, TellUnplaced), "the root has the spares"},
	{SuccessorUp, SessionFailed, Gone, do(YieldNodes, Remove, TellUnplaced), "the lost child still has the place"},
	{Rejoining, SessionFailed, Gone, do(AdoptBelow), "it does not live: the cause is that of its first loss"},
	{Joining, SessionFailed, Gone, do(NoteFailure, AdoptBelow), "it is lost with its parent"},

	{Relinking, Unjoined, Gone, do(Remove, AddLost, Orphan), "a refused parent has been given up"},
	{over, SessionUp | SessionFailed | Unjoined, stay, nil, "it was given up, and its session is being closed"},
	{waits | Lost, SessionUp | SessionFailed | Unjoined, stay, nil, "cannot be: no session is being opened"},
	{Linked, SessionUp | Unjoined, stay, nil, "cannot be: its session is up"},
	{Linked &^ SuccessorUp, SessionFailed, stay, nil, "cannot be: its session is up"},
	{Opening, Unjoined, stay, nil, "cannot be: it is not being joined"},

	{Up, ReadyCame, Ready, do(CountReady), "its part of the launch is over"},
	{GrowUp, ReadyCame, GrowReady, do(CountReady, CheckGrown), "its ranks start when all others call Resize"},
	{SuccessorUp, ReadyCame, Successor, do(CountReady, TakePlace), "its ranks start when nothing of the old ones runs"},
	{Resumed, StateCame, Adopted, do(SendMissed), "both sides know what the other one has"},
	{Ready | Successor | Adopted, TallyCame, Counted, do(AddTally), "a second one would be a lie"},
	{Launching | GrowReady, TallyCame, stay, do(AddTally), "its Exit is taken as that of a launch or a growth"},
	{Up, ExitCame, Exited, do(AddEnds, CountFailed, Remove), "it has ended before its subtree was ready"},
	{Up, ExitStays, Reported, do(AddEnds, CountFailed, Remove), "it has ended before its subtree was ready"},
	{SuccessorUp | member, ExitCame, Exited, do(AddEnds, Remove), "nothing of its subtree is left"},
	{SuccessorUp | member, ExitStays, Reported, do(AddEnds, Remove), "it may have to report to another parent"},
	{GrowUp | GrowReady, ExitCame, Exited, do(YieldNodes, Remove), "its ranks were never of the job"},
	{GrowUp | GrowReady, ExitStays, stay, nil, "cannot be: a job that repairs its tree keeps its size"},
	{Settled | Resumed, ReadyCame, stay, nil, "cannot be: it is refused as a lie"},
	{Launching | Settled, StateCame, stay, nil, "cannot be: it is refused as a lie"},
	{Counted | Resumed, TallyCame, stay, nil, "cannot be: it is refused as a lie"},
	{Resumed, ExitCame | ExitStays, stay, nil, "cannot be: it is refused as a lie"},
	{unlinked | Lost | Ended, ReadyCame | StateCame | TallyCame | ExitCame | ExitStays, stay, nil,
		"cannot be: its frames are not heard"},

	{Starting, LinkLost, Gone, do(FreeSlot, CountFailed, Remove, AddLost, TellFault), "the launch fails"},
	{GrowStarting, LinkLost, Gone, do(FreeSlot, YieldNodes, Remove, CancelGrowth), "the job goes on as it is"},
	{Up, LinkLost, Gone, do(CountFailed, Remove, AddLost, TellFault), "the launch fails"},
	{SuccessorUp | member | Resumed, LinkLost, Gone, do(Remove, AddLost, TellFault), "it may be why others failed"},
	{GrowUp | GrowReady, LinkLost, Gone, do(YieldNodes, Remove, CancelGrowth), "the job goes on as it is"},
	{Reported, LinkLost, Exited, nil, "all of it is here"},
	{Lost | over, LinkLost, stay, nil, "this agent has closed the link"},
	{Ready | Counted | Successor, LinkKept, Lost, do(KeepPlace, TellFault), "the root decides what takes the place"},
	{member | Resumed, LinkRejoined, Gone, do(NoteLoss, Close, Rejoin), "only its link may have failed"},
	{member | Resumed, LinkAdopted, Gone, do(NoteLoss, AdoptBelow), "it is silent, or was just joined"},
	{Ready | Counted, LinkLeft, Gone, do(YieldNodes, Remove, TellLeft), "its ranks have left the job"},
	{Adopted | Resumed, LinkKept, stay, nil, "cannot be: a job that repairs its tree adopts what is below"},
	{Successor | Adopted | Resumed, LinkLeft, stay, nil, "cannot be: a job that replaces or repairs keeps its size"},
	{Launching | GrowReady | Lost | Ended, LinkKept | LinkRejoined | LinkAdopted | LinkLeft, stay, nil,
		"cannot be: this is asked of ready children of the job only"},
	{SuccessorStarting, LinkLost, stay, nil, "cannot be: its session has failed, or it was given up"},
	{waits | Relinking, LinkLost, stay, nil, "cannot be: there is no link"},
	{unlinked, LinkKept | LinkRejoined | LinkAdopted | LinkLeft, stay, nil, "cannot be: there is no link"},

	{Waiting, End, Gone, do(Remove, AddNotRun), "its turn does not come any more"},
	{GrowWaiting, End, Gone, do(YieldNodes, Remove), "its ranks were never of the job"},
	{Starting, End, Gone, do(FreeSlot, Close, Remove, AddNotRun), "nothing of it runs yet"},
	{GrowStarting | SuccessorStarting, End, Gone, do(FreeSlot, Close, YieldNodes, Remove), "its nodes are not its own"},
	{Heard, End, stay, do(SendEnd), "its Exit follows"},
	{Lost, End, Gone, do(Remove, AddLost), "no successor comes any more"},
	{Relinking, End, stay, nil, "it is told as soon as it has a link"},
	{Reported, End, stay, do(SendOver), "this is what it waits for"},
	{over, End, stay, nil, "it has ended"},

	{Lost, EndSucceeded, Gone, do(YieldNodes, Remove), "the successor reports its ranks"},
	{Lost, Succeeded, Gone, do(YieldNodes, LeavePlace), "the successor answers what was asked of it"},
	{over, Succeeded, stay, nil, "the job has ended meanwhile"},
	{unlinked | Linked, EndSucceeded | Succeeded, stay, nil, "cannot be: only a lost child has a successor"},
	{over, EndSucceeded, stay, nil, "cannot be: only a lost child has a successor"},

	{Lost, Abandon, Gone, do(Remove, AddLost), "no spare is left for it"},
	{SuccessorStarting, Abandon, Gone, do(FreeSlot, YieldNodes, Close, Remove), "its ranks have no place any more"},
	{SuccessorUp, Abandon, Gone, do(YieldNodes, Close, Remove), "its ranks have no place any more"},
	{unlinked&^SuccessorStarting | Linked&^SuccessorUp | over, Abandon, stay, nil,
		"cannot be: it is neither lost nor a successor"},

	{Up | SuccessorUp | member | Resumed | Relinking, GiveUp, Gone, do(Close, Remove, AddLost),
		"the end of the job does not wait for it"},
	{GrowUp | GrowReady, GiveUp, Gone, do(Close, YieldNodes, Remove), "its ranks were never of the job"},
	{waits | Opening | Lost, GiveUp, stay, nil, "cannot be: the order to end has removed it"},
	{Ended, GiveUp, stay, nil, "cannot be: it has ended"},

	{GrowReady, Enter, Ready, do(SendEnter), "its ranks start"},
	{unlinked | Linked&^GrowReady | Lost | over, Enter, stay, nil, "cannot be: all new agents were ready"},
}

// index maps each state and event to the row of table that contains the pair.
var index = indexed(table)

func indexed(rows []row) (x [stateCount][eventCount]*row) {
	for i, r := range rows {
		for s := range x {
			for e := range x[s] {
				if r.states&(1<<s) != 0 && r.events&(1<<e) != 0 {
					x[s][e] = &rows[i]
				}
			}
		}
	}
	return x
}
