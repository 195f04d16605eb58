package reaper

// entry is where a binary begins that is linked with -E ibrun/bootstrap/reaper.entry.
//
//lint:ignore U1000 only the linker names it
func entry()
