//go:build ib && cgo && !noib

package verbs

// #cgo CFLAGS: -DIBRUN_REQUIRE_VERBS
// #include <infiniband/verbs.h>
import "C"

// The compiler holds the constants of this package against verbs.h: an index other
// than 0 does not compile.
var (
	_ = [1]int{}[TransportIWARP-C.IBV_TRANSPORT_IWARP]
	_ = [1]int{}[PortActive-C.IBV_PORT_ACTIVE]
	_ = [1]int{}[LinkEthernet-C.IBV_LINK_LAYER_ETHERNET]
	_ = [1]int{}[MTU4096-C.IBV_MTU_4096]
	_ = [1]int{}[GIDRoCEv2-C.IBV_GID_TYPE_ROCE_V2]
	_ = [1]int{}[EventGIDChange-C.IBV_EVENT_GID_CHANGE]
	_ = [1]int{}[EventDeviceFatal-C.IBV_EVENT_DEVICE_FATAL]
	_ = [1]int{}[EventLastReceive-C.IBV_EVENT_QP_LAST_WQE_REACHED]
	_ = [1]int{}[LocalWrite|RemoteWrite|RemoteRead-
		(C.IBV_ACCESS_LOCAL_WRITE|C.IBV_ACCESS_REMOTE_WRITE|C.IBV_ACCESS_REMOTE_READ)]
	_ = [1]int{}[Flushed-C.IBV_WC_WR_FLUSH_ERR]
	_ = [1]int{}[RetryExceeded-C.IBV_WC_RETRY_EXC_ERR]
	_ = [1]int{}[GeneralError-C.IBV_WC_GENERAL_ERR]
	_ = [1]int{}[DoneRead-C.IBV_WC_RDMA_READ]
	_ = [1]int{}[DoneReceiveImm-C.IBV_WC_RECV_RDMA_WITH_IMM]
	_ = [1]int{}[HasGRH|HasImm-(C.IBV_WC_GRH|C.IBV_WC_WITH_IMM)]
	_ = [1]int{}[RC-C.IBV_QPT_RC]
	_ = [1]int{}[UD-C.IBV_QPT_UD]
	_ = [1]int{}[Failed-C.IBV_QPS_ERR]
	_ = [1]int{}[OpSendImm-C.IBV_WR_SEND_WITH_IMM]
	_ = [1]int{}[OpRead-C.IBV_WR_RDMA_READ]
	_ = [1]int{}[Fence|Signaled|Solicited|Inline-
		(C.IBV_SEND_FENCE|C.IBV_SEND_SIGNALED|C.IBV_SEND_SOLICITED|C.IBV_SEND_INLINE)]
)
