/*
 * Copyright (C) by the mpich-topo authors. See LICENSE.
 */

/*
 * topo-vswitch: the network of a virtual cluster, in one process.
 *
 *     topo-vswitch REPORT TOLERANCE_US < LINKS
 *
 * Standard input has one line per link, upper links first:
 *
 *     NAME PARENT MBPS LATENCY_US GAP_US [MAC]
 *
 * PARENT is the name of the link above, or "-" if the link ends at the topmost switch. A link with
 * a MAC address is the link of a host. NAME is then a device of this network namespace, the other
 * end of the host's device. The last two bytes of the address are the number of the host. MBPS
 * applies to each direction; 0 is no limit. LATENCY_US is the time to pass the link. GAP_US is the
 * least time between two messages that pass in one direction: frames that carry data, not mere
 * acknowledgements.
 *
 * Idea: the switch reads a frame and computes when it would leave the network. It sends the frame
 * at that time. Each direction of each link is a queue, first in, first out. Frames cut through:
 * the head of a frame is on the next link before its tail is, as long as that link is not faster.
 * The kernel stamps each frame with the time at which its host sent it. So nothing depends on when
 * this process reads a frame, as long as it reads it before it is due. The report says how late
 * frames were sent.
 *
 * The devices leave checksums to be computed later, and accept such frames (PACKET_VNET_HDR).
 *
 * The switch prints "ready" on standard output, and runs until it is killed.
 */

#define _GNU_SOURCE

#include "vswitch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINKS 1024
#define MAX_LEVELS 8
#define SLOT 16384      /* bytes of the ring per frame */
#define BLOCK (4 * SLOT)
#define SLOTS 2048
#define MAX_QUEUED (512L << 20) /* limit in bytes of all frames inside */
#define FRAMING 24      /* bytes on a wire in addition to a frame: preamble, checksum, pause */
#define MAX_EARLY 100000        /* most ns that the switch spins before a frame is due */
#define SECOND INT64_C(1000000000)

enum way { UP, DOWN };

struct link {
    char name[IFNAMSIZ];
    int parent, depth;          /* the link above, or -1; number of links above */
    double ns_per_byte;
    int64_t latency, gap;
    int64_t busy[2];            /* time until which the link is busy, by direction */
    int device;                 /* device number of a host's link; otherwise 0 */
    int path[MAX_LEVELS];       /* links from the topmost switch to this one */
};

struct frame {
    int link, to;               /* where the frame is, and the host's link to which it goes */
    enum way way;
    bool has_data;
    int64_t tail;               /* when the last byte reaches that place */
    int size;                   /* including the header of virtio */
    unsigned char bytes[];
};

struct event {
    int64_t at;
    uint64_t number;            /* order of frames with equal time */
    struct frame *frame;
};

static struct link links[MAX_LINKS];
static int num_links;
static short link_of_host[1 << 16];     /* link + 1, by the last two bytes of a MAC address */
static short link_of_device[1 << 16];   /* link + 1, by device */

static struct event *heap;
static size_t num_events, max_events;
static uint64_t num_pushed;
static long queued;             /* bytes */

static struct vswitch_report *report;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
    exit(1);
}

static int64_t time_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t now(void)
{
    return time_of(CLOCK_MONOTONIC);
}

/* ---- events by time: a binary heap ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void push(int64_t at, struct frame *frame)
{
    if (num_events == max_events) {
        max_events = max_events ? 2 * max_events : 1024;
        heap = realloc(heap, max_events * sizeof(*heap));
        if (!heap)
            die("out of memory");
    }
    struct event e = { at, num_pushed++, frame };
    size_t i = num_events++;
    for (; i && is_before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static struct event pop(void)
{
    struct event top = heap[0], last = heap[--num_events];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < num_events; i = child) {
        if (child + 1 < num_events && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

/* ---- the report ---- */

static void tell_lateness(int64_t time, uint64_t late)
{
    uint64_t tick = time / VSWITCH_TICK;
    int i = tick % VSWITCH_TICKS;

    if (report->ticks[i].tick != tick || late > report->ticks[i].late_max_ns) {
        report->ticks[i].late_max_ns = late;
        report->ticks[i].tick = tick;
    }
}

static void tell_departure(int64_t planned)
{
    int64_t t = now();
    uint64_t late = t > planned ? t - planned : 0;

    report->frames++;
    report->late += late > report->tolerance_ns;
    report->late_sum_ns += late;
    if (late > report->late_max_ns)
        report->late_max_ns = late;
    tell_lateness(t, late);
}

static void tell_loss(int frames)
{
    report->dropped += frames;
    tell_lateness(now(), SECOND);       /* about the time until TCP sends a frame again */
}

/* ---- links ---- */

static int find_link(const char *name)
{
    for (int i = 0; i < num_links; i++)
        if (!strcmp(links[i].name, name))
            return i;
    return -1;
}

static void read_links(void)
{
    char line[256], parent[IFNAMSIZ], mac[32];
    double mbps, us, gap;
    unsigned high, low;

    while (fgets(line, sizeof(line), stdin)) {
        if (num_links == MAX_LINKS)
            die("found more than %d links", MAX_LINKS);
        struct link *l = &links[num_links];
        int n = sscanf(line, "%15s %15s %lf %lf %lf %31s", l->name, parent, &mbps, &us, &gap, mac);
        if (n < 5)
            die("found '%s', expected NAME PARENT MBPS LATENCY_US GAP_US [MAC]", strtok(line, "\n"));
        l->parent = find_link(parent);
        if (l->parent < 0 && strcmp(parent, "-"))
            die("link %s: found no link %s above it", l->name, parent);
        if (l->parent >= 0) {
            struct link *above = &links[l->parent];
            l->depth = above->depth + 1;
            if (above->device || l->depth == MAX_LEVELS)
                die("link %s: found too many links above it", l->name);
            memcpy(l->path, above->path, sizeof(l->path));
        }
        l->path[l->depth] = num_links;
        l->ns_per_byte = mbps > 0 ? 8000 / mbps : 0;
        l->latency = us * 1000;
        l->gap = gap * 1000;
        num_links++;
        if (n == 6) {
            l->device = if_nametoindex(l->name);
            if (!l->device || l->device >> 16 || strlen(mac) != 17
                || sscanf(mac + 12, "%2x:%2x", &high, &low) != 2)
                die("link %s: found address %s, and device %d", l->name, mac, l->device);
            link_of_host[high << 8 | low] = num_links;
            link_of_device[l->device] = num_links;
        }
    }
}

/* ---- frames ---- */

static bool has_data(const unsigned char *frame, int size)
{
    const struct iphdr *ip = (const void *) (frame + ETH_HLEN);
    const struct tcphdr *tcp = (const void *) ((const char *) ip + 4 * ip->ihl);

    if (frame[12] != 0x08 || frame[13] != 0 || ip->protocol != IPPROTO_TCP
        || ETH_HLEN + 4 * ip->ihl + (int) sizeof(*tcp) > size)
        return true;
    return ntohs(ip->tot_len) > 4 * (ip->ihl + tcp->doff);
}

/* Read a frame that a host sent. `bytes` begins with the header of virtio. */
static void take(int from, const unsigned char *bytes, int size, int64_t sent)
{
    const unsigned char *frame = bytes + sizeof(struct virtio_net_hdr);
    int length = size - sizeof(struct virtio_net_hdr);
    int to = link_of_host[frame[4] << 8 | frame[5]] - 1;

    if (length < ETH_HLEN || (frame[0] & 1) || to < 0 || to == from)
        return; /* drop it: hosts know their neighbours, so no frame goes to all */
    if (queued + size > MAX_QUEUED) {
        tell_loss(1);
        return;
    }
    struct frame *f = malloc(sizeof(*f) + size);
    if (!f)
        die("out of memory");
    queued += size;
    *f = (struct frame) {.link = from,.to = to,.way = UP,.tail = sent,.size = size };
    f->has_data = has_data(frame, length);
    memcpy(f->bytes, bytes, size);
    push(sent, f);
}


/* The head of a frame reaches a link, or leaves the last link: then the frame has arrived. */
static void advance(int socket, int64_t at, struct frame *f)
{
    if (f->link < 0) {
        struct sockaddr_ll there = {.sll_family = AF_PACKET,.sll_ifindex = links[f->to].device };
        tell_departure(at);
        if (sendto(socket, f->bytes, f->size, 0, (void *) &there, sizeof(there)) < 0)
            tell_loss(1);
        queued -= f->size;
        free(f);
        return;
    }

    struct link *l = &links[f->link];
    const int *path = links[f->to].path;
    int64_t takes = (f->size - sizeof(struct virtio_net_hdr) + FRAMING) * l->ns_per_byte;
    int64_t start = at > l->busy[f->way] ? at : l->busy[f->way];
    /* a faster link waits until it can send the frame without a pause */
    if (start < f->tail - takes)
        start = f->tail - takes;
    l->busy[f->way] = start + (f->has_data && takes < l->gap ? l->gap : takes);
    f->tail = start + takes + l->latency;

    if (f->way == UP && (l->parent < 0 || path[l->depth - 1] == l->parent)) {
        f->way = DOWN;
        f->link = path[l->depth];
    } else if (f->way == UP) {
        f->link = l->parent;
    } else {
        f->link = f->link == f->to ? -1 : path[l->depth + 1];
    }
    push(f->link < 0 ? f->tail : start + l->latency, f);
}

/* ---- the ring of frames from hosts ---- */

static int open_ring(unsigned char **ring)
{
    int on = 1, version = TPACKET_V2;
    struct tpacket_req shape = { BLOCK, SLOTS / (BLOCK / SLOT), SLOT, SLOTS };
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

    if (fd < 0)
        die("packet socket: %s", strerror(errno));
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version))
        || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on))
        || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on))
        || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on))
        || setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &shape, sizeof(shape)))
        die("packet socket: %s", strerror(errno));
    *ring = mmap(NULL, (size_t) SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ring == MAP_FAILED)
        die("ring of a packet socket: %s", strerror(errno));
    return fd;
}

/* Read all frames that wait. Returns whether there was one. */
static void drain(int fd, unsigned char *ring)
{
    static int slot;
    int64_t offset = 0, t = 0;

    for (;; slot = (slot + 1) % SLOTS) {
        struct tpacket2_hdr *h = (void *) (ring + (size_t) slot * SLOT);
        uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
        if (!(status & TP_STATUS_USER))
            return;
        struct sockaddr_ll *from = (void *) ((char *) h + TPACKET_ALIGN(sizeof(*h)));
        int link = from->sll_ifindex >> 16 ? -1 : link_of_device[from->sll_ifindex] - 1;
        if (!t) {
            t = now();
            offset = t - time_of(CLOCK_REALTIME);
        }
        int64_t sent = h->tp_sec * SECOND + h->tp_nsec + offset;
        if (status & TP_STATUS_LOSING) {
            struct tpacket_stats stats;
            socklen_t size = sizeof(stats);
            if (!getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
                tell_loss(stats.tp_drops);
        }
        if (h->tp_len > h->tp_snaplen)
            tell_loss(1);
        else if (link >= 0)
            take(link, (unsigned char *) h + h->tp_mac - sizeof(struct virtio_net_hdr),
                 h->tp_snaplen + sizeof(struct virtio_net_hdr), sent < t ? sent : t);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

int main(int argc, char **argv)
{
    unsigned char *ring;

    if (argc != 3)
        die("usage: topo-vswitch REPORT TOLERANCE_US < LINKS");
    int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, sizeof(*report)))
        die("%s: %s", argv[1], strerror(errno));
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (report == MAP_FAILED)
        die("%s: %s", argv[1], strerror(errno));
    report->tolerance_ns = atof(argv[2]) * 1000;
    read_links();
    int fd = open_ring(&ring);
    /* If this is not permitted, other processes may delay the switch. The report then counts late
     * frames. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param) {.sched_priority = 10 });
    prctl(PR_SET_TIMERSLACK, 1);
    puts("ready");
    fflush(stdout);

    /* The kernel wakes this process late, often by about the same time. So it sets an earlier
     * timer, and spins for the rest of the time in this loop. */
    int64_t early = 0;
    for (;;) {
        drain(fd, ring);
        int64_t due = num_events ? heap[0].at : now() + SECOND, wait = due - now();
        if (wait <= 0) {
            struct event e = pop();
            advance(fd, e.at, e.frame);
        } else if (wait > early) {
            struct pollfd p = {.fd = fd,.events = POLLIN };
            struct timespec timeout = { (wait - early) / SECOND, (wait - early) % SECOND };
            int n = ppoll(&p, 1, &timeout, NULL);
            if (n < 0 && errno != EINTR)
                die("ppoll: %s", strerror(errno));
            if (n == 0) {
                int64_t late = now() - (due - early);
                early += ((late < MAX_EARLY ? late : MAX_EARLY) - early) / 8;
            }
        }
    }
}
