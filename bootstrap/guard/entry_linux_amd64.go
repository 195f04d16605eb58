package guard

// entry is where a binary begins that is linked with -E ibrun/bootstrap/guard.entry.
func entry()
