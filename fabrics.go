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
	"ibrun/lazy/upgrade"
	"ibrun/topo"
	"ibrun/topo/bind"
)

// Option changes what Init does. Most programs need none.
type Option func(*config)

// config is what options change.
type config struct {
	log    *slog.Logger
	bundle time.Duration
}

// WithLogger lets the package log to l: which network the messages of this rank take and why, ranks
// that have failed, and the loss of the agent. Without it the package logs nothing, and it never
// writes to standard output or standard error by itself. The text and the attributes of records are
// for users and may change.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithAggregation lets small messages of this rank to the same rank of another node share packets.
// A message may wait for others as long as delay says, usually 100 us to 1 ms. It is for programs
// that send many small messages to many ranks and do not wait for each answer; other programs
// become slower by it. Messages still arrive once and in order, Flush and Finalize send what waits,
// and other ranks need not use the option. Without it, or with 0 or less, nothing waits.
func WithAggregation(delay time.Duration) Option { return func(c *config) { c.bundle = delay } }

// newConfig applies options to the defaults.
func newConfig(options []Option) config {
	c := config{log: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&c)
	}
	return c
}

// wantsReasons reports whether somebody will read why this rank takes the network that it takes:
// the user of ibrun -v, who is told by the first rank of each node, or the program's logger.
func (w *World) wantsReasons() bool {
	return w.notifiesUser() || w.log.Enabled(context.Background(), slog.LevelInfo)
}

// notifiesUser reports whether this rank tells the user of ibrun for those of its node.
func (w *World) notifiesUser() bool { return w.welcome.How.Verbose && w.welcome.Rank == w.first }

// report logs a sentence and, if this rank is to, has ibrun show it to its user.
func (w *World) report(text string) {
	w.log.Info(text)
	if w.notifiesUser() {
		w.notifyUser(text)
	}
}

// notifyUser has ibrun show a sentence to its user, who is not told if the agent is lost.
func (w *World) notifyUser(text string) { _ = w.control.Send(rankwire.Notice{Text: text}) }

// hcaVariable names the port that this node's agent chose for the rank.
const hcaVariable = "IBRUN_HCA"

// onInfiniBand decides between InfiniBand and Ethernet without opening a
// device, and says why not InfiniBand if that was not asked for; looking is for
// those who tell the user, since it reads the node's devices.
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

// ways says how the table comes to other nodes.
func (w *World) ways(cfg *lazy.Config) {
	how := w.welcome.How
	cfg.Worth = overEthernet
	fast, why := onInfiniBand(how, w.wantsReasons())
	if fast {
		// A device takes long to open, and many ranks never leave their
		// node. Where all addresses are sent at once, they are needed now.
		if cfg.OpenOnDemand = !how.Eager || how.Learn; cfg.OpenOnDemand {
			cfg.Opened = func(t fabric.Tuple) { _ = w.control.Send(rankwire.Publish{Tuple: t}) }
		}
		cfg.Worth = overInfiniBand
		if how.Fabric == "auto" { // other nodes may have none
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
			case how.Fabric == "ib": // the same holds for every rank of this node: one of them says it
				w.Abort(1, err.Error()+"; see ibrun --doctor, or use --fabric udp")
			}
			why = err.Error()
		}
		return w.openEthernet(why, to)
	}
}

// changed reports that this rank's data goes by Ethernet, as InfiniBand has failed, or goes by that
// again.
func (w *World) changed(failed error) {
	if failed == nil {
		w.report("data goes by InfiniBand again")
		return
	}
	w.report("data goes by Ethernet: " + failed.Error())
}

// reportUnused reports that InfiniBand was asked for where nothing goes by it, if it would not work
// either: on one node, whose ranks talk over sockets of their own. The user is told without -v too.
func (w *World) reportUnused() {
	how := w.welcome.How
	how.Fabric, how.Iface = "auto", ""
	if works, why := onInfiniBand(how, true); !works {
		text := "--fabric ib is not used by a job of one node, and would not work: " + why
		w.log.Warn(text)
		w.notifyUser(text)
	}
}

// openInfiniBand opens the port that the agent chose for this rank, or the first
// that is active.
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

// openEthernet opens an address that --iface or the agent's own path to its
// parent gives. It reports which that is, and why, and why it is not InfiniBand.
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

// ownCoresVariable is set by the agent for ranks with cores that no other rank of their node may
// use.
const ownCoresVariable = "IBRUN_OWN_CORES"

// spinner says how long a rank polls before it sleeps.
func spinner(how job.Poll) poll.Spinner {
	switch {
	case how == job.PollSpin:
		return poll.NewSpinner(poll.Long, true)
	case how == job.PollAuto && os.Getenv(ownCoresVariable) == "1":
		return poll.NewSpinner(poll.Short, false)
	}
	return poll.Spinner{}
}

func chooseEthernet(w rankwire.Welcome) (netiface.Choice, error) {
	links, err := netiface.Links()
	if err != nil {
		return netiface.Choice{}, err
	}
	path, _ := netip.ParseAddr(w.Path) // none is the zero value
	return netiface.Choose(w.How.Iface, path, links)
}

// openSecondary opens an Ethernet address for peers whose node has no InfiniBand; nil:
// there is none, and those will be told where both are.
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

// overInfiniBand is what is worth a reliable queue pair (docs/dev/decisions/0012-infiniband.md), and
// overEthernet what is worth a TCP connection (docs/dev/decisions/0042-held-acknowledgements.md): the
// connection costs as much processor time as the 12 packets beyond the first ones of their messages
// that it takes. One of a single packet is cheaper as a datagram.
var (
	overInfiniBand = upgrade.Worth{Limit: 16, PerSecond: 16, Packet: 4 << 10, Each: 1}
	overEthernet   = upgrade.Worth{Limit: 12, PerSecond: 1}
)
