/* Completion queues and channels, asynchronous events. */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake.h"

int mailbox_open(struct mailbox *box)
{
	box->first = NULL;
	box->last = &box->first;
	box->fd = eventfd(0, EFD_CLOEXEC);
	return box->fd < 0 ? errno : 0;
}

void mailbox_put(struct mailbox *box, struct ibv_async_event event)
{
	struct notice *n = calloc(1, sizeof *n);
	uint64_t one = 1;
	n->event = event;
	*box->last = n;
	box->last = &n->next;
	if (write(box->fd, &one, sizeof one) < 0)
		perror("fakeverbs: eventfd");
}

/* Empties the descriptor if the list is. */
static void settle(struct mailbox *box)
{
	uint64_t all;
	struct pollfd p = {.fd = box->fd, .events = POLLIN};
	if (!box->first && poll(&p, 1, 0) == 1 && read(box->fd, &all, sizeof all) < 0)
		perror("fakeverbs: eventfd");
}

int mailbox_take(struct mailbox *box, struct ibv_async_event *event)
{
	while (!box->first) {
		if (fcntl(box->fd, F_GETFL) & O_NONBLOCK)
			return EAGAIN;
		struct pollfd p = {.fd = box->fd, .events = POLLIN};
		pthread_mutex_unlock(&world);
		poll(&p, 1, -1);
		pthread_mutex_lock(&world);
	}
	struct notice *n = box->first;
	box->first = n->next;
	if (!box->first)
		box->last = &box->first;
	*event = n->event;
	free(n);
	settle(box);
	return 0;
}

void mailbox_forget(struct mailbox *box, const void *object)
{
	struct notice **at = &box->first;
	while (*at) {
		struct notice *n = *at;
		if (n->event.element.cq == object) {
			*at = n->next;
			free(n);
		} else {
			at = &n->next;
		}
	}
	box->last = at;
	settle(box);
}

void mailbox_close(struct mailbox *box)
{
	while (box->first) {
		struct notice *n = box->first;
		box->first = n->next;
		free(n);
	}
	close(box->fd);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
	struct channel *ch = calloc(1, sizeof *ch);
	int rc = mailbox_open(&ch->box);
	if (rc) {
		free(ch);
		errno = rc;
		return NULL;
	}
	ch->ibv.context = ibv;
	ch->ibv.fd = ch->box.fd;
	pthread_mutex_lock(&world);
	context_of(ibv)->counts.channel++;
	pthread_mutex_unlock(&world);
	return &ch->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	pthread_mutex_lock(&world);
	int rc = ibv->refcnt ? EBUSY : 0;
	context_of(ibv->context)->counts.channel -= !rc;
	pthread_mutex_unlock(&world);
	if (rc)
		return rc;
	mailbox_close(&((struct channel *)ibv)->box);
	free(ibv);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct ibv_async_event event;
	pthread_mutex_lock(&world);
	int rc = mailbox_take(&((struct channel *)ibv)->box, &event);
	if (!rc) {
		*cq = event.element.cq;
		*cq_context = (*cq)->cq_context;
		((struct cq *)*cq)->taken++;
	}
	pthread_mutex_unlock(&world);
	errno = rc;
	return rc ? -1 : 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	pthread_mutex_lock(&world);
	cq->comp_events_completed += n;
	pthread_cond_broadcast(&acked);
	pthread_mutex_unlock(&world);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int size, void *cq_context, struct ibv_comp_channel *ch, int vector)
{
	if (size < 1 || size > 1 << 20 || vector) {
		errno = EINVAL;
		return NULL;
	}
	if (settings.memlock && context_of(ibv)->counts.pinned + (uint64_t)size * 64 > settings.memlock) {
		errno = ENOMEM; /* as hardware, whose entries of 64 bytes are pinned; they are not counted */
		return NULL;
	}
	struct cq *cq = calloc(1, sizeof *cq);
	cq->size = size;
	cq->ring = calloc(size, sizeof *cq->ring);
	cq->ibv = (struct ibv_cq){.context = ibv, .channel = ch, .cq_context = cq_context, .cqe = size};
	pthread_mutex_lock(&world);
	context_of(ibv)->counts.cq++;
	if (ch)
		ch->refcnt++;
	pthread_mutex_unlock(&world);
	return &cq->ibv;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = (struct cq *)ibv;
	pthread_mutex_lock(&world);
	if (cq->users) {
		pthread_mutex_unlock(&world);
		return EBUSY;
	}
	if (ibv->channel) {
		mailbox_forget(&((struct channel *)ibv->channel)->box, ibv);
		while (ibv->comp_events_completed != cq->taken)
			pthread_cond_wait(&acked, &world);
		ibv->channel->refcnt--;
	}
	mailbox_forget(&context_of(ibv->context)->box, ibv);
	context_of(ibv->context)->counts.cq--;
	pthread_mutex_unlock(&world);
	free(cq->ring);
	free(cq);
	return 0;
}

void cq_push(struct cq *cq, struct ibv_wc wc, struct qp *sender, int room)
{
	if (cq->count == cq->size) {
		if (!cq->overrun)
			mailbox_put(&context_of(cq->ibv.context)->box,
				    (struct ibv_async_event){.element.cq = &cq->ibv, .event_type = IBV_EVENT_CQ_ERR});
		cq->overrun = true;
		return;
	}
	cq->ring[(cq->head + cq->count++) % cq->size] = (struct cqe){wc, sender, room};
	if (cq->armed && cq->ibv.channel) {
		cq->armed = false;
		mailbox_put(&((struct channel *)cq->ibv.channel)->box, (struct ibv_async_event){.element.cq = &cq->ibv});
	}
}

int fake_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)ibv;
	int got = 0;
	pthread_mutex_lock(&world);
	for (; got < n && cq->count; got++, cq->count--) {
		struct cqe *e = &cq->ring[cq->head];
		wc[got] = e->wc;
		if (e->sender)
			e->sender->used -= e->room;
		cq->head = (cq->head + 1) % cq->size;
	}
	pthread_mutex_unlock(&world);
	return got;
}

int fake_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	pthread_mutex_lock(&world);
	((struct cq *)ibv)->armed = !solicited_only;
	pthread_mutex_unlock(&world);
	return 0;
}

static bool of_qp(const struct ibv_async_event *event)
{
	return event->event_type == IBV_EVENT_QP_FATAL || event->event_type == IBV_EVENT_QP_ACCESS_ERR ||
	       event->event_type == IBV_EVENT_QP_REQ_ERR;
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	pthread_mutex_lock(&world);
	int rc = mailbox_take(&context_of(ibv)->box, event);
	if (!rc && of_qp(event))
		((struct qp *)event->element.qp)->taken++;
	pthread_mutex_unlock(&world);
	errno = rc;
	return rc ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	pthread_mutex_lock(&world);
	if (of_qp(event))
		event->element.qp->events_completed++;
	pthread_cond_broadcast(&acked);
	pthread_mutex_unlock(&world);
}
