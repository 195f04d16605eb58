/* Devices, ports, protection domains, memory, address handles. */
#include <unistd.h>

#include "fake.h"

pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t acked = PTHREAD_COND_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct context *context_of(struct ibv_context *ibv)
{
	return (struct context *)((char *)ibv - offsetof(struct context, v.context));
}

struct port *port_of(struct context *c, int number)
{
	return number >= 1 && number <= c->device->ports ? &c->ports[number - 1] : NULL;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	pthread_once(&once, read_settings);
	struct ibv_device **list = calloc(settings.devices + 1, sizeof *list);
	for (int i = 0; i < settings.devices; i++)
		list[i] = &settings.device[i].ibv;
	*n = settings.devices;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return htobe64(((struct device *)d)->guid);
}

static int query_port(struct ibv_context *ibv, uint8_t number, struct ibv_port_attr *out, size_t size)
{
	struct context *c = context_of(ibv);
	struct port *p = port_of(c, number);
	if (!p)
		return EINVAL;
	pthread_mutex_lock(&world);
	struct ibv_port_attr attr = {
		.state = p->state, .active_mtu = p->mtu, .gid_tbl_len = p->gids, .pkey_tbl_len = p->pkeys,
		.lid = p->lid, .sm_lid = p->sm_lid, .lmc = p->lmc, .link_layer = p->link,
	};
	pthread_mutex_unlock(&world);
	memcpy(out, &attr, size < sizeof attr ? size : sizeof attr);
	return c->dead ? EIO : 0;
}

int ibv_query_port(struct ibv_context *ibv, uint8_t number, struct _compat_ibv_port_attr *out)
{
	/* What libraries before the extended context wrote: all up to the link layer. */
	return query_port(ibv, number, (struct ibv_port_attr *)out, offsetof(struct ibv_port_attr, link_layer));
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct device *d = (struct device *)ibv;
	if (settings.open_errno) {
		errno = settings.open_errno;
		return NULL;
	}
	struct context *c = calloc(1, sizeof *c);
	c->device = d;
	memcpy(c->ports, d->port, sizeof c->ports);
	static _Atomic uint64_t opened;
	c->random = (settings.seed + opened++) * 0x9e3779b97f4a7c15 + d->guid + 1; /* endpoints of one process differ in luck */
	c->next_qpn = settings.qpn ? settings.qpn : 17 + getpid() * 61 % 0x8000;
	c->next_key = 0x100;
	c->v.sz = sizeof c->v;
	c->v.query_port = query_port;
	c->v.context.device = ibv;
	c->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->v.context.num_comp_vectors = 1;
	c->v.context.cmd_fd = -1;
	c->v.context.ops.poll_cq = fake_poll_cq;
	c->v.context.ops.req_notify_cq = fake_req_notify_cq;
	c->v.context.ops.post_send = fake_post_send;
	c->v.context.ops.post_recv = fake_post_recv;
	c->v.context.ops.post_srq_recv = fake_post_srq_recv;
	pthread_mutex_init(&c->v.context.mutex, NULL);
	int rc = mailbox_open(&c->box);
	if (rc == 0)
		rc = net_open(c);
	if (rc) {
		free(c);
		errno = rc;
		return NULL;
	}
	c->v.context.async_fd = c->box.fd;
	return &c->v.context;
}

int ibv_close_device(struct ibv_context *ibv)
{
	struct context *c = context_of(ibv);
	char counts[512];
	pthread_mutex_lock(&world);
	control(c, "count", counts, sizeof counts);
	pthread_mutex_unlock(&world);
	note("close dev=%s %s", c->device->ibv.name, counts);
	net_close(c);
	mailbox_close(&c->box);
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *out)
{
	struct context *c = context_of(ibv);
	*out = (struct ibv_device_attr){
		.max_qp = settings.max_qp, .max_srq_wr = 1 << 15, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
		.phys_port_cnt = c->device->ports,
	};
	return 0;
}

int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid)
{
	struct port *p = port_of(context_of(ibv), port);
	if (!p || index < 0 || index >= p->gids) {
		errno = EINVAL;
		return -1;
	}
	*gid = p->gid[index].addr;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index, struct ibv_gid_entry *out, uint32_t flags, size_t size)
{
	struct port *p = port_of(context_of(ibv), port);
	if (!p || index >= (uint32_t)p->gids || flags)
		return EINVAL;
	if (p->gid[index].type < 0)
		return ENODATA;
	struct ibv_gid_entry entry = {.gid = p->gid[index].addr, .gid_index = index, .port_num = port, .gid_type = p->gid[index].type};
	memcpy(out, &entry, size < sizeof entry ? size : sizeof entry);
	return 0;
}

int ibv_query_pkey(struct ibv_context *ibv, uint8_t port, int index, __be16 *pkey)
{
	struct port *p = port_of(context_of(ibv), port);
	if (!p || index < 0 || index >= p->pkeys) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(p->pkey[index]);
	return 0;
}

/* Objects that others hang on count them in handle. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct ibv_pd *pd = calloc(1, sizeof *pd);
	pthread_mutex_lock(&world);
	pd->context = ibv;
	context_of(ibv)->counts.pd++;
	pthread_mutex_unlock(&world);
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&world);
	int rc = pd->handle ? EBUSY : 0;
	context_of(pd->context)->counts.pd -= !rc;
	pthread_mutex_unlock(&world);
	if (!rc)
		free(pd);
	return rc;
}

static uint64_t pages(const void *addr, uint64_t length)
{
	uint64_t from = (uintptr_t)addr & ~4095ull, to = ((uintptr_t)addr + length + 4095) & ~4095ull;
	return to - from;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct context *c = context_of(pd->context);
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	pthread_mutex_lock(&world);
	if (settings.memlock && c->counts.pinned + pages(addr, length) > settings.memlock) {
		pthread_mutex_unlock(&world);
		errno = ENOMEM;
		return NULL;
	}
	struct mr *mr = calloc(1, sizeof *mr);
	uint32_t key = c->next_key++;
	mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = key, .rkey = key};
	mr->access = access;
	mr->next = c->mrs;
	c->mrs = mr;
	c->counts.mr++;
	c->counts.pinned += pages(addr, length);
	pd->handle++;
	pthread_mutex_unlock(&world);
	return &mr->ibv;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct context *c = context_of(ibv->context);
	pthread_mutex_lock(&world);
	for (struct mr **at = &c->mrs; *at; at = &(*at)->next)
		if (&(*at)->ibv == ibv) {
			*at = (*at)->next;
			break;
		}
	c->counts.mr--;
	c->counts.pinned -= pages(ibv->addr, ibv->length);
	ibv->pd->handle--;
	pthread_mutex_unlock(&world);
	free(ibv);
	return 0;
}

bool mapped(struct context *c, uint32_t key, const void *addr, uint64_t length, int access)
{
	for (struct mr *mr = c->mrs; mr; mr = mr->next)
		if (mr->ibv.lkey == key)
			return (mr->access & access) == access && (uint8_t *)addr >= (uint8_t *)mr->ibv.addr &&
			       length <= mr->ibv.length && (uint8_t *)addr + length <= (uint8_t *)mr->ibv.addr + mr->ibv.length;
	return false;
}

bool path_ok(struct context *c, const struct ibv_ah_attr *a)
{
	struct port *p = port_of(c, a->port_num);
	if (!p)
		return false;
	if (a->is_global)
		return a->grh.sgid_index < p->gids && p->gid[a->grh.sgid_index].type >= 0;
	return p->link != IBV_LINK_LAYER_ETHERNET && a->dlid != 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct context *c = context_of(pd->context);
	char dgid[33];
	bool bad = !path_ok(c, attr) || attr->sl > 15;
	hex(dgid, &attr->grh.dgid);
	note("ah dev=%s port=%d dlid=%d sl=%d src_path_bits=%d static_rate=%d is_global=%d sgid_index=%d hop_limit=%d dgid=%s refused=%d",
	     c->device->ibv.name, attr->port_num, attr->dlid, attr->sl, attr->src_path_bits, attr->static_rate,
	     attr->is_global, attr->grh.sgid_index, attr->grh.hop_limit, dgid, bad);
	if (bad) {
		errno = EINVAL;
		return NULL;
	}
	struct ah *ah = calloc(1, sizeof *ah);
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->attr = *attr;
	pthread_mutex_lock(&world);
	pd->handle++;
	c->counts.ah++;
	pthread_mutex_unlock(&world);
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	pthread_mutex_lock(&world);
	ah->pd->handle--;
	context_of(ah->context)->counts.ah--;
	pthread_mutex_unlock(&world);
	free(ah);
	return 0;
}
