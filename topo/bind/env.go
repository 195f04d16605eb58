package bind

import (
	"strconv"
	"strings"
)

// Env is what a rank's environment says of its choice, as NAME=VALUE, to
// libraries that would otherwise take the first device or all of them. Each
// rank has its own values. link is the interface that the rank should use for
// sockets; it may be empty, and counts without an HCA too. Who calls drops what
// the user has set himself.
//
//	IBRUN_HCA             what was chosen, for everybody else: NAME:PORT
//	UCX_NET_DEVICES       UCX and Open MPI over it: NAME:PORT (UCX FAQ, "Which network devices does UCX use?")
//	MV2_IBA_HCA           MVAPICH2: NAME (its user guide)
//	MV2_DEFAULT_PORT      MVAPICH2: PORT (its user guide)
//	NCCL_IB_HCA           NCCL: =NAME:PORT; without the leading = any device would do whose name begins so (NCCL's list of variables)
//	FI_VERBS_DEVICE_NAME  libfabric over verbs: NAME, or how it begins (fi_verbs(7)); it has none for the port
//	PSM3_NIC              PSM3, on Ethernet: NAME (libfabric, prov/psm3)
//	HFI_UNIT              PSM2, on Omni-Path: the number in hfi1_N (opa-psm2, psm_ep.c)
//	FI_OPX_HFI_SELECT     OPX, on Omni-Path: the same number (fi_opx(7))
//	NCCL_SOCKET_IFNAME    NCCL: =LINK, as above
//	GLOO_SOCKET_IFNAME    Gloo, by PyTorch: LINK (torch.distributed)
//	FI_TCP_IFACE          libfabric over TCP: LINK (fi_tcp(7))
//
// Omni-Path has libraries of its own; the others do not drive it or should not.
func (c Choice) Env(link string) []string {
	var env []string
	if c.HCA != nil {
		env = c.device()
	}
	if link != "" {
		env = append(env, "NCCL_SOCKET_IFNAME=="+link, "GLOO_SOCKET_IFNAME="+link, "FI_TCP_IFACE="+link)
	}
	return env
}

func (c Choice) device() []string {
	name, port := c.HCA.Name, c.String()
	env := []string{"IBRUN_HCA=" + port, "NCCL_IB_HCA==" + port}
	if unit, ours := strings.CutPrefix(name, "hfi1_"); ours {
		// The driver puts the unit into its name
		// (drivers/infiniband/hw/hfi1/init.c). Nothing else tells it, and a
		// wrong one would be another device, silently.
		if _, err := strconv.ParseUint(unit, 10, 8); err == nil {
			env = append(env, "HFI_UNIT="+unit, "FI_OPX_HFI_SELECT="+unit)
		}
		return env
	}
	if strings.HasPrefix(name, "opa") { // udev's name for the same, by where it is plugged in
		return env
	}
	env = append(env, "UCX_NET_DEVICES="+port, "MV2_IBA_HCA="+name, "MV2_DEFAULT_PORT="+strconv.Itoa(c.Port.Number),
		"FI_VERBS_DEVICE_NAME="+name)
	if c.Port.Layer == "Ethernet" {
		env = append(env, "PSM3_NIC="+name)
	}
	return env
}
