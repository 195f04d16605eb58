package job

// MPIFindings is what a job's nodes have seen of MPI: whether ranks that should have
// found each other did.
type MPIFindings struct {
	SpokePMI bool   // a rank has spoken PMI
	Library  string // an MPI library that a program is linked with, or CharmNet; "" if none was seen
}

// CharmNet is what stands for a library in a program that speaks charmrun's protocol and no PMI.
const CharmNet = "Charm++'s layer netlrts"

// Add takes in what others have seen. Of several libraries one is kept.
func (s *MPIFindings) Add(o MPIFindings) {
	s.SpokePMI = s.SpokePMI || o.SpokePMI
	if s.Library == "" {
		s.Library = o.Library
	}
}
