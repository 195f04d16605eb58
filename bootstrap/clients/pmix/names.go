package pmix

// Status is the outcome of a request, or the code of an event.
type Status int32

// Statuses that this package, its owner or a client uses.
const (
	Done             Status = 0
	Aborted          Status = -7
	Exists           Status = -11
	BadCredential    Status = -12
	Unreadable       Status = -20
	TimedOut         Status = -24
	Unreachable      Status = -25
	BadParameter     Status = -27
	OutOfResource    Status = -29
	NotFound         Status = -46
	NotSupported     Status = -47
	Partial          Status = -52 // some of several keys were found
	LaunchFailed     Status = -181
	LeftWithoutLeave Status = -200
	// allCodes in a DeregisterEvents is the handler of all events.
	allCodes Status = -1 << 31
)

// command is the first item of a message.
type command uint8

const (
	cmdJob              command = 0
	cmdAbort            command = 1
	cmdCommit           command = 2
	cmdFence            command = 3
	cmdGet              command = 4
	cmdFinalize         command = 5
	cmdPublish          command = 6
	cmdLookup           command = 7
	cmdUnpublish        command = 8
	cmdSpawn            command = 9
	cmdConnect          command = 10
	cmdDisconnect       command = 11
	cmdNotify           command = 12
	cmdRegisterEvents   command = 13
	cmdDeregisterEvents command = 14
	cmdQuery            command = 15
	cmdLog              command = 16
	cmdJobControl       command = 18
	cmdGroupConstruct   command = 24
	cmdGroupDestruct    command = 28
)

// Scope says for whom a committed value is.
type Scope uint8

const (
	ScopeLocal  Scope = 1 // ranks of the same node
	ScopeRemote Scope = 2 // ranks of other nodes
	ScopeGlobal Scope = 3 // all
)

// Range says who may see a published value or an event.
type Range uint8

const (
	RangeLocal     Range = 2 // the node
	RangeNamespace Range = 3
	RangeSession   Range = 4 // what a client means that says nothing
	RangeGlobal    Range = 5
	RangeProcLocal Range = 7 // the process itself
)

// Persistence says how long a published value stays.
type Persistence uint8

const (
	PersistFirstRead Persistence = 1 // until it is looked up
	PersistApp       Persistence = 3
	PersistSession   Persistence = 4 // what a client means that says nothing
)

// Keys of attributes that this package reads.
const (
	keyImmediate      = "pmix.immediate"
	keyWait           = "pmix.wait"
	keyTimeout        = "pmix.timeout"
	keyRange          = "pmix.range"
	keyPersistence    = "pmix.persist"
	keyCleanup        = "pmix.reg.cleanup"
	keyCleanupDir     = "pmix.reg.cleanupdir"
	keyCleanupRecurse = "pmix.clnup.recurse"
	keyCleanupEmpty   = "pmix.clnup.empty"
	keyCleanupIgnore  = "pmix.clnup.ignore"
	keyCleanupKeepTop = "pmix.clnup.lvtop"
	keyLogStderr      = "pmix.log.stderr"
	keyLogStdout      = "pmix.log.stdout"
	keyAssignContext  = "pmix.grp.actxid"
	reservedPrefix    = "pmix." // of keys that are not a program's own
)
