package reaper

// entry is where a binary begins that is linked with -E ibrun/bootstrap/reaper.entry.
func entry()
