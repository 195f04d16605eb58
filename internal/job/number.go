package job

// A process has two numbers, and a node a third. They are types of their own, so that the compiler
// refuses one in the place of another. Counts of ranks and nodes are uint32.

// Rank is a process's number as programs and users know it: 0 up to the ranks of the job less one.
// It equals the slot unless ranks were dealt (Dealt) or ordered (Ordered).
type Rank uint32

// Slot is a process's place in node order: node 0 has the first slots, node 1 those that follow, so
// that the slots of a subtree are contiguous. Messages and agents number processes by slot, and
// Layout converts slots to ranks and back.
type Slot uint32

// NodeIndex is a node's place in the job's table of nodes, from 0.
type NodeIndex uint32
