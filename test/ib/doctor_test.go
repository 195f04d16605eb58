//go:build ib

package ib

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/rdmavm/inside"
)

// node has the fields that TestDoctor checks of an element of nodes in the output of --doctor --json.
type node struct {
	Lost   *struct{ Cause string }
	Report *struct {
		HCAs []struct {
			Name  string
			GUID  string   `json:"node_guid"`
			Links []string `json:"interfaces"`
			Files []string `json:"device_files"`
			Ports []struct {
				State string
				Layer string `json:"link_layer"`
				MTU   int    `json:"mtu_bytes"`
				GIDs  []struct {
					Type string
					Link string `json:"interface"`
				}
			}
		}
		Verbs struct {
			Library, Deaf string
			Modules       []string
			Devices       []deviceFile `json:"device_files"`
			Listed        []struct {
				Name string
				GUID string `json:"node_guid"`
			}
		}
	}
}

type deviceFile struct{ Path, Fault string }

// TestDoctor runs ibrun --doctor on a machine with two Soft-RoCE devices. It must report all properties of both devices
// and no error. If a process may lock only 64 KiB of memory, it must report this limit as the only error.
func TestDoctor(t *testing.T) {
	inside.Require(t)
	examine := func(kB, hosts string) (nodes []node, code int, wrong []string) {
		line := fmt.Sprintf("ulimit -l %s; exec %s --doctor --json --fabric ib --launcher local --hosts %s", kB,
			inside.Program("ibrun"), hosts)
		var all struct {
			Nodes    []node
			Findings []struct{ Severity, Subject, Text string }
		}
		out, code := outputAndCode(t, exec.CommandContext(t.Context(), "sh", "-c", line))
		require.NoError(t, json.Unmarshal(out, &all), "%s", out)
		for _, f := range all.Findings {
			if f.Severity == "error" {
				wrong = append(wrong, f.Subject+": "+f.Text)
			}
		}
		return all.Nodes, code, wrong
	}
	nodes, code, wrong := examine("unlimited", "a,b")
	require.Empty(t, wrong)
	require.Equal(t, 0, code)
	require.Len(t, nodes, 2)
	for _, n := range nodes {
		r := n.Report
		require.NotNil(t, r, "%+v", n.Lost)
		require.Len(t, r.HCAs, 2)
		require.Len(t, r.Verbs.Listed, 2, "netlink: %s", r.Verbs.Deaf)
		require.Equal(t, "rxe0", r.HCAs[0].Name)
		for i, h := range r.HCAs {
			link := fmt.Sprintf("eth%d", i)
			require.Equal(t, fmt.Sprintf("rxe%d", i), h.Name)
			require.Equal(t, h.Name, r.Verbs.Listed[i].Name)
			require.Equal(t, h.GUID, r.Verbs.Listed[i].GUID, "netlink lists devices in the order of sysfs")
			require.Equal(t, []string{link}, h.Links)
			require.Contains(t, h.Files, fmt.Sprintf("/dev/infiniband/uverbs%d", i))
			p := h.Ports[0]
			require.Equal(t, "ACTIVE Ethernet 1500", fmt.Sprint(p.State, " ", p.Layer, " ", p.MTU))
			require.Len(t, p.GIDs, 2)
			require.Equal(t, "RoCE v2 "+link, p.GIDs[1].Type+" "+p.GIDs[1].Link)
		}
		require.NotEmpty(t, r.Verbs.Library)
		require.Contains(t, r.Verbs.Modules, "rdma_rxe")
		opened := func(d deviceFile) bool { return strings.HasSuffix(d.Path, "uverbs0") && d.Fault == "" }
		require.True(t, slices.ContainsFunc(r.Verbs.Devices, opened), "%v", r.Verbs.Devices)
	}
	_, code, wrong = examine("64", "a")
	require.Equal(t, 1, code)
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0], "memlock: a process may lock 64 KiB")
}

// outputAndCode runs a command, waits for it, and returns its standard output and exit code.
func outputAndCode(t *testing.T, cmd *exec.Cmd) (out []byte, code int) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out, cmd.ProcessState.ExitCode()
}
