//go:build cgo && !noib

package verbs

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo nocallback ibrun_post_send
#cgo noescape ibrun_post_send
#cgo nocallback ibrun_post_recv
#cgo noescape ibrun_post_recv
#cgo nocallback ibrun_post_srq
#cgo noescape ibrun_post_srq
#cgo nocallback ibrun_poll_cq
#cgo noescape ibrun_poll_cq
#cgo nocallback ibrun_arm_poll_cq
#cgo noescape ibrun_arm_poll_cq
#cgo nocallback ibrun_arm_cq
#cgo noescape ibrun_arm_cq
#cgo nocallback ibrun_take_events
#cgo noescape ibrun_take_events
#cgo nocallback ibrun_next
#cgo noescape ibrun_next
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import "unsafe"

// notBuilt returns the reason that Open fails, or "" if this was compiled with verbs.h.
func notBuilt() string {
	if C.IBRUN_VERBS == 0 {
		return "infiniband/verbs.h was not found"
	}
	return ""
}

func shimLoad(path string) (why string, rc int) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	rc = int(C.ibrun_load(name, &text[0], C.size_t(len(text))))
	return C.GoString(&text[0]), rc
}

func shimDevices(most int) ([]Device, int) {
	list := make([]C.struct_ibrun_device, most)
	n := int(C.ibrun_devices(&list[0], C.int(most)))
	if n < 0 {
		return nil, n
	}
	var devices []Device
	for _, d := range list[:min(n, most)] {
		devices = append(devices, Device{Name: C.GoString(&d.name[0]), GUID: uint64(d.guid),
			Transport: Transport(d.transport)})
	}
	return devices, 0
}

func shimOpen(name string) (context unsafe.Pointer, fd, rc int) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	async := C.int(-1)
	rc = int(C.ibrun_open(text, &context, &async))
	return context, int(async), rc
}

func shimClose(context unsafe.Pointer) int { return int(C.ibrun_close(context)) }

func shimQueryDevice(context unsafe.Pointer) (Limits, int) {
	var l C.struct_ibrun_limits
	rc := C.ibrun_query_device(context, &l)
	return Limits{
		MaxQP: int(l.max_qp), MaxSharedWork: int(l.max_srq_wr), MaxReadsIn: int(l.max_qp_rd_atom),
		MaxReadsOut: int(l.max_qp_init_rd_atom), Ports: int(l.ports),
	}, int(rc)
}

func shimQueryPort(context unsafe.Pointer, port int) (Port, int) {
	var p C.struct_ibrun_port
	rc := C.ibrun_query_port(context, C.int(port), &p)
	return Port{
		State: PortState(p.state), MTU: MTU(p.active_mtu), GIDs: int(p.gids), PKeys: int(p.pkeys),
		LID: uint16(p.lid), LMC: uint8(p.lmc), Link: LinkLayer(p.link_layer),
	}, int(rc)
}

func shimQueryGID(context unsafe.Pointer, port, index int) (GID, int) {
	var addr [16]C.uint8_t
	kind := C.int(-1)
	rc := C.ibrun_query_gid(context, C.int(port), C.int(index), &addr[0], &kind)
	return GID{Addr: *(*[16]byte)(unsafe.Pointer(&addr)), Type: GIDType(kind)}, int(rc)
}

func shimQueryPKey(context unsafe.Pointer, port, index int) (uint16, int) {
	var key C.uint16_t
	rc := C.ibrun_query_pkey(context, C.int(port), C.int(index), &key)
	return uint16(key), int(rc)
}

func shimAsyncEvent(context unsafe.Pointer) (Event, int) {
	var e C.struct_ibrun_async
	if rc := int(C.ibrun_async_event(context, &e)); rc < 0 {
		return Event{}, rc
	}
	return Event{Type: EventType(e._type), Port: int(e.port), QPN: uint32(e.qpn), Cookie: uint64(e.cookie)}, 1
}

func shimAllocPD(context unsafe.Pointer) (pd unsafe.Pointer, rc int) {
	rc = int(C.ibrun_alloc_pd(context, &pd))
	return pd, rc
}

func shimDeallocPD(pd unsafe.Pointer) int { return int(C.ibrun_dealloc_pd(pd)) }

// shimRegMR gets pinned memory: the library keeps the address.
func shimRegMR(pd unsafe.Pointer, b []byte, access Access) (mr unsafe.Pointer, lkey, rkey uint32, rc int) {
	var l, r C.uint32_t
	rc = int(C.ibrun_reg_mr(pd, unsafe.Pointer(&b[0]), C.size_t(len(b)), C.int(access), &mr, &l, &r))
	return mr, uint32(l), uint32(r), rc
}

func shimDeregMR(mr unsafe.Pointer) int { return int(C.ibrun_dereg_mr(mr)) }

func shimCreateChannel(context unsafe.Pointer) (channel unsafe.Pointer, fd, rc int) {
	got := C.int(-1)
	rc = int(C.ibrun_create_channel(context, &channel, &got))
	return channel, int(got), rc
}

func shimDestroyChannel(channel unsafe.Pointer) int { return int(C.ibrun_destroy_channel(channel)) }

func shimTakeEvents(channel unsafe.Pointer, cookies []uint64) int {
	if len(cookies) == 0 {
		return 0
	}
	return int(C.ibrun_take_events(channel, (*C.uint64_t)(unsafe.Pointer(&cookies[0])), C.int(len(cookies))))
}

// shimNext needs room for one completion at least.
func shimNext(channel unsafe.Pointer, out []Completion) (cookie uint64, n, rc int) {
	var of C.uint64_t
	var got C.int
	rc = int(C.ibrun_next(channel, &of, (*C.struct_ibrun_completion)(unsafe.Pointer(&out[0])), C.int(len(out)), &got))
	return uint64(of), int(got), rc
}

func shimCreateCQ(context unsafe.Pointer, size int, cookie uint64, channel unsafe.Pointer) (cq unsafe.Pointer, granted,
	rc int) {
	var got C.int
	rc = int(C.ibrun_create_cq(context, C.int(size), C.uint64_t(cookie), channel, 0, &cq, &got))
	return cq, int(got), rc
}

func shimDestroyCQ(cq unsafe.Pointer) int { return int(C.ibrun_destroy_cq(cq)) }

func shimArmCQ(cq unsafe.Pointer) int { return int(C.ibrun_arm_cq(cq)) }

func shimPollCQ(cq unsafe.Pointer, out []Completion) int {
	if len(out) == 0 {
		return 0
	}
	return int(C.ibrun_poll_cq(cq, (*C.struct_ibrun_completion)(unsafe.Pointer(&out[0])), C.int(len(out))))
}

func shimArmPollCQ(cq unsafe.Pointer, out []Completion) int {
	if len(out) == 0 {
		return shimArmCQ(cq)
	}
	return int(C.ibrun_arm_poll_cq(cq, (*C.struct_ibrun_completion)(unsafe.Pointer(&out[0])), C.int(len(out))))
}

func shimCreateSRQ(pd unsafe.Pointer, size int) (srq unsafe.Pointer, granted, rc int) {
	var got C.uint32_t
	rc = int(C.ibrun_create_srq(pd, C.uint32_t(size), &srq, &got))
	return srq, int(got), rc
}

func shimDestroySRQ(srq unsafe.Pointer) int { return int(C.ibrun_destroy_srq(srq)) }

func shimCreateAH(pd unsafe.Pointer, to Route) (ah unsafe.Pointer, rc int) {
	route := cRoute(to)
	rc = int(C.ibrun_create_ah(pd, &route, &ah))
	return ah, rc
}

func shimDestroyAH(ah unsafe.Pointer) int { return int(C.ibrun_destroy_ah(ah)) }

// shimCreateQP leaves the granted depths in cfg.
func shimCreateQP(pd unsafe.Pointer, cfg *QPConfig) (qp unsafe.Pointer, number uint32, rc int) {
	queues := C.struct_ibrun_queues{
		send_cq: cfg.Send.ptr, recv_cq: cfg.Receive.ptr, _type: C.uint32_t(cfg.Type),
		max_send: C.uint32_t(cfg.MaxSend), max_receive: C.uint32_t(cfg.MaxReceive),
		max_inline: C.uint32_t(cfg.MaxInline),
	}
	if cfg.Shared != nil {
		queues.srq = cfg.Shared.ptr
	}
	rc = int(C.ibrun_create_qp(pd, &queues, &qp))
	cfg.MaxSend, cfg.MaxReceive, cfg.MaxInline = int(queues.max_send), int(queues.max_receive), int(queues.max_inline)
	return qp, uint32(queues.qpn), rc
}

func shimDestroyQP(qp unsafe.Pointer) int { return int(C.ibrun_destroy_qp(qp)) }

func shimModifyQP(qp unsafe.Pointer, to QPState) int {
	in := C.struct_ibrun_qp_state{
		route: cRoute(to.Route), state: C.uint32_t(to.State), path_mtu: C.uint32_t(to.MTU), qkey: C.uint32_t(to.QKey),
		rq_psn: C.uint32_t(to.ReceivePSN), sq_psn: C.uint32_t(to.SendPSN), dest_qpn: C.uint32_t(to.Peer),
		access: C.uint32_t(to.Access), pkey_index: C.uint16_t(to.PKeyIndex), port: C.uint8_t(to.Port),
		rd_atomic: C.uint8_t(to.ReadsOut), dest_rd_atomic: C.uint8_t(to.ReadsIn), min_rnr_timer: C.uint8_t(to.MinRNR),
		timeout: C.uint8_t(to.Timeout), retry: C.uint8_t(to.Retry), rnr_retry: C.uint8_t(to.RNRRetry),
	}
	return int(C.ibrun_modify_qp(qp, &in))
}

func shimQueryQP(qp unsafe.Pointer) (QPState, int) {
	var s C.struct_ibrun_qp_state
	rc := C.ibrun_query_qp(qp, &s)
	return QPState{State: State(s.state), Peer: uint32(s.dest_qpn)}, int(rc)
}

func cRoute(r Route) C.struct_ibrun_route {
	c := C.struct_ibrun_route{
		dgid: *(*[16]C.uint8_t)(unsafe.Pointer(&r.DGID)), flow_label: C.uint32_t(r.FlowLabel), dlid: C.uint16_t(r.DLID),
		sl: C.uint8_t(r.SL), path_bits: C.uint8_t(r.PathBits), rate: C.uint8_t(r.Rate), port: C.uint8_t(r.Port),
		sgid_index: C.uint8_t(r.SGIDIndex), hop_limit: C.uint8_t(r.HopLimit), traffic_class: C.uint8_t(r.TrafficClass),
	}
	if r.Global {
		c.global = 1
	}
	return c
}

func shimPostSend(qp unsafe.Pointer, batch []Send) (done, rc int) {
	if len(batch) == 0 {
		return 0, 0
	}
	got := C.ibrun_post_send(qp, (*C.struct_ibrun_send)(unsafe.Pointer(&batch[0])), C.int(len(batch)))
	return int(got.done), int(got.err)
}

func shimPostReceive(qp unsafe.Pointer, batch []Receive) (done, rc int) {
	if len(batch) == 0 {
		return 0, 0
	}
	got := C.ibrun_post_recv(qp, (*C.struct_ibrun_receive)(unsafe.Pointer(&batch[0])), C.int(len(batch)))
	return int(got.done), int(got.err)
}

func shimPostSRQ(srq unsafe.Pointer, batch []Receive) (done, rc int) {
	if len(batch) == 0 {
		return 0, 0
	}
	got := C.ibrun_post_srq(srq, (*C.struct_ibrun_receive)(unsafe.Pointer(&batch[0])), C.int(len(batch)))
	return int(got.done), int(got.err)
}
