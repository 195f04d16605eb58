package job

// An epoch is 16 bits that tell the programs of one rank apart, from 1. The upper 6 are the number
// of the rank's start, from 0: how often it was restarted. The lower 10 are the number of the
// program among those that this start runs in turn, from 1. A newer epoch is the greater number.
const programBits = 10

// Limits of the two parts of an epoch.
const (
	MaxStart   = 1<<(16-programBits) - 1 // restarts of one rank
	MaxProgram = 1<<programBits - 1      // programs that join the job, in one start of a rank
)

// Epoch is the epoch of a program, 1 to MaxProgram, of a start, 0 to MaxStart.
func Epoch(start uint8, program uint16) uint16 { return uint16(start)<<programBits | program }

// StartOf is the number of an epoch's start.
func StartOf(epoch uint16) uint8 { return uint8(epoch >> programBits) }

// ProgramOf is the number of an epoch's program.
func ProgramOf(epoch uint16) uint16 { return epoch & MaxProgram }

// Raised is the least epoch that will do where a requester knows of no restart, and the rank has
// been restarted: the same program, of the start of floor or a newer one.
func Raised(least, floor uint16) uint16 {
	return max(least, Epoch(StartOf(floor), ProgramOf(least)), floor)
}
