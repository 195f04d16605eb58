package ibrun

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/fabric/ib"
	"ibrun/fabric/udp"
	"ibrun/internal/job"
	"ibrun/internal/netiface"
	"ibrun/internal/poll"
	"ibrun/internal/proc"
	"ibrun/lazy"
	"ibrun/topo"
	"ibrun/topo/bind"
)

// Option sets a parameter of Init. Most programs need none.
type Option func(*config)

// config holds the parameters that an Option can set.
type config struct {
	log    *slog.Logger
	bundle time.Duration // see WithAggregation
}

// WithLogger makes the package log to l: the network that this rank uses and the reason, ranks that have failed, and
// the loss of the agent. Without this option, the package logs nothing. It never writes to standard output or
// standard error by itself. The text and the attributes of log records are for people to read, and may change in
// later versions.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithAggregation combines small messages of this rank to the same rank on another node into shared packets. A
// message waits for more messages for at most delay, usually 100 us to 1 ms. The option is for programs that send
// many small messages to many ranks and do not wait for each reply. It makes other programs slower. Messages still
// arrive once and in order. Flush and Finalize send waiting messages at once. Other ranks do not have to use the
// option. If delay is 0 or less, or without the option, messages do not wait.
func WithAggregation(delay time.Duration) Option { return func(c *config) { c.bundle = delay } }

// wantsReasons reports whether this rank has to report the reason for its choice of network: it is the first rank of
// its node and ibrun was started with -v, or the program's logger records the level Info.
func (w *World) wantsReasons() bool {
	return w.notifiesUser() || w.log.Enabled(context.Background(), slog.LevelInfo)
}

// notifiesUser reports whether this rank sends notices to the user of ibrun: with ibrun -v, the first rank of each node
// does.
func (w *World) notifiesUser() bool { return w.welcome.How.Verbose && w.welcome.Rank == w.first }

// report logs a sentence and, if notifiesUser returns true, has ibrun show it to its user.
func (w *World) report(text string) {
	w.log.Info(text)
	if w.notifiesUser() {
		w.notifyUser(text)
	}
}

// notifyUser has ibrun show a sentence to its user. It does nothing if the agent is lost.
func (w *World) notifyUser(text string) { _ = w.control.Send(rankwire.Notice{Text: text}) }

// hcaVariable is the environment variable with the InfiniBand port that this node's agent chose for the rank, as in
// mlx5_0:1. It is empty or unset if the agent chose none.
const hcaVariable = "IBRUN_HCA"

// onInfiniBand decides between InfiniBand and Ethernet without opening a device. If it chooses Ethernet although
// --fabric is auto, why is the reason. If looking is set, onInfiniBand reads the node's devices for a more precise
// reason. Reading takes time, so callers set looking only if the reason is reported.
func onInfiniBand(how job.Transport, looking bool) (yes bool, why string) {
	switch {
	case how.Fabric == "ib":
		return true, ""
	case how.Fabric != "auto":
		return false, ""
	case how.Iface != "":
		return false, "--iface names an interface"
	case os.Getenv(hcaVariable) == "" && looking:
		return false, cmp.Or(bind.None(topo.Read(proc.Here())), hcaVariable+" is not set")
	case os.Getenv(hcaVariable) == "":
		return false, "no InfiniBand or RoCE port is usable here"
	}
	if err := ib.Check(); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// ways sets the fields of cfg that define how the table reaches other nodes: the networks, how to open them, and when
// a stream is worth its cost. It reports whether the network is opened late, when a message needs it.
func (w *World) ways(cfg *lazy.Config) (late bool) {
	how := w.welcome.How
	cfg.Worth = overEthernet
	fast, why := onInfiniBand(how, w.wantsReasons())
	if fast {
		// Open the device on demand, because that takes long and many ranks only exchange messages within
		// their node. With --eager, open it now unless how.Learn is set: all addresses are sent at the start.
		if late = !how.Eager || how.Learn; late {
			cfg.Opened = func(t fabric.Tuple) { _ = w.control.Send(rankwire.Publish{Tuple: t}) }
		}
		cfg.Worth = overInfiniBand
		if how.Fabric == "auto" { // other nodes may have no InfiniBand
			cfg.Secondary = func(to fabric.Sink) fabric.Fabric { return openSecondary(w.welcome, to) }
			cfg.SecondaryOpened = w.putSecondary
			cfg.Changed = w.changed
		}
	}
	cfg.Open = func(to fabric.Sink) (fabric.Fabric, error) {
		if fast {
			f, err := w.openInfiniBand(to)
			switch {
			case err == nil:
				return f, nil
			case how.Fabric == "ib": // all ranks of this node fail for the same reason; the job's end reports it once
				w.Abort(1, err.Error()+"; see ibrun --doctor, or use --fabric udp")
			}
			why = err.Error()
		}
		return w.openEthernet(why, to)
	}
	return late
}

// changed reports that this rank uses Ethernet because InfiniBand has failed with the error failed, or, if failed is
// nil, that it uses InfiniBand again.
func (w *World) changed(failed error) {
	if failed == nil {
		w.report("data goes by InfiniBand again")
		return
	}
	w.report("data goes by Ethernet: " + failed.Error())
}

// reportUnused warns that --fabric ib would not work on this node. It is called in a job of one node, where InfiniBand
// is not used: the ranks communicate over local sockets. The user of ibrun sees the warning even without -v.
func (w *World) reportUnused() {
	how := w.welcome.How
	how.Fabric, how.Iface = "auto", ""
	if works, why := onInfiniBand(how, true); !works {
		text := "--fabric ib is not used by a job of one node, and would not work: " + why
		w.log.Warn(text)
		w.notifyUser(text)
	}
}

// openInfiniBand opens the port that the agent chose for this rank, or the first active port if it chose none.
func (w *World) openInfiniBand(to fabric.Sink) (fabric.Fabric, error) {
	how, key := w.welcome.How, w.welcome.Key
	cfg := ib.Config{
		Port: os.Getenv(hcaVariable), GIDIndex: int(how.GID) - 1, PKey: how.PKey, Rank: w.LocalRank(),
		Spin: how.Poll == job.PollSpin,
		QKey: key.QKey(), Key: key.ControlKey(),
	}
	if cfg.AskSL = how.SL == job.SLOfPath; !cfg.AskSL {
		cfg.SL = how.SL
	}
	f, err := ib.Open(cfg, to)
	if err != nil {
		return nil, err
	}
	if w.wantsReasons() {
		w.report(fmt.Sprintf("data goes by %v on %s", f.Tuple(), f.Port()))
	}
	return f, nil
}

// openEthernet opens an endpoint on the interface that --iface names, or on the one that the agent uses to reach its
// parent. It reports the interface and the reason for the choice. If why is not empty, it is also reported, as the
// reason that InfiniBand is not used.
func (w *World) openEthernet(why string, to fabric.Sink) (fabric.Fabric, error) {
	at, err := chooseEthernet(w.welcome)
	if err != nil {
		return nil, err
	}
	w.report("data goes by " + at.Reason)
	if why != "" {
		w.report("data does not go by InfiniBand: " + why)
	}
	return udp.Open(udp.Config{Addr: at.Addr, MTU: at.MTU, Instead: why, Spin: spinner(w.welcome.How.Poll)}, to)
}

// ownCoresVariable is the environment variable that the agent sets to 1 if no other rank of the node may use the cores
// of this rank.
const ownCoresVariable = "IBRUN_OWN_CORES"

// spinner returns how long this rank polls before it sleeps. The zero Spinner means that it does not poll.
func spinner(how job.Poll) poll.Spinner {
	switch {
	case how == job.PollSpin:
		return poll.NewSpinner(poll.Long, true)
	case how == job.PollAuto && os.Getenv(ownCoresVariable) == "1":
		return poll.NewSpinner(poll.Short, false)
	}
	return poll.Spinner{}
}

// chooseEthernet returns the interface and address for data over Ethernet: that of --iface, or that by which the agent
// reaches its parent.
func chooseEthernet(w rankwire.Welcome) (netiface.Choice, error) {
	links, err := netiface.Links()
	if err != nil {
		return netiface.Choice{}, err
	}
	path, _ := netip.ParseAddr(w.Path) // an empty path is the zero Addr
	return netiface.Choose(w.How.Iface, path, links)
}

// openSecondary opens an Ethernet endpoint for peers whose node has no InfiniBand. It returns nil if that fails. A send
// to such a peer then fails with an error that names both networks.
func openSecondary(w rankwire.Welcome, to fabric.Sink) fabric.Fabric {
	at, err := chooseEthernet(w)
	if err != nil {
		return nil
	}
	f, err := udp.Open(udp.Config{Addr: at.Addr, MTU: at.MTU, Spin: spinner(w.How.Poll)}, to)
	if err != nil {
		return nil
	}
	return f
}

// overInfiniBand is the traffic to a peer above which a reliable queue pair is worth its cost
// (docs/dev/decisions/0012-infiniband.md). overEthernet is the same for a TCP connection
// (docs/dev/decisions/0042-held-acknowledgements.md), which costs as much processor time as 12 packets. The first
// packet of each message does not count, because a message of one packet is cheaper as a datagram.
var (
	overInfiniBand = lazy.Worth{Limit: 16, PerSecond: 16, Packet: 4 << 10, Each: 1}
	overEthernet   = lazy.Worth{Limit: 12, PerSecond: 1}
)
